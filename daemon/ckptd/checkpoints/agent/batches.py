"""Groups requests for the agent into batches, one owner each, and decodes the answers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from ckptd.checkpoints.agent.client import Answer, Batch
from ckptd.core.model import Unknown

Value = TypeVar("Value")
MAX_BATCH = 50  # directories that one child scans before another user's turn


class BatchRunner(Protocol):
    """Runs batches, each as its owner."""

    def run(self, batches: Sequence[Batch]) -> list[list[Answer]]: ...


def run_items(
    agent: BatchRunner, operation: str, items: Sequence[tuple[int, dict[str, Any]]], deadline: timedelta
) -> list[Answer]:
    """Run the items grouped by owner, and return the answers in the order of the items."""
    by_owner: dict[int, list[int]] = defaultdict(list)
    for index, (uid, _) in enumerate(items):
        by_owner[uid].append(index)
    chunks = [
        (uid, indexes[start : start + MAX_BATCH])
        for uid, indexes in by_owner.items()
        for start in range(0, len(indexes), MAX_BATCH)
    ]
    batches = [
        Batch(
            uid=uid,
            operation=operation,
            items=tuple(items[index][1] for index in indexes),
            deadline_seconds=deadline.total_seconds(),
        )
        for uid, indexes in chunks
    ]
    answers: dict[int, Answer] = {}
    for (_, indexes), found in zip(chunks, agent.run(batches), strict=True):
        answers.update(zip(indexes, found, strict=True))
    return [answers[index] for index in range(len(items))]


def decode_answer(answer: Answer, decode: Callable[[dict[str, Any]], Value]) -> Value | Unknown:
    """Decode an answer; Unknown if it is missing or malformed."""
    if isinstance(answer, Unknown):
        return answer
    try:
        return decode(answer)
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:  # OSError: an instant beyond the clock
        return Unknown(what="answer", reason=f"the child's answer is malformed: {error}")
