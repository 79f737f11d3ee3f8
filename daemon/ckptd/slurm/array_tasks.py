"""Reads Slurm's expressions for the waiting tasks of an array, which share one job until each starts."""

from typing import NamedTuple

_CUT = "..."  # Slurm shortens long expressions to SLURM_BITSTR_LEN


class WaitingTasks(NamedTuple):
    """The tasks that an expression names."""

    only: int | None  # the task's id if it is the only one
    task_count: int  # a lower bound if Slurm shortened the expression
    limit: int | None  # how many may run at the same time


def includes(text: str, task_id: int) -> bool:
    """Whether an expression names a task."""
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        bounds = (first, last or first, step or "1")
        if all(bound.isdigit() for bound in bounds):
            start, end, pace = map(int, bounds)
            if task_id in range(start, end + 1, pace or 1):
                return True
    return False


def parse(text: str) -> WaitingTasks:
    """Parse a text such as `5`, `0-4,7` or `10-20:5%2`.

    Raises:
        ValueError: it has another form.

    """
    expression, _, limit = text.partition("%")
    listed = [part for part in expression.split(",") if part and not part.endswith(_CUT)]
    count = 0
    for part in listed:
        span, _, step = part.partition(":")
        first, dash, last = span.partition("-")
        count += (int(last) - int(first)) // (int(step or 1) or 1) + 1 if dash else 1
    is_one = count == 1 and _CUT not in expression
    only = int(listed[0]) if is_one and listed[0].isdigit() else None
    return WaitingTasks(only, max(count, 1), int(limit) if limit.isdigit() else None)
