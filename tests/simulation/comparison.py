"""Compares the flags of two watches of one world, to see that judging less often finds the same."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ckptd.core.model import Flag
from simulation.polls import TICK

TOLERANCE = timedelta(seconds=2 * TICK)


@dataclass(frozen=True)
class Comparison:
    """How many flags were the same to the instant, how many began or ended within two polls, and which did not."""

    same: int
    near: int
    only_first: list[tuple[Any, Flag]]
    only_second: list[tuple[Any, Flag]]

    @property
    def total(self):
        return self.same + self.near + max(len(self.only_first), len(self.only_second))


def compare(first: Mapping[Any, list[Flag]], second: Mapping[Any, list[Flag]]) -> Comparison:
    """Compare the flags of each run, by its name."""
    same = near = 0
    only_first, others = [], defaultdict(list)
    for run, flags in second.items():
        for flag in flags:
            others[run, _about(flag)].append(flag)
    for run, flags in first.items():
        for flag in flags:
            alike = others[run, _about(flag)]
            found = next((each for each in alike if _times(each) == _times(flag)), None)
            same += found is not None
            if found is None:
                found = next((each for each in alike if _is_near(each, flag)), None)
                near += found is not None
            if found is None:
                only_first.append((run, flag))
            else:
                alike.remove(found)
    return Comparison(same, near, only_first, [(run, flag) for (run, _), left in others.items() for flag in left])


def _about(flag):
    return flag.finding.rule, flag.finding.job_id, flag.finding.severity


def _times(flag):
    return flag.opened_at, flag.worsened_at, flag.resolved_at


def _is_near(one, other):
    pairs = zip(_times(one), _times(other), strict=True)
    return all(a is b or (a is not None and b is not None and abs(a - b) <= TOLERANCE) for a, b in pairs)
