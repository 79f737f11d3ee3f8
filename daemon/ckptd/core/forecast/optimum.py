"""How often to save: Daly's optimum, from the measured save duration and the rate of interruptions."""

import math
from datetime import timedelta

from ckptd.core.model import InterruptionTally

# Assumptions while a cluster has few data of its own, with the weight of one interruption: a node fails once in five
# years, and each job, however small, is interrupted by another cause once in thirty days.
NODE_LIFE = timedelta(days=5 * 365)
CALM = timedelta(days=30)
PRIOR_WEIGHT = 1.0
CONFIDENCE = 1.28  # standard deviations that nine of ten values lie below


def daly_optimum(save_time: timedelta, mean_time_between_interruptions: timedelta) -> timedelta:
    """Return the optimal interval (J. T. Daly, 2006, eq. 37); d is the save duration, M the mean time between failures.

    sqrt(2dM) * (1 + sqrt(d/(2M))/3 + d/(2M)/9) - d for d < 2M, else M.
    """
    save = save_time.total_seconds()
    mean = mean_time_between_interruptions.total_seconds()
    if save >= 2 * mean:
        return mean_time_between_interruptions
    ratio = save / (2 * mean)
    return timedelta(seconds=math.sqrt(2 * save * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save)


def mean_time_between_interruptions(tally: InterruptionTally | None, node_count: int) -> timedelta:
    """Estimate it for jobs of a size: the counted interruptions, with the assumed rate as one more interruption.

    This is the mean of a rate whose prior is a gamma distribution of shape 1.
    """
    prior = timedelta(days=1) / (timedelta(days=1) / CALM + timedelta(days=1) * max(node_count, 1) / NODE_LIFE)
    if tally is None:
        return prior
    return (tally.observed + prior * PRIOR_WEIGHT) / (tally.interruption_count + PRIOR_WEIGHT)


def longest_mean_time(tally: InterruptionTally | None, node_count: int) -> timedelta:
    """Return an upper bound of the mean time between interruptions; with few data it is far above the estimate.

    The estimated rate has a relative standard deviation of 1/sqrt(n), where n is the number of counted interruptions.
    """
    number = (tally.interruption_count if tally else 0) + PRIOR_WEIGHT
    return mean_time_between_interruptions(tally, node_count) * (1 + CONFIDENCE / math.sqrt(number))
