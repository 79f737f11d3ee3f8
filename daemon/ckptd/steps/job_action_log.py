"""Logs actions on jobs and counts them for metrics; logs once when actions are deferred, with the reason."""

import itertools
from collections import Counter, defaultdict
from typing import NamedTuple

from ckptd.core.job_actions.action_policy import ActionKind, DeferReason, JobAction
from ckptd.present.formatting import format_count
from ckptd.steps.results import LogLine, warning
from ckptd.steps.snapshots import ActionCounts

RESULTS = ("done", "not-needed", "failed")
Waiting = tuple[ActionKind, DeferReason]
_WHY = {
    DeferReason.LIMIT: "actions.max_per_hour is reached",
    DeferReason.SLURM: "Slurm does not answer",
}


class ActResults(NamedTuple):
    """Actions with their outcomes, and deferred actions."""

    done: tuple[tuple[JobAction, str], ...] = ()
    deferred: tuple[JobAction, ...] = ()
    waits_for: DeferReason = DeferReason.LIMIT


class JobActionLog:
    """Counts of actions since the start, and of those deferred now."""

    def __init__(self) -> None:
        self.counts = Counter(dict.fromkeys(itertools.product(ActionKind, RESULTS), 0))  # by kind and how it went
        self.deferred: dict[Waiting, int] = dict.fromkeys(itertools.product(ActionKind, DeferReason), 0)

    def record(self, acted: ActResults) -> tuple[LogLine, ...]:
        """Count the actions of one step; return log lines for them, and for kinds whose deferral starts or ends."""
        lines: list[LogLine] = []
        for act, outcome in acted.done:
            text = f"{act.kind.value}: job {act.job.job_id} of {act.job.user!a}: {outcome!a}"
            lines.append(warning(text, run=act.run.directory, job=act.job.job_id, user=act.job.user))
            self.counts[act.kind, _result(outcome)] += 1
        users: dict[Waiting, set[str]] = defaultdict(set)
        waiting: Counter[Waiting] = Counter()
        for act in acted.deferred:
            waiting[act.kind, acted.waits_for] += 1
            users[act.kind, acted.waits_for].add(ascii(act.job.user))
        for (kind, reason), before in self.deferred.items():
            count = waiting[kind, reason]
            if count and not before:
                names = ", ".join(sorted(users[kind, reason])[:5])
                lines.append(warning(f"{kind.value} deferred: {format_count(count, 'job')} of {names}: {_WHY[reason]}"))
            elif before and not count:
                lines.append(warning(f"{kind.value} no longer deferred"))
            self.deferred[kind, reason] = count
        return tuple(lines)

    def read_counts(self) -> ActionCounts:
        """Return the current counts."""
        return ActionCounts(dict(self.counts), dict(self.deferred))


def _result(outcome: str) -> str:
    for start, result in (("failed", "failed"), ("not needed", "not-needed")):
        if outcome.startswith(start):
            return result
    return "done"
