"""Short words for the facts of one run, for the tests of retention."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from zlib import crc32

from ckptd.core import retention
from ckptd.core.model import (
    Attempt,
    Certainty,
    FileIdentity,
    Grouping,
    Job,
    JobKey,
    JobState,
    RecordedCheckpoint,
    RestartKind,
    Resume,
    ResumeReason,
    Role,
    RunKey,
    Scan,
)
from support.checkpoints import make_checkpoint
from support.run_builder import make_record

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
UID = 1000
DIRECTORY = "/scratch/alice/ckpts"


def hours(count):
    return timedelta(hours=count)


def job_key(number=1):
    return JobKey("c", number, NOW - timedelta(days=60))


def attempt(number=0, *, job=1, begun=30 * 24, ended=None, kind=None, resumed_from=None):
    """An attempt that began so many hours ago."""
    return Attempt(
        job=job_key(job),
        restart_count=number,
        kind=kind or (RestartKind.REQUEUE if number else None),
        state=JobState.RUNNING if ended is None else JobState.COMPLETED,
        first_seen_at=NOW - hours(begun),
        started_at=NOW - hours(begun),
        ended_at=None if ended is None else NOW - hours(ended),
        resumed_from=resumed_from and resumed(resumed_from),
    )


def resumed(path):
    return Resume(certainty=Certainty.PROVEN, reason=ResumeReason.PROGRAM, path=path)


def running_job(number=1, **changes):
    facts = {"state": JobState.RUNNING, "time_left": hours(10), "ends_at": NOW + hours(10)}
    return Job(cluster="c", job_id=number, user="alice", uid=UID, **{**facts, **changes})


def grouping_of(path, **changes):
    """The last number before the suffix counts progress; without one the name is fixed."""
    found = re.fullmatch(r"(.*?)(\d+)(\D*?(?:\.\w+)?)", path)
    facts = {"series": f"{found[1]}#{found[3]}", "progress": (int(found[2]),)} if found else {}
    return Grouping(**{**facts, "has_progress_word": bool(found), **changes})


def saved(name, age, *, step=None, epoch=None, by=(1, 0), size=100, directory=DIRECTORY, **changes):
    """A complete state, written so many hours ago by attempt `by` (job, restart count; None: by nobody known)."""
    at = NOW - hours(age)
    record = {
        name: changes.pop(name)
        for name in ("is_pinned", "verified_full_at", "completed_at", "first_seen_at", "pruned_at", "deleted_at")
        if name in changes
    }
    path = f"{directory}/{name}"
    proof = None if by is None else (job_key(by[0]), by[1])
    written_ns = round(at.timestamp() * 1e9)
    facts = {
        "path": path,
        "identities": (FileIdentity(1, changes.pop("inode", crc32(path.encode())), size, written_ns, written_ns),),
        "size_bytes": size,
        "step": step,
        "epoch": epoch,
        "role": Role.STATE,
        "role_evidence": "an optimizer",
        "grouping": grouping_of(name),
    }
    checkpoint = make_checkpoint(modified_at=at, **{**facts, **changes})
    return RecordedCheckpoint(
        checkpoint=checkpoint, attempt=proof, **{"first_seen_at": at, "completed_at": at, **record}
    )


def run_of(*checkpoints, attempts=None, jobs=(), directory=DIRECTORY, scan=None, **changes):
    present = [one for one in checkpoints if one.deleted_at is None and one.pruned_at is None]
    facts = {
        "key": RunKey("c", UID, directory),
        "jobs": tuple(jobs),
        "attempts": (attempt(ended=0.1),) if attempts is None else tuple(attempts),
        "checkpoints": tuple(checkpoints),
        "polled_at": NOW,
        "scan": scan
        or Scan(
            directory=PurePosixPath(directory), scanned_at=NOW, checkpoints=tuple(one.checkpoint for one in present)
        ),
    }
    return make_record(**{**facts, **changes})


def series(count, *, prefix="step_", gap=2.0, oldest=None, every=100, by=(1, 0), **changes):
    """Numbered checkpoints, one every `gap` hours, the oldest first."""
    oldest = oldest if oldest is not None else gap * (count + 1)
    return [
        saved(f"{prefix}{every * (n + 1)}.pt", oldest - gap * n, step=every * (n + 1), by=by, **changes)
        for n in range(count)
    ]


def policy_of(*rules, **changes):
    return retention.Policy(name="test", rules=rules or (retention.KeepLast(1),), **changes)


def names(decisions):
    return {decision.path.rpartition("/")[2] for decision in decisions}


def removed(history, policy=None, now=NOW, **context):
    made = retention.plan_run(history, policy or policy_of(), now, **context)
    assert made.skipped is None, made.skipped
    return names(made.remove)


def skipped(history, policy=None, now=NOW, **context):
    made = retention.plan_run(history, policy or policy_of(), now, **context)
    assert not made.remove
    return made.skipped


def without(history, paths):
    """The history after those paths were pruned."""
    records = tuple(
        replace(one, pruned_at=NOW) if str(one.checkpoint.path) in paths else one for one in history.checkpoints
    )
    left = tuple(one.checkpoint for one in records if one.pruned_at is None and one.deleted_at is None)
    return replace(history, checkpoints=records, scan=replace(history.scan, checkpoints=left))
