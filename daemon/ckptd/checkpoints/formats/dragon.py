"""Dragon's persisted distributed dictionary: one file for each manager and checkpoint id.

`<dictionary>_<manager>_<id>.ddict`: u64 little-endian length, a pickle of `dragon.data.ddict.manager.Checkpoint`,
then records of u64 memory id, u64 length and bytes, to the end of the file. The pickle's state is (id, keys as
{memory id: ...}, values as {key's memory id: [memory ids]}, ...); keys and small values are pickles themselves.
Nothing marks a checkpoint as complete, so a manager counts as missing only if other ids of the dictionary have it.
The layout was derived from files of Dragon 0.15.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from struct import unpack
from typing import Any, BinaryIO

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, examine_parts
from ckptd.checkpoints.formats.encodings.pickle_reader import Pickle, read_pickle
from ckptd.checkpoints.formats.encodings.pickle_values import Opaque
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

_NAME = re.compile(r"(?P<dictionary>.+)_(?P<manager>\d{1,9})_(?P<id>\d{1,18})\.ddict", re.DOTALL)
_CLASS = "dragon.data.ddict.manager.Checkpoint"
_SMALL_BYTES = 512  # a key or value that may be a name or a number
_PICKLE_LIMIT = 1 << 30
_CHUNK_BYTES = 1 << 20


class Dragon:
    name = "dragon"
    role_unread = roles.RESTART_FILE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        sets: dict[tuple[str, str], dict[str, File]] = defaultdict(dict)
        managers: dict[str, set[str]] = defaultdict(set)
        for file in directory.by_suffix.get("ddict", ()):
            if match := _NAME.fullmatch(file.name):
                sets[match["dictionary"], match["id"]][match["manager"]] = file
                managers[match["dictionary"]].add(match["manager"])
        for (dictionary, number), files in sets.items():
            orchestrator = directory.files.get(f"ddict_orc_{dictionary}")
            missing = sorted(managers[dictionary] - set(files), key=int)
            yield Claim(
                format=self.name,
                shape=Shape.SET,
                path=directory.join(f"{dictionary}_*_{number}.ddict"),
                files=tuple(files[manager] for manager in sorted(files, key=int)),
                markers=(orchestrator,) if orchestrator else (),
                damage=_name_missing(dictionary, missing, number),
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level, role=self.role_unread)
        return examine_parts(parts, lambda: _check(parts))


def _name_missing(dictionary: str, managers: list[str], number: str) -> str | None:
    if not managers:
        return None
    more = f" and {len(managers) - 1} more" if len(managers) > 1 else ""
    return f"{dictionary}_{managers[0]}_{number}.ddict is missing{more}: other ids of this dictionary have it"


def _check(parts: CheckpointParts) -> None:
    said: dict[str, Any] = {}
    for name in parts.names:
        with parts.open(name) as file, parts.blame(name):
            match = _NAME.fullmatch(name)
            _check_file(parts, file, parts.files[name].size_bytes, int(match["id"]) if match else -1, said)
    parts.findings.unchecked.add("")
    parts.findings.add_facts(said)


def _check_file(parts: CheckpointParts, file: BinaryIO, size_bytes: int, number: int, said: dict[str, Any]) -> None:
    if size_bytes == 0:
        raise DamagedError("the file is empty")
    head = file.read(8)
    length = unpack("<Q", head)[0] if len(head) == 8 else 0
    if not 0 < length <= min(size_bytes - 8, _PICKLE_LIMIT):
        raise DamagedError(f"its checkpoint record claims {length} bytes, the file has {size_bytes}")
    record = read_pickle(file.read(length))
    parts.findings.unsafe.update(record.unsafe)
    keys, values = _maps(record, length, number)
    places = _find_records(file, 8 + length, size_bytes)
    wanted = set(keys) | {value for found in values.values() for value in found}
    if lost := wanted - set(places):
        raise DamagedError(f"{len(lost)} of the {len(wanted)} records that its checkpoint record names are not there")
    said.update(_small_values(parts, file, places, values))
    if parts.level is Level.FULL:
        file.seek(0)
        while file.read(_CHUNK_BYTES):
            pass


def _maps(record: Pickle, length: int, number: int) -> tuple[set[int], dict[int, list[int]]]:
    """Return the memory ids of the keys, and those of the values of each key."""
    value = record.value
    state = value.state if isinstance(value, Opaque) and value.full_name == _CLASS else None
    if not isinstance(state, tuple) or len(state) < 3 or record.end != length:
        raise DamagedError("its checkpoint record is not one of Dragon's dictionary")
    if state[0] != number:
        raise DamagedError(f"its name says id {number}, its checkpoint record {state[0]!r}")
    keys, values = state[1], state[2]
    if not isinstance(keys, dict) or not isinstance(values, dict):
        raise DamagedError("its checkpoint record has no maps of keys and values")
    if not all(key in keys for key in values):
        raise DamagedError("its checkpoint record has values of keys that it does not have")
    if not all(isinstance(found, list) and all(type(item) is int for item in found) for found in values.values()):
        raise DamagedError("its checkpoint record's values are no memory ids")
    return set(keys), values


def _find_records(file: BinaryIO, start: int, size_bytes: int) -> dict[int, tuple[int, int]]:
    """Return where the bytes of each memory id lie; the records fill the file exactly."""
    places: dict[int, tuple[int, int]] = {}
    position = start
    while position < size_bytes:
        file.seek(position)
        head = file.read(16)
        if len(head) < 16:
            raise DamagedError(f"it ends within the record at byte {position}")
        memory_id, length = unpack("<QQ", head)
        if length > size_bytes - position - 16:
            raise DamagedError(f"the record at byte {position} claims {length} bytes, more than the file has")
        places[memory_id] = (position + 16, length)
        position += 16 + length
    return places


def _small_values(
    parts: CheckpointParts, file: BinaryIO, places: dict[int, tuple[int, int]], values: dict[int, list[int]]
) -> Iterator[tuple[str, Any]]:
    """Yield the keys that are short text, with their values where these are small pickles too."""
    for key, found in values.items():
        if len(found) == 1 and places[key][1] <= _SMALL_BYTES and places[found[0]][1] <= _SMALL_BYTES:
            name = _read_small(parts, file, places[key])
            if isinstance(name, str):
                yield name, _read_small(parts, file, places[found[0]])


def _read_small(parts: CheckpointParts, file: BinaryIO, place: tuple[int, int]) -> Any:
    """Return what a small record holds, None where it is no pickle: values may be any bytes."""
    file.seek(place[0])
    try:
        found = read_pickle(file.read(place[1]))
    except DamagedError:
        return None
    parts.findings.unsafe.update(found.unsafe)
    return found.value
