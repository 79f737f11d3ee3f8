"""Reads the output of `squeue -O` so that no user's text can pretend to be another field or job.

Names, comments and paths may contain any byte but NUL. Every field therefore ends with a random separator, and every
record with a second one, drawn for each call. Text written before the call cannot contain them except by chance; then
the number of columns is wrong and the whole answer is rejected. Forging a record requires guessing both.
"""

import secrets
import string
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import TypeVar

from ckptd.core.model import ENDED_STATES, Job, JobState
from ckptd.core.queue import federation
from ckptd.slurm import array_tasks, times, tres

FIELDS = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "UserName",
    "UserID",
    "Account",
    "Partition",
    "QOS",
    "State",
    "Reason",
    "RestartCnt",
    "Requeue",
    "TimeLimit",
    "TimeLeft",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "Dependency",
    "NodeList",
    "BatchHost",
    "NumNodes",
    "NumCPUs",
    "BatchFlag",
    "tres-alloc",
    "tres-per-node",
    "tres-per-job",
    "tres-per-task",
    "NumTasks",
    "Name",
    "WorkDir",
    "Comment",
    "Command",
    "admin_comment",  # squeue has no field AdminComment
)
FIELDS_BEFORE = tuple(name for name in FIELDS if name != "Command")  # of recordings of earlier versions
STATES = {state.value: state for state in JobState}
NO_TASKS = array_tasks.WaitingTasks(None, 1, None)
ABSENT = frozenset({"(null)", "N/A", "n/a", ""})
Value = TypeVar("Value")
_ALPHABET = string.ascii_letters
_END_LETTERS = 20
_INVALID_FIELD = b"\0" + times.INVALID.encode() + b"\0"


class GarbledError(ValueError):
    """Slurm's answer does not have the requested form."""


@dataclass(frozen=True, slots=True)
class Separators:
    """The bytes that end each field and each record of one call's output."""

    field: bytes
    record: bytes

    @classmethod
    def draw(cls) -> "Separators":
        """Draw random separators, which nobody can know before the call.

        They are letters after a bar, because squeue reads a leading digit or dot as a width and a comma as the next
        field.
        """
        letters = [secrets.choice(_ALPHABET) for _ in range(6 + _END_LETTERS)]
        return cls(f"|{''.join(letters[:6])}".encode(), f"|{''.join(letters[6:])}".encode())


def format_option(separators: Separators) -> str:
    """Return the value of squeue's -O; the suffix of each field also disables its truncation."""
    field, record = separators.field.decode(), separators.record.decode()
    return ",".join([*(f"{name}:{field}" for name in FIELDS[:-1]), f"{FIELDS[-1]}:{record}"])


class QueueReader:
    """Parses squeue's output into jobs while it arrives.

    If a record has the same bytes as in the previous poll, the previous Job object is used again. This saves most of
    the parsing.
    """

    def __init__(
        self,
        cluster: str,
        separators: Separators,
        now: datetime,
        known: "KnownJobs | None" = None,
        *,
        has_command: bool = True,
    ) -> None:
        self._cluster = cluster
        self._separators = separators
        self._record_end = separators.record + b"\n"
        self._now = now
        self._known = known or KnownJobs()
        self._seen = KnownJobs()
        self._task_counts: dict[int, int] = {}
        self._tail = b""
        self._share = _Shared()
        self._has_command = has_command

    def feed(self, piece: bytes) -> None:
        """Parse the next piece of output.

        Raises:
            GarbledError: it does not have the requested form.

        """
        *records, self._tail = (self._tail + piece).split(self._record_end)
        for record in records:
            self._take(record)

    def finish(self) -> "KnownJobs":
        """Return every job after the last piece of output.

        Raises:
            GarbledError: the last record is cut short.

        """
        if self._tail.strip():
            raise GarbledError(f"the output ends within a record: {_excerpt(self._tail)}")
        jobs = self._seen.jobs
        for job_id, count in self._task_counts.items():
            if jobs[job_id].array_task_id is None:
                raise GarbledError(f"job {job_id} was printed {count} times")
            jobs[job_id] = replace(jobs[job_id], array_task_id=None, task_count=count)
            self._seen.hashes.pop(job_id, None)
        return self._seen

    def _take(self, record: bytes) -> None:
        plain = record.replace(self._separators.field, b"\0")
        head, _, _ = plain.partition(b"\0")
        if not head.isdigit():
            raise GarbledError(f"not a job id: {_excerpt(head)}")
        job_id = int(head)
        if not federation.has_number(job_id):
            return
        if job_id in self._seen.jobs:
            # Tasks of an array that have not started are one job with one id; --array prints it once for each.
            self._task_counts[job_id] = self._task_counts.get(job_id, 1) + 1
            return
        fingerprint = hash(plain)
        tasks = b"".join(plain.split(b"\0", 3)[2:3])
        if b"-" in tasks or b"," in tasks:
            self._seen.waiting[job_id] = tasks.decode("utf-8", "surrogateescape")
        before = self._known.hashes.get(job_id)
        if before == fingerprint:
            job = self._known.jobs[job_id]
            fingerprint, job_id = before, job.job_id  # the same objects: new ones would leave holes in memory
        else:
            job = parse_record(plain, self._cluster, self._now, self._share, has_command=self._has_command)
        self._seen.jobs[job_id] = job
        if _INVALID_FIELD not in plain:  # its time left was computed from `now`
            self._seen.hashes[job_id] = fingerprint


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """The jobs of one poll by id, the hash of each one's record, and the expressions for several waiting tasks."""

    jobs: dict[int, Job] = field(default_factory=dict)
    hashes: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)

    def without_arrays(self, arrays: Collection[int]) -> "KnownJobs":
        """Return the jobs that belong to none of these arrays."""
        jobs = {job_id: job for job_id, job in self.jobs.items() if job.array_job_id not in arrays}
        return KnownJobs(jobs, self.hashes, self.waiting)

    def with_separate_tasks(self, arrays: Collection[int], separate: "KnownJobs") -> "KnownJobs":
        """Replace arrays by their tasks from another query; the next poll parses their records again."""
        kept = self.without_arrays(arrays)
        hashes = {job_id: value for job_id, value in self.hashes.items() if job_id not in separate.jobs}
        known = KnownJobs({**kept.jobs, **separate.jobs}, hashes, self.waiting)
        tasks: dict[int, list[int]] = defaultdict(list)
        for job in separate.jobs.values():
            if job.array_job_id is not None and job.array_job_id in arrays and job.array_task_id is not None:
                tasks[job.array_job_id].append(job.array_task_id)
        for job_id, text in self.waiting.items():
            whole, rows = self.jobs[job_id], known.jobs.get(job_id)
            array = whole.array_job_id
            if rows is not None and rows.task_count > 1 and array is not None and array in arrays:
                added = sum(array_tasks.includes(text, task) for task in tasks[array])
                count = max(rows.task_count, whole.task_count - added)
                known.jobs[job_id] = replace(rows, task_count=count, array_task_limit=whole.array_task_limit)
        return known


def list_waiting_arrays(known: KnownJobs) -> frozenset[int]:
    """Return the arrays with several waiting tasks."""
    found = (known.jobs[job_id].array_job_id for job_id in known.waiting)
    return frozenset(array for array in found if array is not None)


def list_arrays_with_added_tasks(before: KnownJobs, known: KnownJobs) -> frozenset[int]:
    """Return the arrays whose waiting tasks include one that had a record of its own in the poll before."""
    waiting = {known.jobs[job_id].array_job_id: text for job_id, text in known.waiting.items()}
    return frozenset(
        job.array_job_id
        for job_id, job in before.jobs.items()
        if job.array_job_id is not None
        and job.array_task_id is not None
        and job_id not in known.jobs
        and job.array_job_id in waiting
        and array_tasks.includes(waiting[job.array_job_id], job.array_task_id)
    )


class _Memory(dict[str, Value]):
    """Caches parsed texts, so that each is parsed once."""

    def __init__(self, parse: Callable[[str], Value]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, text: str) -> Value:
        value = self[text] = self._parse(text)
        return value


class _Shared:
    """Makes equal values of one poll one object, because thousands of jobs share user, directory and limit."""

    def __init__(self) -> None:
        self.texts = _Memory(_text)
        self.paths = _Memory(_path)
        self.limits = _Memory(times.parse_duration)
        self.numbers = _Memory(int)
        self.gpus = _Memory(tres.count_gpus)
        self.instants = _Memory(times.parse_instant)


def _text(text: str) -> str:
    return "" if text in ABSENT else text


def _path(text: str) -> PurePosixPath | None:
    return None if text in ABSENT else PurePosixPath(text)


def parse_record(
    plain: bytes, cluster: str, now: datetime, share: _Shared | None = None, *, has_command: bool = True
) -> Job:
    """Parse one record with fields separated by NUL.

    Raises:
        GarbledError: a field has an unexpected value.

    """
    fields = plain.decode("utf-8", "surrogateescape").split("\0")
    if not has_command:
        fields.insert(FIELDS.index("Command"), "")
    if len(fields) != len(FIELDS):
        raise GarbledError(f"{len(fields)} fields instead of {len(FIELDS)}: {_excerpt(plain)}")
    try:
        return _build(fields, cluster, now, share or _Shared())
    except ValueError as error:
        raise GarbledError(f"{error} in {_excerpt(plain)}") from error


def _build(fields: list[str], cluster: str, now: datetime, share: _Shared) -> Job:
    (
        job_id, array_job_id, array_task_id, het_job_id, user, uid, account, partition, qos, state_text, reason,
        restarts, requeue, limit, left, submitted, started, ends, dependency, nodes, batch_host, node_count, cpu_count,
        batch, tres_alloc, tres_node, tres_job, tres_task, task_count, name, work_dir, comment, command,
        admin_comment,
    ) = fields  # fmt: skip
    texts = share.texts
    state = STATES.get(state_text, JobState.UNKNOWN)
    started_at, ends_at = times.parse_instant(started), times.parse_instant(ends)
    node_number = int(node_count)
    gpu_count = share.gpus[tres_alloc] or tres.count_requested_gpus(
        tres_node, tres_job, tres_task, node_number, _integer(task_count) or 1
    )
    is_task = array_task_id not in ABSENT
    tasks = array_tasks.parse(array_task_id) if is_task else NO_TASKS
    return Job(
        cluster=cluster,
        job_id=int(job_id),
        array_job_id=int(array_job_id) if is_task else None,
        array_task_id=tasks.only,
        array_task_limit=tasks.limit,
        task_count=tasks.task_count,
        het_job_id=_integer(het_job_id),
        user=texts[user],
        uid=share.numbers[uid],
        account=texts[account],
        partition=texts[partition],
        qos=texts[qos],
        name=texts[name],
        state=state,
        reason="" if reason == "None" else texts[reason],
        restart_count=int(restarts),
        is_requeueable=requeue != "0",
        time_limit=ends_at - started_at if limit == times.INVALID and ends_at and started_at else share.limits[limit],
        time_left=_time_left(left, limit, state, ends_at, now, share),
        submitted_at=share.instants[submitted],
        started_at=started_at,
        ends_at=ends_at,
        work_dir=share.paths[work_dir],
        comment=texts[comment],
        admin_comment=texts[admin_comment],
        command=texts[command],
        dependency=texts[dependency],
        node_list=texts[nodes],
        batch_host=texts[batch_host],
        node_count=node_number,
        cpu_count=int(cpu_count),
        gpu_count=gpu_count,
        is_batch=batch != "0",
    )


def _time_left(  # the six fields that Slurm spreads it over
    left: str, limit: str, state: JobState, ends_at: datetime | None, now: datetime, share: _Shared
) -> timedelta | None:
    if state in ENDED_STATES:
        return None
    if left != times.INVALID:
        # Pending jobs show their limit, which few values cover; running ones each their own.
        return share.limits[left] if left == limit else times.parse_duration(left)
    if ends_at is None or state is JobState.PENDING:
        return None
    return max(timedelta(), ends_at - now)


def _integer(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _excerpt(raw: bytes) -> str:
    return repr(raw[:120])


def record_header(cluster: str, separators: Separators, now: datetime) -> dict[str, object]:
    """Return the header that a recording needs to be parsed later."""
    return {
        "cluster": cluster,
        "polled_at": now.astimezone(UTC).isoformat(),
        "fields": list(FIELDS),
        "field_separator": separators.field.decode(),
        "record_separator": separators.record.decode(),
    }
