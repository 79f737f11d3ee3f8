"""Tells of acts on jobs: each in the log, how many for metrics, and once that others wait since so many were done."""

import logging
from collections import Counter

from ckptd.acting import Acted
from ckptd.core.actions import ActKind

log = logging.getLogger("ckptd")


class ActsTold:
    """What was done since the start, and what waits now."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[ActKind, str]] = Counter()  # by kind and how it went
        self.put_off: Counter[ActKind] = Counter(dict.fromkeys(ActKind, 0))

    def note(self, acted: Acted) -> None:
        """Tell of what was done in one step, and of a kind that begins or ceases to be put off."""
        for act, outcome in acted.done:
            log.warning("%s: job %s of %s: %s", act.kind.value, act.job.job_id, ascii(act.job.user), ascii(outcome))
            self.counts[act.kind, _result(outcome)] += 1
        waiting = Counter(act.kind for act in acted.put_off)
        for kind in ActKind:
            if waiting[kind] and not self.put_off[kind]:
                users = sorted({ascii(act.job.user) for act in acted.put_off if act.kind is kind})
                log.warning(
                    "%s: put off for %d jobs, of %s: so much was done within the hour (actions.max_per_hour)",
                    *(kind.value, waiting[kind], ", ".join(users[:5])),
                )
            elif self.put_off[kind] and not waiting[kind]:
                log.warning("%s: no longer put off", kind.value)
            self.put_off[kind] = waiting[kind]


def _result(outcome: str) -> str:
    for start, result in (("failed", "failed"), ("not needed", "not-needed")):
        if outcome.startswith(start):
            return result
    return "done"
