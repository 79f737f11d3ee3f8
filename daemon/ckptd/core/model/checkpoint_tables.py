"""Checkpoints of one file as the columns of a table, for the agent's pipe: a directory may have 100,000 of them.

A column is a list with a value for each row, or the one value that all rows have; all these values of a table together
are short. What a row has besides these columns is as in a new checkpoint, or follows from its file: its size, and the
time of its last change. Any other checkpoint is sent as `checkpoint_json` encodes it. What is decoded may come from
hostile code.
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
_MOST_SHARED = 500  # characters in a table: a child could send long texts once, and they would be recorded for each row
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
    return [[str(each.path)[start:] for each in rows], *_share((*identities, uids, *facts, *groupings))]


def _share(columns: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """Yield the value that all rows have in a column, where there is one and it is short, or else the column."""
    left = _MOST_SHARED
    for column in columns:
        first = column[0]
        if _is_alike(column) and (length := len(str(first))) <= left:
            left -= length
            yield first
        else:
            yield column


def _is_alike(column: Sequence[Any]) -> bool:
    """Whether all rows have one plain value; 1 and 1.0 are two."""
    first = column[0]
    if isinstance(first, tuple) or column[-1] != first or column.count(first) < len(column):
        return False
    return isinstance(first, str) or len(set(map(type, column))) == 1


def decode_table(table: Sequence[Any], directory: str) -> list[Checkpoint]:
    """Return the checkpoints of a table, all of them below the directory.

    Raises:
        KeyError, OverflowError, TypeError, ValueError: the table is not what `encode_tables` makes.

    """
    names, *columns = table
    if not isinstance(names, list) or not 0 < len(names) <= MAX_ROWS:
        raise ValueError("a table has no rows, or too many")
    base, count = directory.rstrip("/"), len(names)
    if sum(len(str(column)) for column in columns if not isinstance(column, list)) > _MOST_SHARED:
        raise ValueError("the rows of a table share values that are long")
    values = [_decode_column(column, decode, count) for column, decode in zip(columns, _DECODERS, strict=True)]
    at = len(_IDENTITY)
    identities = map(FileIdentity._make, zip(*values[:at], strict=True))
    facts = zip(*values[at + 1 : -len(_GROUPING)], strict=True)
    groupings = (
        Grouping(**dict(zip(_GROUPING, row, strict=True))) for row in zip(*values[-len(_GROUPING) :], strict=True)
    )
    found = []
    for name, identity, uid, fact, grouping in zip(names, identities, values[at], facts, groupings, strict=True):
        around = f"/{name}/"
        if not isinstance(name, str) or "//" in around or "/./" in around or "/../" in around:
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
    return [*map(decode, column)] if isinstance(column, list) else repeat(decode(column), count)
