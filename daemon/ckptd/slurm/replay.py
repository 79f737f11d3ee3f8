"""Plays back recorded queues, one snapshot per poll: for tests and for trying a configuration.

A snapshot is a file that `record_queue` of SqueueSource wrote (`*.squeue`), or the output of `squeue --json`
(`*.json`). Snapshots are played in the order of the numbers in their names; the last one is repeated. The file
`reservations` has the output of `scontrol -o show reservation` with times in seconds. A poll of an unreadable snapshot
is Unknown, as if the cluster did not answer.
"""

import json
import re
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from ckptd.core.model import ENDED_STATES, EndedAttempt, Job, Maintenance, PastJobs, QueueSnapshot, Unknown
from ckptd.slurm import accounting, failure_reasons, queue_json, queue_text, reservations
from ckptd.slurm.failure_reasons import FailureReason

SUFFIXES = frozenset({".squeue", ".json"})
CHUNK_BYTES = 256 * 1024
_NUMBERS = re.compile(r"(\d+)", re.ASCII)


class ReplaySource:
    """Plays a directory's snapshots. Instants stay as recorded; `polled_at` is the time of the replayed poll."""

    name = "replay"

    def __init__(self, directory: Path, *, cluster: str | None = None) -> None:
        self._directory = directory
        self._cluster = cluster
        self._played = 0
        self._last: QueueSnapshot | Unknown = failure_reasons.make_unknown(
            "queue", FailureReason.MISSING, f"no snapshot in {directory}"
        )
        self._ended: dict[tuple[int, int], EndedAttempt] = {}

    def read_queue(self, now: datetime) -> QueueSnapshot | Unknown:
        try:
            paths = list_snapshots(self._directory)
        except OSError as error:
            return failure_reasons.make_unknown(
                "queue", FailureReason.NOT_PERMITTED, f"{self._directory}: {error.strerror}"
            )
        if paths:
            self._last = read_snapshot(paths[min(self._played, len(paths) - 1)], now, self._cluster)
            self._played += 1
        if isinstance(self._last, QueueSnapshot):
            self._remember(self._last.jobs)
        return self._last

    def read_ended(self, job_ids: Collection[int], since: datetime) -> tuple[EndedAttempt, ...] | Unknown:
        wanted = frozenset(job_ids)
        found = [end for end in self._ended.values() if end.job_id in wanted and end.ended_at and end.ended_at >= since]
        return tuple(sorted(found, key=accounting.by_time))

    def read_past(self, since: datetime, until: datetime) -> PastJobs | Unknown:  # noqa: ARG002 - nothing is known
        return failure_reasons.make_unknown("accounting", FailureReason.MISSING, "a recording keeps none")

    def read_batch_script(self, job: Job, *, is_urgent: bool = False) -> str | Unknown:  # noqa: ARG002 - reads a file
        path = self._directory / f"{job.job_id}.sh"
        try:
            return path.read_text("utf-8", "surrogateescape")
        except OSError as error:
            return failure_reasons.make_unknown("batch script", FailureReason.MISSING, f"{path}: {error.strerror}")

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        return job.mail_user

    def read_maintenance(self) -> tuple[Maintenance, ...] | Unknown:
        path = self._directory / "reservations"
        try:
            return reservations.parse_maintenance(path.read_text("utf-8", "surrogateescape"))
        except FileNotFoundError:
            return ()
        except OSError as error:
            return failure_reasons.make_unknown(
                "reservations", FailureReason.NOT_PERMITTED, f"{path}: {error.strerror}"
            )

    def read_clock(self) -> None:
        return None

    def is_answering(self) -> bool:
        return isinstance(self._last, QueueSnapshot)

    def _remember(self, jobs: tuple[Job, ...]) -> None:
        for job in jobs:
            if job.state in ENDED_STATES:
                self._ended[job.job_id, job.restart_count] = accounting.attempt_of(job)


def list_snapshots(directory: Path) -> list[Path]:
    """List a directory's snapshots by the numbers in their names, `2.json` before `10.json`."""
    return sorted((path for path in directory.iterdir() if path.suffix in SUFFIXES), key=_order)


def read_snapshot(path: Path, now: datetime, cluster: str | None = None) -> QueueSnapshot | Unknown:
    """Read one recorded snapshot; its remaining times are relative to the time of the recording."""
    try:
        if path.suffix == ".squeue":
            return _read_text(path, now, cluster)
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        return failure_reasons.make_unknown("queue", FailureReason.FAILED, f"{path}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        return failure_reasons.make_unknown("queue", FailureReason.GARBLED, f"{path}: {error}")
    snapshot = queue_json.parse(text, _recorded_at(text) or now, cluster)
    if isinstance(snapshot, Unknown):
        return snapshot
    return QueueSnapshot(cluster=snapshot.cluster, polled_at=now, jobs=snapshot.jobs)


def _read_text(path: Path, now: datetime, cluster: str | None) -> QueueSnapshot:
    with path.open("rb") as file:
        header = json.loads(file.readline())
        has_command = header["fields"] != list(queue_text.FIELDS_BEFORE)
        if has_command and header["fields"] != list(queue_text.FIELDS):
            raise queue_text.GarbledError("it was recorded by another version of ckptd, with other fields")
        separators = queue_text.Separators(header["field_separator"].encode(), header["record_separator"].encode())
        name = cluster or str(header["cluster"])
        polled_at = datetime.fromisoformat(header["polled_at"])
        reader = queue_text.QueueReader(name, separators, polled_at, has_command=has_command)
        while piece := file.read(CHUNK_BYTES):
            reader.feed(piece)
    return QueueSnapshot(cluster=name, polled_at=now, jobs=tuple(reader.finish().jobs.values()))


def _recorded_at(text: str) -> datetime | None:
    """Return when slurmctld answered; None in documents before Slurm 23.11."""
    try:
        last_update = json.loads(text).get("last_update")
        number = last_update["number"] if isinstance(last_update, dict) else last_update
        return datetime.fromtimestamp(number, UTC) if number else None
    except (ValueError, AttributeError, KeyError, TypeError):
        return None


def _order(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    parts = _NUMBERS.split(path.stem)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts], path.name
