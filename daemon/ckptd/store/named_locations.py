"""Reads the further locations of runs with plain SQL."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from ckptd.core.model import NamedLocation, RunKey
from ckptd.core.rows.text_escapes import encode_text
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import RUN_KEY, Columns, decode_any, list_numbers
from ckptd.store.row_values import hash_path, split

_NAMED = Columns(("directory", "trouble", "is_absent", "is_earlier"))
_PRIMARIES = f"""
SELECT {RUN_KEY.of("r")}, l.directory FROM locations l JOIN runs r ON r.id = l.run_id
WHERE r.cluster = :cluster AND l.trouble IS NULL AND l.is_absent IS NOT TRUE AND l.directory_hash IN ({{hashes}})
ORDER BY r.id
"""  # noqa: S608 - the columns are this package's own


def read_locations(select: Select, row_ids: Collection[int]) -> dict[int, tuple[NamedLocation, ...]]:
    """Return the further locations of these runs, in the order in which they were named."""
    found: dict[int, list[NamedLocation]] = defaultdict(list)
    for chunk in split(row_ids):
        statement = f"""
            SELECT l.run_id, {_NAMED.of("l")} FROM locations l WHERE l.run_id IN ({list_numbers(chunk)})
            ORDER BY l.ordinal
        """  # noqa: S608 - row ids
        for row_id, *named in select(statement, {}):
            found[row_id].append(NamedLocation(*_NAMED.decode(named)))
    return {row_id: tuple(locations) for row_id, locations in found.items()}


def read_primaries(select: Select, cluster: str, keys: Collection[RunKey]) -> dict[RunKey, tuple[RunKey, ...]]:
    """Return the runs of which each of these directories is a further location; only directories that are any."""
    found: dict[RunKey, list[RunKey]] = defaultdict(list)
    wanted = set(keys)
    for chunk in split(wanted):
        hashes = ", ".join(f"'{hash_path(key.directory)}'" for key in chunk)
        for row in select(_PRIMARIES.format(hashes=hashes), {"cluster": encode_text(cluster)}):
            primary = RunKey(*RUN_KEY.decode(row[:3]))
            copy = primary._replace(directory=decode_any(row[3]))
            if copy in wanted:
                found[copy].append(primary)
    return {key: tuple(primaries) for key, primaries in found.items()}


def list_keys(run: RunKey, named: Iterable[NamedLocation]) -> tuple[RunKey, ...]:
    """Return the keys under which the copies of a run are recorded."""
    return tuple(run._replace(directory=each.directory) for each in named if each.is_scanned)
