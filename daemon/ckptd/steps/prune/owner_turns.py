"""Groups requests by a few owners at a time, and stops if file systems do not answer.

The agent has few children at a time, and scans need them as well: hanging requests of pruning must not use them all.
Owners who lately did not answer are asked after all others, so that they delay only each other.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from ckptd.checkpoints.agent.batches import MAX_BATCH
from ckptd.checkpoints.agent.trash_client import TrashLocation, TrashRequest
from ckptd.core.model import RunKey, Unknown
from ckptd.steps.prune import silent_users

AT_ONCE = 4  # owners side by side
MAX_SILENT = 2  # groups with an owner who does not answer, in one step: the rest is for later
NOT_ASKED = Unknown(what="trash", reason="an earlier request for its owner was not answered")

Value = TypeVar("Value")


def group_by_owners(runs: Iterable[RunKey], suspects: Collection[int]) -> Iterator[list[RunKey]]:
    """Yield the runs of a few owners at a time; those of the suspects at the end and by themselves."""
    owners = [list(group) for _, group in groupby(sorted(runs, key=_owner), key=_owner)]
    for is_suspect in (False, True):
        some = [group for group in owners if (group[0].uid in suspects) is is_suspect]
        for start in range(0, len(some), AT_ONCE):
            yield [run for group in some[start : start + AT_ONCE] for run in group]


def ask(
    asked: Sequence[TrashRequest], request: Callable[[Sequence[TrashRequest]], Sequence[Value | Unknown]]
) -> list[Value | Unknown]:
    """Ask for one child's work for each owner at a time, and for no more of an owner who did not answer.

    Otherwise an owner of thousands of trashes would keep the request waiting for many deadlines.
    """
    parts: dict[int, list[TrashRequest]] = {}
    counts = Counter[int]()
    for each in asked:
        parts.setdefault(counts[each.place.uid] // MAX_BATCH, []).append(each)
        counts[each.place.uid] += 1
    answers: dict[TrashLocation, Value | Unknown] = {}
    silent: set[int] = set()
    for part in parts.values():
        turn = [each for each in part if each.place.uid not in silent]
        found = dict(zip([each.place for each in turn], request(turn), strict=True))
        silent |= {place.uid for place, answer in found.items() if silent_users.is_unanswered(answer)}
        answers |= found
    return [answers.get(each.place, NOT_ASKED) for each in asked]


def _owner(run: RunKey) -> int:
    return run.uid
