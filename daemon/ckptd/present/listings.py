"""Rows of the listings of jobs and flags, for commands, pages and JSON."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ckptd.core.model import Flag
from ckptd.core.model.records import JobRow
from ckptd.present import flag_texts

if TYPE_CHECKING:  # pydantic would double the time that `ckptd jobs` takes to start
    from ckptd.present.responses.job_documents import FlagDocument, ListedJobDocument


def job_row(row: JobRow, now: datetime) -> "ListedJobDocument":
    """Return one job with its time left, newest checkpoint and open flags, in the form of `ckptd jobs --json`."""
    saved_at = row.newest_checkpoint_at
    return {
        "job_id": row.key.job_id,
        "array_job_id": row.array_job_id,
        "array_task_id": row.array_task_id,
        "user": row.user,
        "name": row.name,
        "partition": row.partition,
        "state": row.state,
        "restart_count": row.restart_count,
        "time_left_seconds": _seconds(row.time_left),
        "directory": row.directory,
        "located_by": row.located_by,
        "locations": [row.directory, *row.copies] if row.directory else list(row.copies),
        "epoch": row.epoch,
        "step": row.step,
        "newest_checkpoint_at": saved_at,
        "newest_checkpoint_age_seconds": _seconds(now - saved_at) if saved_at else None,
        "checkpoints": row.checkpoint_count,
        "checkpoint_bytes": row.checkpoint_bytes,
        "flags": list(row.flags),
        "cluster": row.run.cluster,
        "uid": row.run.uid,
        "run": row.run.directory,
    }


def flag_row(flag: Flag) -> "FlagDocument":
    """Return one flag in the form of `ckptd flags --json`; `advice` is what to do, with the command."""
    finding, text = flag.finding, flag_texts.make_recorded_text(flag.finding)
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "cluster": finding.run.cluster,
        "job_id": finding.job_id,
        "user": finding.user,
        "run": finding.run.directory,
        "opened_at": flag.opened_at,
        "resolved_at": flag.resolved_at,
        "evidence": dict(finding.evidence),
        "advice": text.full_advice,
        "title": text.title,
        "statement": text.statement,
        "command": text.command,
        "uid": finding.run.uid,
    }


def _seconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration.total_seconds())
