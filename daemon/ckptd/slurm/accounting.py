"""Reads how attempts ended, and batch scripts, with Slurm's own programs.

`sacct` lists every attempt, including requeued ones. Without accounting, slurmctld keeps an ended job for MinJobAge.
That is read with `squeue`, whose fields users cannot forge, not with `scontrol show job`, where a job name may contain
`EndTime=`. Attempts that are in neither are omitted; if neither answers, the result is Unknown.
"""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta

from ckptd.core.model import ENDED_STATES, EndedAttempt, Job, JobState, Unknown
from ckptd.core.queue import heterogeneous
from ckptd.slurm import failure_reasons, queue_text, times, tres
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.programs import ProgramResult, Programs

FIELDS = (
    "JobIDRaw", "State", "Submit", "Start", "End", "NodeList", "NNodes", "NCPUS", "AllocTRES", "Suspended", "JobID",
)  # fmt: skip
# Users can write none of these fields, and Slurm forbids this character in the names of nodes and TRES.
DELIMITER = "|"
JOBS_PER_CALL = 5000  # keeps the argument under Linux's 128 KiB
NOT_ASSIGNED = "None assigned"
_NO_ACCOUNTING = ("accounting storage is disabled", "slurm accounting storage is disabled")
_SCRIPT_HEAD = "Batch Script for "

ReadRemembered = Callable[[Collection[int], datetime], tuple[Job, ...] | Unknown]


def read_ended(
    programs: Programs, job_ids: Collection[int], since: datetime, read_remembered: ReadRemembered
) -> tuple[EndedAttempt, ...] | Unknown:
    """Return how these jobs' attempts ended, oldest first; jobs that Slurm no longer knows are omitted."""
    attempts: list[EndedAttempt] = []
    for ids in _batches(job_ids):
        answer = _read_sacct(programs, ids, since)
        if isinstance(answer, Unknown):
            answer = _read_fallback(answer, ids, since, read_remembered)
        if isinstance(answer, Unknown):
            return answer
        attempts += answer
    return tuple(sorted(attempts, key=by_time))


def read_batch_script(programs: Programs, job_id: int) -> str | Unknown:
    """Return the job's batch script from slurmctld, otherwise from accounting."""
    answer = programs.read("batch script", ["scontrol", "write", "batch_script", str(job_id), "-"])
    # scontrol 22.05 reports errors on stderr with exit status 0.
    if not isinstance(answer, Unknown) and answer[1].is_clean and answer[0]:
        return answer[0]
    stored = programs.read("batch script", ["sacct", "--local", "--jobs", str(job_id), "--batch-script"])
    if not isinstance(stored, Unknown) and stored[1].is_clean:
        script = _script_of(stored[0])
        if script is not None:
            return script
    if isinstance(answer, Unknown):
        return answer
    return failure_reasons.classify("batch script", answer[1].returncode, answer[1].stderr)


def is_answering(programs: Programs) -> bool:
    """Whether `scontrol ping` finds a controller that is up."""
    answer = programs.read("ping", ["scontrol", "ping"])
    return not isinstance(answer, Unknown) and " is UP" in answer[0]


def parse_sacct(text: str, job_ids: Collection[int]) -> tuple[EndedAttempt, ...]:
    """Parse sacct's rows of these jobs' ended attempts.

    Raises:
        queue_text.GarbledError: a row does not have the requested fields.

    """
    return heterogeneous.join_ended(_parse_rows(text, frozenset(job_ids)))


def _parse_rows(text: str, wanted: frozenset[int]) -> Iterator[EndedAttempt]:
    for line in text.splitlines():
        row = line.split(DELIMITER)
        if len(row) != len(FIELDS):
            raise queue_text.GarbledError(f"{len(row)} fields instead of {len(FIELDS)}: {line[:120]!r}")
        if row[0].isdigit() and (int(row[0]) in wanted or _first_part(row[-1]) in wanted):
            yield _parse_row(row)


def _first_part(shown_id: str) -> int | None:
    """Return the id of a heterogeneous job's first component: 7 for `7+1`; None for other jobs."""
    first, plus, number = shown_id.partition("+")
    return int(first) if plus and first.isdigit() and number.isdigit() else None


def _parse_row(row: list[str]) -> EndedAttempt:
    job_id, state_text, submitted, started, ended, nodes, node_count, cpu_count, alloc, suspended, shown_id = row
    state = queue_text.STATES.get(state_text.partition(" ")[0], JobState.UNKNOWN)
    try:
        return EndedAttempt(
            job_id=int(job_id),
            submitted_at=times.parse_instant(submitted),
            started_at=times.parse_instant(started),
            ended_at=times.parse_instant(ended),
            state=state,
            node_list="" if nodes == NOT_ASSIGNED else nodes,
            node_count=int(node_count or 0),
            cpu_count=int(cpu_count or 0),
            gpu_count=tres.count_gpus(alloc),
            suspended=times.parse_duration(suspended) or timedelta(0),
            het_job_id=_first_part(shown_id),
        )
    except ValueError as error:
        raise queue_text.GarbledError(f"{error} in {row!r}") from error


def _read_sacct(programs: Programs, job_ids: Collection[int], since: datetime) -> list[EndedAttempt] | Unknown:
    argv = [
        "sacct", "--local", "--noheader", "--parsable2",
        "--delimiter", DELIMITER, "--duplicates", "--allocations", "--allusers",
        "--jobs", ",".join(map(str, sorted(job_ids))),
        "--starttime", since.strftime("%Y-%m-%dT%H:%M:%S"),
        "--format", ",".join(FIELDS),
    ]  # fmt: skip
    answer = programs.read("accounting", argv)
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if not finished.is_clean and (finished.returncode != 0 or not text):
        return explain_failure(finished)
    try:
        return list(parse_sacct(text, job_ids))
    except queue_text.GarbledError as error:
        return failure_reasons.make_unknown("accounting", FailureReason.GARBLED, str(error))


def explain_failure(finished: ProgramResult) -> Unknown:
    """Return why sacct gave no answer."""
    if any(words in finished.stderr.lower() for words in _NO_ACCOUNTING):
        return failure_reasons.make_unknown("accounting", FailureReason.MISSING, "this cluster keeps no accounting")
    return failure_reasons.classify("accounting", finished.returncode, finished.stderr)


def _read_fallback(
    refusal: Unknown, job_ids: Collection[int], since: datetime, read_remembered: ReadRemembered
) -> list[EndedAttempt] | Unknown:
    """Return the ended attempts that slurmctld still knows.

    If accounting exists but fails, an incomplete answer does not count: the result is then accounting's reason.
    """
    jobs = read_remembered(job_ids, since)
    if isinstance(jobs, Unknown):
        return jobs if refusal.reason.startswith(FailureReason.MISSING) else refusal
    ended = [attempt_of(job) for job in heterogeneous.join_parts(jobs) if job.state in ENDED_STATES]
    is_final = refusal.reason.startswith(FailureReason.MISSING) or {job.job_id for job in jobs} >= set(job_ids)
    return ended if is_final else refusal


def attempt_of(job: Job) -> EndedAttempt:
    """Return how the last attempt of an ended job ended, from its entry in the queue."""
    return EndedAttempt(
        job_id=job.job_id,
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        ended_at=job.ends_at,
        state=job.state,
        node_list=job.node_list,
        node_count=job.node_count,
        cpu_count=job.cpu_count,
        gpu_count=job.gpu_count,
    )


def _script_of(text: str) -> str | None:
    """Return the script without sacct's two heading lines; None if accounting has no script."""
    if not text.startswith(_SCRIPT_HEAD):
        return None
    script = text.split("\n", 2)[-1]
    return None if script.strip() in {"", "NONE"} else script


def _batches(job_ids: Collection[int]) -> Iterator[list[int]]:
    ordered = sorted(job_ids)
    for start in range(0, len(ordered), JOBS_PER_CALL):
        yield ordered[start : start + JOBS_PER_CALL]


def by_time(attempt: EndedAttempt) -> tuple[float, int]:
    return (attempt.ended_at.timestamp() if attempt.ended_at else 0.0, attempt.job_id)
