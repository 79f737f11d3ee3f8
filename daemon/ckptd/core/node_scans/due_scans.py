"""Which locations that only nodes see are scanned next: rarely, and one of each owner at a time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import Job, RunKey

Tried = Mapping[RunKey, "TriedScan"]


class TriedScan(NamedTuple):
    """The last time that a location was scanned on a node, with success or not."""

    attempt: tuple[int, int]  # job id and restart count
    at: datetime


class DueScans(NamedTuple):
    """The jobs to ask, and the runs of which several jobs run, each perhaps with a location of its own."""

    jobs: dict[RunKey, Job]
    ambiguous: dict[RunKey, tuple[str, ...]]  # Slurm's names of these jobs


def name_attempt(job: Job) -> tuple[int, int]:
    return job.job_id, job.restart_count


def list_due(
    runs: Iterable[RunKey], jobs: Iterable[tuple[RunKey, Job]], tried: Tried, interval: timedelta, now: datetime
) -> DueScans:
    """Return what to scan: one run of each owner, the one that has waited longest; owners who waited longest first.

    A run is due again after the interval, and when another attempt runs. Without a running job it never is.
    """
    wanted = set(runs)
    running: dict[RunKey, list[Job]] = defaultdict(list)
    for run, job in jobs:
        if run in wanted and job.is_running:
            running[run].append(job)
    ambiguous = {
        run: tuple(job.slurm_name for job in sorted(found, key=lambda job: job.job_id))
        for run, found in running.items()
        if len(found) > 1
    }
    single = {run: found[0] for run, found in running.items() if len(found) == 1}
    due = [run for run, job in single.items() if _is_due(tried.get(run), job, interval, now)]
    due.sort(key=lambda run: (run in tried, tried[run].at if run in tried else now, run))
    chosen: dict[int, RunKey] = {}
    for run in due:
        chosen.setdefault(run.uid, run)
    had_turns: dict[int, datetime] = {}
    for run, last in tried.items():
        had_turns[run.uid] = max(last.at, had_turns.get(run.uid, last.at))
    order = sorted(chosen, key=lambda uid: (uid in had_turns, had_turns.get(uid, now), uid))
    return DueScans({chosen[uid]: single[chosen[uid]] for uid in order}, ambiguous)


def _is_due(last: TriedScan | None, job: Job, interval: timedelta, now: datetime) -> bool:
    if last is None or last.attempt != name_attempt(job):
        return True
    return not timedelta(0) <= now - last.at < interval
