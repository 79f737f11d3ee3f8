"""Probability of a loss at the time limit: the job runs until then, and no save completes shortly before."""

from datetime import datetime, timedelta
from statistics import NormalDist

from ckptd.core.forecast import projection
from ckptd.core.model import Attempt, EndCause, LimitSignal, RunRecord
from ckptd.core.model.save_cadence import SaveCadence
from ckptd.core.runs.cadence import measure_rhythm

HEEDED = 0.8  # share of the jobs that save at their limit, of those that ask for a signal or did so last time
SILENT_SAVERS = 0.05  # share of the jobs that save when their limit is near, unknown to anybody
MAX_SAVES = 1000  # considered before a limit: a job may save each millisecond
_NORMAL = NormalDist()


def running_on(
    history: RunRecord, attempt: Attempt, ends_at: datetime, now: datetime, *, margin: timedelta = projection.MARGIN
) -> float:
    """Return the probability that an attempt does not end by itself before its limit.

    With a goal, it is 0 or 1. Otherwise a run that has lasted for T continues for t more with probability T / (T + t)
    (Lindy's rule: a Pareto distribution of shape 1, which has no scale). T is the time of the whole training, over all
    attempts since the last completed one.
    """
    goal = projection.toward_goal(history, attempt, ends_at, now, margin=margin)
    if goal is not None and goal.done_at is not None:
        return 0.0 if goal.done_at + margin <= ends_at else 1.0
    lasted = timedelta(0)
    for each in history.attempts:
        if each.cause is EndCause.COMPLETED:
            lasted = timedelta(0)
        else:
            lasted += max((each.ended_at or now) - each.started_at, timedelta(0))
    return _lasting(lasted, ends_at - now)


def _lasting(lasted: timedelta, left: timedelta) -> float:
    left = max(left, timedelta(0))
    return lasted / (lasted + left) if lasted + left else 0.0


def not_saving_at_the_end(history: RunRecord, *, tolerance: timedelta, asked: LimitSignal | None = None) -> float:
    """Return the probability that a job does not save shortly before its limit without having declared that it does.

    It is 1 after an attempt that reached its limit without a save within `tolerance` before it. It is low if the newest
    such attempt did save there, as after a change of the job script, or if the job requests a signal early enough for a
    save, or `.ckptd.toml` names one: most such jobs save on it.
    """
    if projection.has_saved_late(history, tolerance):
        return 1.0 - HEEDED
    if any(projection.lost_at_limit(history, each, tolerance) for each in history.attempts):
        return 1.0
    is_prepared = history.user_settings.saves_on_signal or projection.asks_in_time(asked, measure_rhythm(history))
    return 1.0 - (HEEDED if is_prepared else SILENT_SAVERS)


def losing(
    expected: projection.LimitForecast, rhythm: SaveCadence, ends_at: datetime, now: datetime, worth_telling: timedelta
) -> float:
    """Return the probability that no save completes within `worth_telling` before the limit.

    Future saves are normally distributed around their expected times, and their spreads add up. If a run has stopped
    saving, its interval does not predict the next save: it continues not to save as any run continues (`running_on`).
    """
    if expected.silent_since is not None:
        return _lasting(now - expected.silent_since, ends_at - now)
    if expected.saves_that_fit == 0 and expected.lost < worth_telling:
        return 0.0  # it has just been saved
    interval = rhythm.step_interval or timedelta(0)
    second = timedelta(seconds=1)
    saved_late = 0.0
    last = expected.saves_that_fit + 2
    for number in range(last, max(last - MAX_SAVES, 0), -1):
        if saved_late >= 1.0:
            break
        due = expected.next_at + interval * (number - 1)
        spread = max(rhythm.spread * number**0.5, second)
        until_end = _NORMAL.cdf((ends_at - due) / spread)
        saved_late += until_end - _NORMAL.cdf((ends_at - worth_telling - due) / spread)
    return max(1.0 - saved_late, 0.0)
