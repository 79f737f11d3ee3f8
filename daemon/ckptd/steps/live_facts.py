"""Adds to what the database has of runs what is known live: the queue, the last scan, and facts that rules read."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from ckptd.core.model import (
    NOTHING,
    SUSPENDED_STATES,
    Flag,
    Job,
    LimitSignal,
    RunContext,
    RunHistory,
    RunKey,
    RunRecord,
    Scan,
    SitePurge,
    Unknown,
)
from ckptd.core.runs.earlier_directories import join_earlier
from ckptd.steps.further_locations import read_locations
from ckptd.steps.job_action_history import RunActions
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.queued_jobs import QueuedJobs
from ckptd.steps.run_facts import EndTallies, FreeSpaceSamples, JobHolds
from ckptd.steps.snapshots import PurgeFacts, ScanProgress, SharedRuns
from ckptd.steps.state import State
from ckptd.store.histories import RevisedRecord


def bring_up(
    parts: Parts,
    state: State,
    wanted: Mapping[RunKey, RevisedRecord],
    scans: Mapping[RunKey, Scan | Unknown | None],
    queue: QueuedJobs,
    before: Mapping[RunKey, RunHistory | None],
) -> list[RunRecord]:
    """Return records with newer data: jobs, other writers, the last scan, free space; in the order of their rows.

    `before` has the runs' histories as of their last evaluation.
    """
    queued, jobs, writers = queue.queued, queue.by_run, queue.by_directory
    free_space = state.latest(FreeSpaceSamples).by_run
    locations = read_locations(parts, state, before)
    elsewhere = state.latest(SharedRuns).writers
    polled_at = None if queued.slurm_trouble else queued.polled_at  # while Slurm is silent nothing is judged
    return [
        join_earlier(
            replace(
                record,
                jobs=tuple(jobs.get(record.key, ())),
                suspended_until=_bring_up_suspensions(record, jobs.get(record.key, ()), queued.polled_at),
                other_writers=(
                    *((job, job.user) for run, job in writers.get(record.key.directory, ()) if run != record.key),
                    *elsewhere.get(record.key, ()),
                ),
                polled_at=polled_at,
                scan=scans[record.key],
                free_space_samples=free_space.get(record.key, ()),
            ),
            locations.get(record.key, record.copies),
        )
        for record in (each.record for each in sorted(wanted.values(), key=lambda each: each.row_id))
    ]


def _bring_up_suspensions(record: RunRecord, jobs: Iterable[Job], polled_at: datetime | None) -> Mapping[int, datetime]:
    """Return when each job was last suspended; for a job that is suspended, the time of the last poll."""
    now = [job.job_id for job in jobs if job.state in SUSPENDED_STATES]
    if not now or polled_at is None:
        return record.suspended_until
    return {**record.suspended_until, **dict.fromkeys(now, polled_at)}


def make_context(
    parts: Parts,
    state: State,
    record: RunRecord,
    signals: Mapping[int, LimitSignal | None],
    flags: Iterable[Flag],
    actions: RunActions,
) -> RunContext:
    """Return the live data about a run that is not in the database."""
    asked = {job.job_id: signals.get(job.job_id) for job in record.jobs}
    tallies = state.latest(EndTallies)
    flags = tuple(flags)
    return RunContext(
        is_named_by_script=record.key in state.latest(ScanProgress).named_by_script,
        is_preempted_there=any(tallies.is_preempted(job.partition) for job in record.jobs),
        interruptions=tallies.find_interruptions(record),
        maintenance=state.latest(PolledQueue).maintenance,
        holds=state.latest(JobHolds).find(record.attempts) or NOTHING,
        signals={job_id: signal for job_id, signal in asked.items() if signal} or NOTHING,
        signalled=actions.signalled or NOTHING,
        standing=actions.standing,
        resubmitted=actions.resubmitted or NOTHING,
        flagged=frozenset((flag.finding.rule, flag.finding.job_id) for flag in flags),
        open_evidence={(flag.finding.rule, flag.finding.job_id): flag.finding.evidence for flag in flags} or NOTHING,
        purge=_purge_of(parts, state, record.key),
    )


def _purge_of(parts: Parts, state: State, key: RunKey) -> SitePurge:
    """Return what the site deletes by itself at a run's directory."""
    workspace = None
    if parts.workspace_databases and key.is_located:
        unread = Unknown(what="workspace", reason="the database of workspaces was not read yet")
        workspace = state.latest(PurgeFacts).workspaces.get(key, unread)
    return SitePurge(rules=parts.purge_rules, workspace=workspace)
