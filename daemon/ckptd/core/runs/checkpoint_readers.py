"""Find the jobs that only read a run's checkpoints, such as an evaluation in the directory of a training.

A save shows which jobs write: those of one name, if only jobs of that name ran when it was completed. Jobs of all other
names are readers. If all jobs of a run have one name, or the run has saved nothing, it has no readers.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ckptd.core.model import Attempt, Job, JobKey, RunRecord
from ckptd.core.runs.resumable import list_resumable


class NamedSpan(NamedTuple):
    """When a job of some name ran; None: it still runs."""

    name: str
    started_at: datetime
    ended_at: datetime | None


def find_reader_names(spans: Sequence[NamedSpan], saved: Iterable[datetime]) -> frozenset[str]:
    """Return the names of the jobs of which no save shows that they write, if others show it."""
    names = {each.name for each in spans}
    if len(names) < 2:
        return frozenset()
    writers: set[str] = set()
    for saved_at in saved:
        running = {
            each.name
            for each in spans
            if each.started_at < saved_at and (each.ended_at is None or saved_at <= each.ended_at)
        }
        if len(running) == 1:
            writers |= running
    return frozenset(names - writers) if writers else frozenset()


def list_spans(attempts: Iterable[Attempt], names: Mapping[JobKey, str]) -> list[NamedSpan]:
    """Return when the jobs of a run ran, by name."""
    return [NamedSpan(names[each.job], each.started_at, each.ended_at) for each in attempts if each.job in names]


def find_readers(history: RunRecord) -> frozenset[JobKey]:
    """Return the jobs of a run that only read its checkpoints, as far as its saves show."""
    if not history.job_names:
        return frozenset()
    saved = (each.completed_at for each in list_resumable(history.checkpoints) if each.completed_at is not None)
    readers = find_reader_names(list_spans(history.attempts, history.job_names), saved)
    return frozenset(key for key, name in history.job_names.items() if name in readers)


def is_reader(history: RunRecord, job: Job) -> bool:
    """Whether a job of the run only reads its checkpoints, as far as its saves show."""
    return any(key.job_id == job.job_id for key in find_readers(history))
