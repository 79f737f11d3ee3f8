"""Groups requests for the agent into batches, one owner each, and decodes the answers."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from ckptd.checkpoints.agent.answer_pieces import MAX_DEPTH
from ckptd.checkpoints.agent.client import Answer, Batch
from ckptd.core.model import Unknown
from ckptd.core.text.nesting import is_nested_deeper

Value = TypeVar("Value")
MAX_BATCH = 50  # directories that one child scans before another user's turn


class BatchRunner(Protocol):
    """Runs batches, each as its owner."""

    def run(self, batches: Sequence[Batch]) -> list[list[Answer]]: ...

    def run_as_answered(self, batches: Sequence[Batch]) -> Iterator[list[tuple[int, list[Answer]]]]: ...


def run_items(
    agent: BatchRunner,
    operation: str,
    items: Sequence[tuple[int, dict[str, Any]]],
    deadline: timedelta,
    most: int = MAX_BATCH,
) -> list[Answer]:
    """Run the items grouped by owner, so many in a batch, and return the answers in the order of the items."""
    places, batches = _group_by_owner(operation, items, deadline, most)
    answers: dict[int, Answer] = {}
    for indexes, found in zip(places, agent.run(batches), strict=True):
        answers.update(zip(indexes, found, strict=True))
    return [answers[index] for index in range(len(items))]


def run_items_as_answered(
    agent: BatchRunner, operation: str, items: Sequence[tuple[int, dict[str, Any]]], deadline: timedelta
) -> Iterator[dict[int, Answer]]:
    """Run the items grouped by owner, and yield answers by the items' places, those of some owners at a time."""
    places, batches = _group_by_owner(operation, items, deadline)
    for answered in agent.run_as_answered(batches):
        yield {index: answer for place, found in answered for index, answer in zip(places[place], found, strict=True)}


def _group_by_owner(
    operation: str, items: Sequence[tuple[int, dict[str, Any]]], deadline: timedelta, most: int = MAX_BATCH
) -> tuple[list[list[int]], list[Batch]]:
    """Return batches of one owner each, with the places of their items."""
    by_owner: dict[int, list[int]] = defaultdict(list)
    for index, (uid, _) in enumerate(items):
        by_owner[uid].append(index)
    places = [indexes[start : start + most] for indexes in by_owner.values() for start in range(0, len(indexes), most)]
    batches = [
        Batch(
            uid=items[indexes[0]][0],
            operation=operation,
            items=tuple(items[index][1] for index in indexes),
            deadline_seconds=deadline.total_seconds(),
        )
        for indexes in places
    ]
    return places, batches


def decode_answer(answer: Answer, decode: Callable[[dict[str, Any]], Value]) -> Value | Unknown:
    """Decode an answer; Unknown if it is missing or malformed.

    A subverted child may nest it so deep that it could be decoded here, and not encoded again for the database.
    """
    if isinstance(answer, Unknown):
        return answer
    if is_nested_deeper(answer, MAX_DEPTH):
        return Unknown(what="answer", reason="the child's answer is malformed: it is nested too deep")
    try:
        return decode(answer)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        OSError,
    ) as error:  # such an instant
        return Unknown(what="answer", reason=f"the child's answer is malformed: {error}")
