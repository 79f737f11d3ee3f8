"""Finds out from the queue what became of actions that were interrupted between their record and its outcome.

A job that was submitted carries the action's mark, and a held job waits. If no job carries the mark of a resubmission
although the queue would still show it, it was not submitted and is tried again (docs/decisions/0022). What the queue
cannot show is given up, and never repeated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.job_actions import action_policy
from ckptd.core.job_actions.action_policy import DONE, ActionKind, JobAction
from ckptd.core.job_actions.hourly_limit import ACTOR
from ckptd.core.job_actions.resubmit_policy import SUBMITTED
from ckptd.core.model import RunHistory, RunKey
from ckptd.core.model.records import AuditEntry
from ckptd.core.queue import federation
from ckptd.store.store import Store

CUT_OFF_AGE = timedelta(minutes=5)  # after which a job that was submitted would long be seen
# between this process's first sight of an interrupted action, when nothing carries it out any more, and a poll that
# shows whatever Slurm had been told until then
SETTLED_AFTER = timedelta(minutes=2)
CLOCK_MARGIN = timedelta(seconds=30)  # by which the clock of the daemon before may differ

Marked = Mapping[tuple[int, str], int]  # by owner and mark: the jobs in the queue that ckptd submitted


@dataclass(slots=True)
class InterruptedActions:
    """Memory of the step `act`: when this process first saw each unfinished record."""

    seen_at: dict[int, datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AbsenceProof:
    """What shows that a job without a mark in the queue was never submitted."""

    polled_at: datetime  # when the poll began that the marks are from
    kept_for: timedelta  # Slurm shows a job at least that long after its end
    seen_at: dict[int, datetime] = field(default_factory=dict)  # by record: when this process first saw it unfinished

    def is_unsubmitted(self, entry: AuditEntry, now: datetime) -> bool:
        """Whether a resubmission without a marked job in the queue cannot have reached Slurm."""
        number = entry.target.removeprefix("job ").partition("_")[0]
        if entry.action != ActionKind.RESUBMIT or not number.isdecimal() or federation.is_federated(int(number)):
            return False  # another cluster may have the job
        seen_at = self.seen_at.setdefault(entry.audit_id or 0, now)
        is_settled = self.polled_at - seen_at >= SETTLED_AFTER
        return is_settled and self.polled_at - entry.begun_at <= self.kept_for - CLOCK_MARGIN


def finish_interrupted(
    store: Store,
    cluster: str,
    histories: Mapping[RunKey, RunHistory],
    marked: Marked,
    proof: AbsenceProof | None,
    now: datetime,
) -> Iterator[tuple[JobAction, str]]:
    """Record the outcome of interrupted actions, as far as the queue shows it; yield the holds that were done."""
    for entry in store.audit.list_newest(cluster, unfinished_only=True):
        if entry.actor != ACTOR or entry.audit_id is None:
            continue
        job_id = marked.get((entry.run.uid if entry.run else -1, str(entry.details.get("mark", ""))))
        if job_id is not None:
            store.audit.finish(entry.audit_id, f"{SUBMITTED} {job_id}", now)
        elif held := _find_held(entry, histories):
            store.audit.finish(entry.audit_id, DONE, now)
            yield held, DONE
        elif proof is not None and proof.is_unsubmitted(entry, now):
            store.audit.undo(entry.audit_id, "interrupted before it was submitted: no job carries its mark", now)
        elif now - entry.begun_at > CUT_OFF_AGE:
            store.audit.finish(entry.audit_id, "cut off: it is not known to have been done", now)


def _find_held(entry: AuditEntry, histories: Mapping[RunKey, RunHistory]) -> JobAction | None:
    """Return an interrupted hold if its job is held; None for other actions."""
    word, name = str(entry.details.get("word", "")), entry.plan_id or ""
    hold = action_policy.read_hold(entry.cluster, name, word)
    history = histories.get(entry.run) if entry.run else None
    if hold is None or history is None:
        return None
    numbers = {each.job.job_id for each in history.attempts if each.job == hold[0]}
    job = next((job for job in history.jobs if job.is_held and job.job_id in numbers), None)
    if job is None:
        return None
    return JobAction(kind=ActionKind.HOLD, name=name, run=history.key, job=job, word=word, reasons=entry.reasons)
