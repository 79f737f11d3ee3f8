"""Tells of acts on jobs: each in the log, how many for metrics, and once that others wait, and what for."""

import itertools
import logging
from collections import Counter, defaultdict

from ckptd.core.job_actions.action_policy import ActKind, PutOff
from ckptd.steps.act import Acted

log = logging.getLogger("ckptd")

RESULTS = ("done", "not-needed", "failed")
Waiting = tuple[ActKind, PutOff]
_WHY = {
    PutOff.LIMIT: "actions.max_per_hour is reached",
    PutOff.SLURM: "Slurm does not answer",
}


class ActsTold:
    """What was done since the start, and what waits now."""

    def __init__(self) -> None:
        self.counts = Counter(dict.fromkeys(itertools.product(ActKind, RESULTS), 0))  # by kind and how it went
        self.put_off: dict[Waiting, int] = dict.fromkeys(itertools.product(ActKind, PutOff), 0)

    def note(self, acted: Acted) -> None:
        """Tell of what was done in one step, and of a kind that begins or ceases to be put off."""
        for act, outcome in acted.done:
            log.warning("%s: job %s of %s: %s", act.kind.value, act.job.job_id, ascii(act.job.user), ascii(outcome))
            self.counts[act.kind, _result(outcome)] += 1
        users: dict[Waiting, set[str]] = defaultdict(set)
        waiting: Counter[Waiting] = Counter()
        for act in acted.put_off:
            waiting[act.kind, acted.waits_for] += 1
            users[act.kind, acted.waits_for].add(ascii(act.job.user))
        for (kind, reason), before in self.put_off.items():
            count = waiting[kind, reason]
            if count and not before:
                names = ", ".join(sorted(users[kind, reason])[:5])
                log.warning("%s deferred: %d jobs of %s: %s", kind.value, count, names, _WHY[reason])
            elif before and not count:
                log.warning("%s no longer deferred", kind.value)
            self.put_off[kind, reason] = count


def _result(outcome: str) -> str:
    for start, result in (("failed", "failed"), ("not needed", "not-needed")):
        if outcome.startswith(start):
            return result
    return "done"
