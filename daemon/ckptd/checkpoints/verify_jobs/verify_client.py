"""Sends requests about verification jobs to the agent: submit, follow, collect and cancel, each as the owner."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ckptd.checkpoints.agent.batches import BatchRunner, decode_answer, run_items
from ckptd.core.model import JobState, Unknown
from ckptd.core.verification import file_digests, task_results
from ckptd.core.verification.file_digests import Digests, list_wanted_files
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.core.verification.task_results import PieceVerdict, ResultError
from ckptd.core.verification.ticket import VerificationTicket

Value = TypeVar("Value")


class RefusedSubmission(NamedTuple):
    """Slurm, or the site's rules, do not let the owner submit this job."""

    reason: SkipReason
    detail: str


class SeenTasks(NamedTuple):
    """What is left of a ticket's job in the queue, and which tasks have a result file."""

    job_id: int | None
    states: dict[int, JobState]
    results: tuple[int, ...]


def submit(
    agent: BatchRunner, ticket: VerificationTicket, numbers: Sequence[int], deadline: timedelta
) -> int | RefusedSubmission | Unknown:
    """Submit tasks of a ticket as an array job of the owner; return its id. Unknown: it may have been submitted."""
    item: dict[str, Any] = {"ticket": ticket.name, "numbers": list(numbers)}
    if ticket.is_comparison:
        tasks = [[list_wanted_files(piece) for piece in task] for task in ticket.tasks]
        item["tasks"] = [
            [{"directory": each.directory, "files": list(map(list, each.files))} for each in task] for task in tasks
        ]
        return _ask(agent, "submit_digests", ticket, item, deadline, _submission)
    if ticket.is_scan:
        item |= {"directory": ticket.run.directory, "task_count": len(ticket.tasks)}
        return _ask(agent, "submit_scan", ticket, item, deadline, _submission)
    root = PurePosixPath(ticket.run.directory)
    item["directory"] = ticket.run.directory
    item["tasks"] = [[str(piece.path.relative_to(root)) for piece in task] for task in ticket.tasks]
    return _ask(agent, "submit_verification", ticket, item, deadline, _submission)


def follow(agent: BatchRunner, ticket: VerificationTicket, deadline: timedelta) -> SeenTasks | Unknown:
    """Ask the queue for a ticket's tasks, and its directory for result files."""
    item = {"ticket": ticket.name, "job_id": ticket.job_id, "task_count": len(ticket.tasks)}
    return _ask(agent, "follow_verification", ticket, item, deadline, _seen)


def collect(
    agent: BatchRunner, ticket: VerificationTicket, deadline: timedelta
) -> list[tuple[PieceVerdict, ...] | ResultError | Unknown]:
    """Read the result of each task; ResultError: it has none that can be believed."""
    return _collect(agent, "collect_verification", ticket, deadline, task_results.decode_result)


def collect_digests(
    agent: BatchRunner, ticket: VerificationTicket, deadline: timedelta
) -> list[tuple[Digests | Unknown, ...] | ResultError | Unknown]:
    """Read what each task of a comparison says of its checkpoints; ResultError: it has no result to be believed."""

    def decode(document: Any, task: int) -> tuple[Digests | Unknown, ...]:
        return file_digests.decode_result(document, task, ticket.tasks[task])

    return _collect(agent, "collect_digests", ticket, deadline, decode)


def cancel(agent: BatchRunner, ticket: VerificationTicket, deadline: timedelta) -> Unknown | None:
    """Cancel a ticket's job where it has not ended, and delete the ticket's directory."""
    item = {"ticket": ticket.name, "job_id": ticket.job_id}
    return _ask(agent, "cancel_verification", ticket, item, deadline, lambda _data: None)


def _collect(
    agent: BatchRunner,
    operation: str,
    ticket: VerificationTicket,
    deadline: timedelta,
    decode: Callable[[Any, int], Value],
) -> list[Value | ResultError | Unknown]:
    items = [(ticket.run.uid, {"ticket": ticket.name, "task": number}) for number in range(len(ticket.tasks))]
    answers = run_items(agent, operation, items, deadline)
    check = partial(_decode_result, decode=decode)
    return [decode_answer(answer, partial(check, task=task)) for task, answer in enumerate(answers)]


def _ask(
    agent: BatchRunner,
    operation: str,
    ticket: VerificationTicket,
    item: dict[str, Any],
    deadline: timedelta,
    decode: Callable[[dict[str, Any]], Value],
) -> Value | Unknown:
    (answer,) = run_items(agent, operation, [(ticket.run.uid, item)], deadline)
    return decode_answer(answer, decode)


def _submission(data: dict[str, Any]) -> int | RefusedSubmission:
    if "refused" in data:
        return RefusedSubmission(SkipReason(data["reason"]), str(data["refused"])[:500])
    return int(data["job_id"])


def _seen(data: dict[str, Any]) -> SeenTasks:
    states = {int(number): JobState(state) for number, state in data["states"]}
    job_id = None if data["job_id"] is None else int(data["job_id"])
    return SeenTasks(job_id, states, tuple(int(number) for number in data["results"]))


def _decode_result(data: dict[str, Any], task: int, decode: Callable[[Any, int], Value]) -> Value | ResultError:
    """Check the answer once more: the child parsed what a user wrote."""
    if "refused" in data:
        return ResultError(str(data["refused"])[:500])
    try:
        return decode(data["result"], task)
    except ResultError as error:
        return error
