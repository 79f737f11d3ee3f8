"""A fleet as a daemon sees it, of any size: histories, flags and the report that is made of them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

from ckptd.checkpoints.trash import TrashResult
from ckptd.core.fleet import fleet_totals
from ckptd.core.fleet.event_counts import EventTotals
from ckptd.core.fleet.prune_totals import DONE, FailureCause, PruneAction, PruneTotals, RemovableTotals, TrashTotals
from ckptd.core.fleet.snapshot import Report
from ckptd.core.health import RULES
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import (
    Attempt,
    CheckpointState,
    EndCause,
    Finding,
    Flag,
    Job,
    JobKey,
    JobState,
    RecordedCheckpoint,
    RestartKind,
    RunHistory,
    RunKey,
    Scan,
    Severity,
    Unknown,
)
from ckptd.core.notices.delivery import Outbox
from ckptd.core.queue import JobChanges
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.steps.event_counter import EventCounter, list_saves
from support.checkpoints import make_checkpoint
from support.run_builder import make_history

FORMATS = ("torch", "safetensors", "hdf5", "orbax", "gromacs", "lammps")
STATES = (*[CheckpointState.COMPLETE] * 5, CheckpointState.DAMAGED, CheckpointState.WRITING)


def make_run(number, now, *, checkpoint_count=4, partition_count=6) -> RunHistory:
    """One run of one running job; every 11th has saved nothing, every 17th could not be read."""
    began = now - timedelta(minutes=30 + number % 2000)
    job = Job(
        cluster="c1",
        job_id=number,
        user=f"user{number % 300}",
        uid=1000 + number % 300,
        partition=f"part{number % partition_count}",
        state=JobState.RUNNING,
        time_limit=None if number % 13 == 0 else timedelta(days=2),
        started_at=began,
        ends_at=began + timedelta(days=2),
        node_count=1 + number % 4,
        cpu_count=16,
        gpu_count=number % 9,
    )
    key = RunKey("c1", job.uid, f"/scratch/{job.user}/run{number}")
    attempt = Attempt(
        job=JobKey("c1", number, began),
        restart_count=number % 3,
        kind=RestartKind.REQUEUE if number % 3 else None,
        state=JobState.RUNNING,
        first_seen_at=began,
        started_at=began,
        node_count=job.node_count,
        cpu_count=16,
        gpu_count=job.gpu_count,
    )
    saves = [] if number % 11 == 0 else [make_save(number, each, attempt, now) for each in range(checkpoint_count)]
    scan = Scan(
        directory=PurePosixPath(key.directory),
        scanned_at=now,
        checkpoints=tuple(save.checkpoint for save in saves),
        free_bytes=10**12 + number,
        total_bytes=10**13,
        filesystem_type=("lustre", "nfs4", "xfs")[number % 3],
    )
    return make_history(
        key,
        user=job.user,
        located_by=("comment", "discovery", "site-rule")[number % 3],
        jobs=(job,),
        attempts=(attempt,),
        checkpoints=tuple(reversed(saves)),
        polled_at=now,
        scan=Unknown(what="directory", reason="permission denied") if number % 17 == 0 else scan,
        recorded_since=began,
    )


def make_save(number, back, attempt, now) -> RecordedCheckpoint:
    """A checkpoint of `back` intervals ago."""
    at = now - timedelta(minutes=5 + number % 20 + 10 * back)
    state = STATES[number % len(STATES)] if back == 0 else CheckpointState.COMPLETE
    checkpoint = make_checkpoint(
        f"/scratch/run{number}/step-{1000 - back}.pt",
        at,
        inode=number * 100 + back,
        size_bytes=10**9,
        format=FORMATS[number % len(FORMATS)],
        state=state,
        step=1000 - back,
    )
    return RecordedCheckpoint(
        checkpoint=checkpoint,
        first_seen_at=at,
        completed_at=at if state is CheckpointState.COMPLETE else None,
        started_writing_at=at - timedelta(seconds=20 + number % 60),
        attempt=(attempt.job, attempt.restart_count),
    )


def make_flag(number, now) -> Flag:
    rules = sorted(RULES)
    return Flag(
        flag_id=number,
        finding=Finding(
            rule=rules[number % len(rules)],
            severity=list(Severity)[number % 3],
            run=RunKey("c1", 1000 + number % 300, f"/scratch/user{number % 300}/run{number}"),
            job_id=number,
            user=f"user{number % 300}",
            evidence={},
            recorded_advice="Look.",
        ),
        opened_at=now - timedelta(seconds=number),
    )


def make_totals(histories, flags, now) -> EventTotals:
    """What a daemon has counted that saw each of these runs start, save and end once."""
    events = EventCounter()
    events.count_failed_poll()
    attempts = [history.attempts[0] for history in histories]
    causes = list(EndCause)
    ended = [replace(each, ended_at=now, cause=causes[number % len(causes)]) for number, each in enumerate(attempts)]
    events.count_jobs(JobChanges(cluster="c1", polled_at=now, begun=tuple(attempts), ended=tuple(ended)))
    for history in histories:
        for save in history.checkpoints:
            events.count_checkpoints((), CheckpointChanges(appeared=(save,)), list_saves(history.checkpoints[:1]))
    events.count_flags(FlagChanges(opened=tuple(flags), resolved=tuple(flags[:2])))
    return events.read()


def make_pruned(now) -> PruneTotals:
    """Pruning as it is when every kind of act has ended in every way."""
    return PruneTotals(
        operations={
            PruneAction(action, result, cause): 2
            for action in DONE
            for result in TrashResult
            for cause in ("", *FailureCause)
        },
        operation_bytes={"prune": 4 * 10**12, "restore": 10**9, "empty": 3 * 10**12},
        held=TrashTotals(count=9, size_bytes=10**12, oldest_at=now - timedelta(days=3), overdue_count=1),
        going={"plan": RemovableTotals(30, 3 * 10**11), "enforce": RemovableTotals(2, 10**9)},
        is_breaker_open=True,
        paused_user_count=3,
        unconfirmed_run_count=1,
        stepped_at=now - timedelta(minutes=2),
        step_duration=timedelta(seconds=1.5),
    )


def make_report(now, *, runs=200, queued_jobs=1000, flag_count=30, **shape) -> Report:
    """A report of a daemon in the midst of its work."""
    histories = [make_run(number, now, **shape) for number in range(1, runs + 1)]
    flags = tuple(make_flag(number, now) for number in range(1, flag_count + 1))
    return Report(
        cluster="c1",
        made_at=now,
        polled_at=now - timedelta(seconds=20),
        scanned_at=now - timedelta(seconds=5),
        jobs_by_state={"RUNNING": runs, "PENDING": queued_jobs - runs},
        runs_by_locator={"comment": runs // 2, "discovery": runs - runs // 2, "none": 3},
        unknown_directories=2,
        unreadable_directory_users=1,
        recent_requeues=4,
        unwatched_directories=7,
        scan_delay=timedelta(seconds=3),
        open_flags=flags,
        fleet=fleet_totals.sum_up(histories, now),
        totals=make_totals(histories, flags, now),
        losses={
            LossKey(cause, f"part{number}"): LossTotal(
                attempt_count=3, seconds=600.0, node_seconds=1200.0, cpu_seconds=19200.0, gpu_seconds=4800.0
            )
            for cause in (EndCause.NODE_FAILURE, EndCause.TIME_LIMIT, EndCause.REQUEUE)
            for number in range(3)
        },
        pruned=make_pruned(now),
        outbox=Outbox(waiting={"mail": 12}, due_count=2, oldest_due_at=now - timedelta(seconds=90)),
    )
