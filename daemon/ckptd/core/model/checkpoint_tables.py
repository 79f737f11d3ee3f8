"""Checkpoints of one file as the columns of a table, for the agent's pipe: a directory may have 100,000 of them.

A column is a list with a value for each row, or the one value that all rows have. What a row has besides these columns
is as in a new checkpoint, or follows from its file: its size, and the time of its last change. Any other checkpoint is
sent as `checkpoint_json` encodes it. What is decoded may come from hostile code.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import Checkpoint, FileIdentity, Grouping
from ckptd.core.model.checkpoint_json import FIELD_DECODERS, share_uids
from ckptd.core.model.checkpoints import to_instant

MAX_ROWS = 1000  # of one table
_LEAST_ROWS = 20  # a smaller table takes longer than its rows one by one
_LONGEST_SHARED = 1000  # characters: a child could send a longer text once, and it would be recorded for each row
_FACTS = (
    "format", "state", "level", "role", "role_evidence", "is_result", "reason", "epoch", "step", "name_epoch",
    "name_step", "is_best", "is_newest", "is_listed", "goal_epoch", "goal_step", "content_epoch", "content_step",
    "continued_count", "continued_from_step", "computation",
)  # fmt: skip
_GROUPING: dict[str, Callable[[Any], Any]] = {
    "series": str,
    "progress": lambda numbers: tuple(map(int, numbers)),
    "evidence": str,
    "has_progress_word": bool,
    "is_directory": bool,
    "doubt": lambda text: None if text is None else str(text),
}
_get_facts, _get_grouping = attrgetter(*_FACTS), attrgetter(*_GROUPING)
_IDENTITY = FileIdentity._fields
_DECODERS: tuple[Callable[[Any], Any], ...] = (
    *[int] * len(_IDENTITY),
    int,
    *(FIELD_DECODERS[name] for name in _FACTS),
    *_GROUPING.values(),
)


def encode_tables(found: Iterable[Checkpoint | int], directory: str) -> Iterator[Checkpoint | int | list[Any]]:
    """Yield tables of those that follow one another and can be rows, and the others as they are, in order.

    All lie below the directory. Numbers, which stand for known checkpoints, stay as they are.
    """
    rows: list[Checkpoint] = []
    for each in found:
        if isinstance(each, Checkpoint) and _is_row(each):
            rows.append(each)
            if len(rows) < MAX_ROWS:
                continue
            yield _encode_rows(rows, directory)
        else:
            yield from [_encode_rows(rows, directory)] if len(rows) >= _LEAST_ROWS else rows
            yield each
        rows = []
    yield from [_encode_rows(rows, directory)] if len(rows) >= _LEAST_ROWS else rows


def _is_row(found: Checkpoint) -> bool:
    """Whether a checkpoint is one file of its own name and one owner, without what is as long as a file likes."""
    if len(found.files) != 1 or found.parts or found.metrics or found.unsafe or len(found.owner_uids) != 1:
        return False
    identity = found.identities[0]
    return (
        found.files[0] == found.path.name
        and found.size_bytes == identity.size_bytes
        and found.modified_at == to_instant(identity.modified_ns)
    )


def _encode_rows(rows: Sequence[Checkpoint], directory: str) -> list[Any]:
    start = len(f"{directory.rstrip('/')}/")
    identities = zip(*[each.identities[0] for each in rows], strict=True)
    uids = [uid for each in rows for uid in each.owner_uids]
    facts = zip(*map(_get_facts, rows), strict=True)
    groupings = zip(*[_get_grouping(each.grouping) for each in rows], strict=True)
    return [[str(each.path)[start:] for each in rows], *map(_share, (*identities, uids, *facts, *groupings))]


def _share(column: Sequence[Any]) -> Any:
    """Return the value that all rows have, if there is one; 1 and 1.0 are two, and long texts are never shared."""
    first = column[0]
    if isinstance(first, tuple) or column[-1] != first or column.count(first) < len(column):
        return column
    if isinstance(first, str):
        return first if len(first) <= _LONGEST_SHARED else column
    return first if len(set(map(type, column))) == 1 else column


def decode_table(table: Sequence[Any], directory: str) -> list[Checkpoint]:
    """Return the checkpoints of a table, all of them below the directory.

    Raises:
        IndexError, KeyError, OverflowError, TypeError, ValueError: the table is not what `encode_tables` makes.

    """
    names, *columns = table
    if not isinstance(names, list) or not 0 < len(names) <= MAX_ROWS:
        raise ValueError("a table has no rows, or too many")
    base, count = directory.rstrip("/"), len(names)
    values = [_decode_column(column, decode, count) for column, decode in zip(columns, _DECODERS, strict=True)]
    at = len(_IDENTITY)
    identities = map(FileIdentity._make, zip(*values[:at], strict=True))
    facts = zip(*values[at + 1 : -len(_GROUPING)], strict=True)
    groupings = (
        Grouping(**dict(zip(_GROUPING, row, strict=True))) for row in zip(*values[-len(_GROUPING) :], strict=True)
    )
    found = []
    for name, identity, uid, fact, grouping in zip(names, identities, values[at], facts, groupings, strict=True):
        if "/../" in f"/{name}/":
            raise ValueError(f"{name} is not below {directory}")
        path = PurePosixPath(f"{base}/{name}")
        found.append(
            Checkpoint(
                path=path,
                files=(path.name,),
                identities=(identity,),
                owner_uids=share_uids((uid,)),
                size_bytes=identity.size_bytes,
                modified_at=to_instant(identity.modified_ns),
                grouping=grouping,
                **dict(zip(_FACTS, fact, strict=True)),
            )
        )
    return found


def _decode_column(column: Any, decode: Callable[[Any], Any], count: int) -> Iterable[Any]:
    """Return a value for each row."""
    if isinstance(column, list):
        return [*map(decode, column)]
    if isinstance(column, dict) or (isinstance(column, str) and len(column) > _LONGEST_SHARED):
        raise ValueError("all rows of a table share a value that is long")
    return repeat(decode(column), count)
