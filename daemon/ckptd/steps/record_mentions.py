"""Records the paths that queued jobs name; a job's fields are parsed when it is new or they change."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from ckptd.core.discovery import path_mentions
from ckptd.core.discovery.path_mentions import JobMentions
from ckptd.core.model import ENDED_STATES, Job, QueueSnapshot, Unknown
from ckptd.slurm.failure_reasons import is_deferred
from ckptd.steps.parts import Parts
from ckptd.steps.snapshots import QueuedMentions
from ckptd.steps.state import State

MAX_TRIES = 3  # to read a script; then it may name anything near its job


@dataclass(slots=True)
class _UnreadScripts:
    """How often Slurm failed to return a script, by job; a slice of the step `prune`."""

    counts: Counter[int] = field(default_factory=Counter)


def record_snapshot(
    parts: Parts, state: State, snapshot: QueueSnapshot, *, is_recorded: bool = True, uid: int | None = None
) -> None:
    """Record changes of the paths that jobs name, before the poll itself; remove those of jobs that left the queue.

    A command records nothing. With `uid`, it sees only that user's jobs, and keeps the recorded paths of other users.
    """
    last = state.latest(QueuedMentions)
    queued = {job.job_id: job for job in snapshot.jobs if job.state not in ENDED_STATES}
    found: dict[int, JobMentions] = {}
    for job_id, job in queued.items():
        before, known = last.queued.get(job_id), last.by_job.get(job_id)
        if before is None or not _is_unchanged(job, before):
            known = path_mentions.describe(job, known, reads_scripts=parts.reads_batch_scripts)
        if known is not None and not known.is_empty:
            found[job_id] = known
    if uid is not None:
        found |= {job_id: known for job_id, known in last.by_job.items() if known.uid != uid}
    changed = [each for job_id, each in found.items() if each != last.by_job.get(job_id)]
    removed = [job_id for job_id in last.by_job if job_id not in found]
    if is_recorded:
        parts.store.mentions.record(parts.cluster, changed, removed)
    state.publish(QueuedMentions(queued, found))


def _is_unchanged(job: Job, before: Job) -> bool:
    return job is before or (
        job.state is before.state
        and job.started_at == before.started_at
        and job.name == before.name
        and job.comment == before.comment
        and job.command == before.command
        and job.work_dir == before.work_dir
        and job.uid == before.uid
    )


def read_scripts(parts: Parts, state: State, owners: Collection[int], limit: int, *, is_recorded: bool = True) -> None:
    """Read the scripts of these owners' jobs that were not read yet, each once, and one for all tasks of an array."""
    awaited: dict[int, list[Job]] = {}
    last, unread = state.latest(QueuedMentions), state.own(_UnreadScripts, _UnreadScripts)
    unread.counts = Counter({job_id: count for job_id, count in unread.counts.items() if job_id in last.by_job})
    for job_id, known in last.by_job.items():
        job = last.queued.get(job_id)
        if known.is_script_awaited and known.uid in owners and job is not None:
            awaited.setdefault(job.array_job_id or job_id, []).append(job)
    for jobs in list(awaited.values())[:limit]:
        script = parts.source.read_batch_script(jobs[0])
        if is_deferred(script):
            return
        if isinstance(script, Unknown):
            unread.counts.update(job.job_id for job in jobs)
            jobs = [job for job in jobs if unread.counts[job.job_id] >= MAX_TRIES]  # noqa: PLW2901
        read = {job.job_id: _list_named(script, job) for job in jobs}
        found = [_with_script(state, job_id, named) for job_id, named in read.items()]
        change(parts, state, found, is_recorded=is_recorded)


def _list_named(script: str | Unknown, job: Job) -> tuple[path_mentions.Mention, ...]:
    if isinstance(script, Unknown):
        return (path_mentions.mention_unreadable_script(job),)
    return path_mentions.list_script_mentions(script, job)


def _with_script(state: State, job_id: int, named: tuple[path_mentions.Mention, ...]) -> JobMentions | None:
    known = state.latest(QueuedMentions).by_job.get(job_id)
    return known and replace(known, script_mentions=named, is_script_awaited=False)


def change(parts: Parts, state: State, changed: Iterable[JobMentions | None], *, is_recorded: bool = True) -> None:
    """Apply results about jobs that are still in the queue; a command does not record them."""
    with state.recording():
        last = state.latest(QueuedMentions)
        kept = [each for each in changed if each is not None and (each.job_id in last.by_job or _is_added(each, last))]
        kept = [each for each in kept if each != last.by_job.get(each.job_id)]
        if is_recorded:
            parts.store.mentions.record(parts.cluster, kept)
        if kept:
            by_job = {**last.by_job, **{each.job_id: each for each in kept}}
            state.publish(replace(last, by_job=by_job))


def _is_added(found: JobMentions, last: QueuedMentions) -> bool:
    """Whether something was found for a job that named nothing so far."""
    return found.job_id in last.queued and not found.is_empty
