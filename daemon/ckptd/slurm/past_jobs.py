"""Reads from accounting the jobs of all users that slurmctld no longer knows.

Names, comments and directories are written by users and may contain any character. Every field therefore ends with a
random delimiter drawn for each call, and a record is a fixed number of fields and a newline. Text that looks like a row
stays part of its field, and an answer of any other shape is rejected as a whole.
`sacct --state` with end states lists the executions that ended from --starttime to --endtime, both inclusive.
"""

import re
import secrets
import string
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core.model import Job, JobState, PastJob, PastJobs, Unknown
from ckptd.core.queue import federation, heterogeneous
from ckptd.slurm import failure_reasons, queue_text, times, tres
from ckptd.slurm.accounting import NOT_ASSIGNED, explain_failure
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.programs import Programs

FIELDS = (
    "JobIDRaw", "JobID", "UID", "State", "Submit", "Start", "End", "Suspended", "TimelimitRaw", "NodeList", "NNodes",
    "NCPUS", "AllocTRES", "Partition", "QOS", "User", "Account", "Reason", "JobName", "WorkDir", "Comment",
    "AdminComment",
)  # fmt: skip
NEWER_FIELDS = ("Restarts", "SubmitLine")  # Slurm 24.11 and 21.08
# Not RESIZING, because such an execution continues, and not REVOKED, because it continued on another cluster.
ENDS = ("BF", "CA", "CD", "DL", "F", "NF", "OOM", "PR", "RQ", "TO")
MAX_ROWS = 20_000  # per answer
MAX_BYTES = 64 * 1024 * 1024
SHORTEST = timedelta(seconds=1)  # a time range that is not halved any more: accounting's resolution
_JOB_ID = re.compile(r"(?P<first>\d+)(?:_(?P<task>\d+)|_\[.*\])?(?:\+(?P<part>\d+))?", re.ASCII)
_NO_UID = 0xFFFFFFFE
_UNKNOWN_FIELD = "invalid field requested"


class AnswerTooLongError(Exception):
    """More rows or bytes than one answer may have."""


def read_past(
    programs: Programs, facts: ClusterFacts, since: datetime, until: datetime, only_user: str | None = None
) -> PastJobs | Unknown:
    """Return every execution that ended from `since` to `until`.

    If there are too many for one answer, halve the time range from its end; `until` of the result is its new end.
    """
    cluster = facts.read_name()
    if isinstance(cluster, Unknown):
        return cluster
    while True:
        answer = _read_window(programs, cluster, since, until, only_user)
        if isinstance(answer, PastJobs) and only_user is None:
            return facts.read_hidden_history(each.job.uid for each in answer.jobs) or answer
        if answer is not None:
            return answer
        until = since + (until - since) / 2


def _read_window(
    programs: Programs, cluster: str, since: datetime, until: datetime, only_user: str | None
) -> PastJobs | Unknown | None:
    """Query one time range; None if it has too many jobs. Omit the fields that this version of Slurm lacks."""
    newer = list(NEWER_FIELDS)
    while True:
        reader = PastReader(cluster, newer, is_truncated=until - since <= SHORTEST)
        try:
            finished = programs.stream("accounting", _argv(reader, since, until, only_user), reader.feed)
            if isinstance(finished, Unknown):
                return finished
            refused = [name for name in newer if f'{_UNKNOWN_FIELD}: "{name.lower()}"' in finished.stderr.lower()]
            if refused:
                newer = [name for name in newer if name not in refused]
                continue
            if finished.returncode != 0 or (not finished.is_clean and not reader.jobs):
                return explain_failure(finished)
            return PastJobs(jobs=heterogeneous.join_past(reader.finish()), until=until)
        except queue_text.GarbledError as error:
            return failure_reasons.make_unknown("accounting", FailureReason.GARBLED, str(error))
        except AnswerTooLongError:
            return None


def _argv(reader: "PastReader", since: datetime, until: datetime, only_user: str | None) -> list[str]:
    return [
        "sacct", "--local", "--noheader", "--parsable", "--delimiter", reader.delimiter.decode(),
        "--duplicates", "--allocations", f"--user={only_user}" if only_user else "--allusers",
        "--state", ",".join(ENDS),
        "--starttime", _format(since), "--endtime", _format(until + timedelta(seconds=1)),
        "--format", ",".join(reader.fields),
    ]  # fmt: skip


def _format(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


class PastReader:
    """Parses sacct's output into jobs while it arrives."""

    def __init__(
        self, cluster: str, newer: Iterable[str] = (), *, delimiter: bytes | None = None, is_truncated: bool = False
    ) -> None:
        letters = "".join(secrets.choice(string.ascii_letters) for _ in range(20))
        self.delimiter = delimiter or f"|{letters}|".encode()
        self.fields = (*newer, *FIELDS)
        self.jobs: list[PastJob] = []
        self._cluster = cluster
        self._is_truncated = is_truncated  # omit jobs above the limit, instead of raising AnswerTooLongError
        self._tail = b""
        self._fields: list[bytes] = []
        self._row_count = self._byte_count = 0

    def feed(self, piece: bytes) -> None:
        """Parse the next piece of output.

        Raises:
            queue_text.GarbledError: the output does not have the requested form.
            AnswerTooLongError: it exceeds the limits.

        """
        self._byte_count += len(piece)
        if self._byte_count > MAX_BYTES:
            self._is_too_much()
            return
        *whole, self._tail = (self._tail + piece).split(self.delimiter)
        for text in whole:
            if not self._fields and self._row_count:
                if not text.startswith(b"\n"):
                    raise queue_text.GarbledError(f"a record does not begin on a line: {text[:120]!r}")
                text = text[1:]  # noqa: PLW2901 - the end of the line before
            self._fields.append(text)
            if len(self._fields) == len(self.fields):
                self._take([field.decode("utf-8", "surrogateescape") for field in self._fields])
                self._fields = []

    def finish(self) -> list[PastJob]:
        """Return the executions after the last piece of output.

        Raises:
            queue_text.GarbledError: the output ends within a record.

        """
        if self._fields or self._tail.strip():
            if self._byte_count > MAX_BYTES:
                return self.jobs
            raise queue_text.GarbledError(f"the output ends within a record: {self._tail[:120]!r}")
        return self.jobs

    def _take(self, texts: list[str]) -> None:
        self._row_count += 1
        row = dict(zip(self.fields, texts, strict=True))
        try:
            found = _build(row, self._cluster)
        except (ValueError, OverflowError) as error:
            raise queue_text.GarbledError(f"{error} in a row of job {row['JobIDRaw'][:20]!r}") from error
        if found is None:
            return
        if len(self.jobs) >= MAX_ROWS:
            self._is_too_much()
            return
        self.jobs.append(found)

    def _is_too_much(self) -> None:
        if not self._is_truncated:
            raise AnswerTooLongError


def _build(row: dict[str, str], cluster: str) -> PastJob | None:
    """Return the execution that a row describes; None if nothing ran or its user is unknown."""
    number = _JOB_ID.fullmatch(row["JobID"])
    if number is None:
        raise ValueError(f"not a job id: {row['JobID'][:120]!r}")
    nodes = "" if row["NodeList"] == NOT_ASSIGNED else row["NodeList"]
    started_at, ended_at = times.parse_instant(row["Start"]), times.parse_instant(row["End"])
    uid = int(row["UID"] or _NO_UID)
    if uid >= _NO_UID or not federation.has_number(int(row["JobIDRaw"])) or started_at is None or ended_at is None:
        return None
    if ended_at < started_at or (ended_at == started_at and not nodes):
        return None
    is_task = number["task"] is not None
    job = Job(
        cluster=cluster,
        job_id=int(row["JobIDRaw"]),
        array_job_id=int(number["first"]) if is_task else None,
        array_task_id=int(number["task"]) if is_task else None,
        het_job_id=int(number["first"]) if number["part"] is not None else None,
        user=row["User"] or str(uid),
        uid=uid,
        account=row["Account"],
        partition=row["Partition"],
        qos=row["QOS"],
        name=row["JobName"],
        state=queue_text.STATES.get(row["State"].partition(" ")[0], JobState.UNKNOWN),
        reason="" if row["Reason"] == "None" else row["Reason"],
        restart_count=int(row.get("Restarts") or 0),
        time_limit=timedelta(minutes=int(row["TimelimitRaw"])) if row["TimelimitRaw"].isdigit() else None,
        submitted_at=times.parse_instant(row["Submit"]),
        started_at=started_at,
        ends_at=ended_at,
        work_dir=PurePosixPath(row["WorkDir"]) if row["WorkDir"].startswith("/") else None,
        comment=row["Comment"],
        admin_comment=row["AdminComment"],
        node_list=nodes,
        node_count=int(row["NNodes"] or 0),
        cpu_count=int(row["NCPUS"] or 0),
        gpu_count=tres.count_gpus(row["AllocTRES"]),
        is_batch=_is_batch(row.get("SubmitLine", "")),
    )
    return PastJob(
        job=job,
        restart_count=job.restart_count if row.get("Restarts") else None,
        suspended=times.parse_duration(row["Suspended"]) or timedelta(0),
    )


def _is_batch(submit_line: str) -> bool:
    """Whether a job was submitted as a batch script, which is assumed without a submit line."""
    program = submit_line.split(" ", 1)[0].rpartition("/")[2]
    return program not in {"salloc", "srun"}
