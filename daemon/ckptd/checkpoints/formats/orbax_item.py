"""One tree of arrays that Orbax saved: in an OCDBT database or as zarr arrays in directories of their own.

Sources: orbax/checkpoint/_src/metadata/tree.py for `_METADATA`, and the layouts of TensorStore's drivers.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ckptd.checkpoints.formats.encodings import msgpack_walk, ocdbt, zarr
from ckptd.checkpoints.formats.encodings.ocdbt import StoredValue
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import File
from ckptd.core.model import Level

METADATA = "_METADATA"
AGGREGATE = "checkpoint"
_JSON_FILES = (METADATA, "_sharding", "_strings.json")
_MAX_JSON_BYTES = 64 << 20
_MAX_SMALL_BYTES = 1 << 16
_STORED_KINDS = frozenset({"jax.Array", "np.ndarray", "scalar"})
_MAX_CHUNKS = 1_000_000
_MAX_HEADS = 1_000  # chunks whose beginnings are read at level structure


@dataclass(kw_only=True)
class OrbaxItem:
    """The files of one item by their paths relative to it, and what was found in them."""

    name: str
    files: Mapping[str, File]
    reader: Reader
    level: Level
    numbers: dict[str, Any] = field(default_factory=dict)
    has_checksum: bool = True
    unread_codec: str | None = None
    chunks_seen: int = 0
    array_names: set[str] = field(default_factory=set)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def directories(self) -> set[str]:
        return {path.partition("/")[0] for path in self.files if "/" in path}

    def below(self, name: str) -> "OrbaxItem":
        """Return what one of its directories holds as an item of its own."""
        start = len(name) + 1
        return OrbaxItem(
            name=f"{self.name}/{name}" if self.name else name,
            files={path[start:]: file for path, file in self.files.items() if path.startswith(f"{name}/")},
            reader=self.reader,
            level=self.level,
        )

    @property
    def is_tree(self) -> bool:
        return (
            METADATA in self.files
            or ocdbt.MANIFEST in self.files
            or any(name.startswith("ocdbt.process_") for name in self.directories)
            or any(path.endswith(("/.zarray", "/zarr.json")) for path in self.files)
        )

    def check(self) -> None:
        """Check the tree; numbers that are arrays of one go to `numbers`.

        Raises:
            DamagedError: a part is missing or damaged.

        """
        for name in _JSON_FILES:
            if name in self.files:
                found = read_json(self.files[name], self.reader)
                if name == METADATA and isinstance(found, dict):
                    self.metadata = found
        for path, file in self.files.items():
            if path.startswith("array_metadatas/"):
                read_json(file, self.reader)
        if AGGREGATE in self.files:
            self._check_aggregate(self.files[AGGREGATE])
        elif METADATA not in self.files:
            raise DamagedError(f"{METADATA} is missing, and without it nothing tells the tree of its arrays")
        stored = self._check_database() if self._has_database else self._check_directories()
        missing = sorted(name for name in self._expected_names() if name not in stored)
        if missing:
            raise DamagedError(f"{len(missing)} arrays are missing, the first is {missing[0]!r}")

    @property
    def _has_database(self) -> bool:
        if ocdbt.MANIFEST in self.files or any(name.startswith("ocdbt.process_") for name in self.directories):
            return True
        return self.metadata.get("use_ocdbt") is True

    def _check_aggregate(self, file: File) -> None:
        with self.reader.open(file.path) as opened:
            try:
                content = msgpack_walk.walk(opened, file.size_bytes)
            except DamagedError as error:
                raise DamagedError(f"{AGGREGATE!r} {error}") from error
        if isinstance(content, dict):
            self.numbers.update(content)

    def _expected_names(self) -> Iterator[str]:
        """Yield the names that the metadata give to leaves which are stored as arrays."""
        tree = self.metadata.get("tree_metadata")
        for leaf in tree.values() if isinstance(tree, dict) else ():
            if not isinstance(leaf, dict):
                continue
            value, keys = leaf.get("value_metadata"), leaf.get("key_metadata")
            if isinstance(value, dict) and value.get("value_type") in _STORED_KINDS and isinstance(keys, list):
                if value.get("skip_deserialize"):
                    continue
                yield ".".join(str(key.get("key")) for key in keys if isinstance(key, dict))

    def _check_database(self) -> set[str]:
        if self.level is Level.FULL:
            for name in sorted(self.directories):
                if name.startswith("ocdbt.process_") and f"{name}/{ocdbt.MANIFEST}" in self.files:
                    self._check_process(name)
        return self._check_arrays(dict(ocdbt.OcdbtDatabase(self.files, self.reader).read_entries()))

    def _check_process(self, name: str) -> None:
        """Check the files of one process, which the item's tree was merged from: truncation shows only here."""
        start = len(name) + 1
        files = {path[start:]: file for path, file in self.files.items() if path.startswith(f"{name}/")}
        try:
            for _ in ocdbt.OcdbtDatabase(files, self.reader, checks_older_versions=True).read_entries():
                pass
        except DamagedError as error:
            raise DamagedError(f"in {name!r} {error}") from error

    def _check_directories(self) -> set[str]:
        values: dict[str, bytes | StoredValue] = {}
        arrays = {path.rpartition("/")[0] for path in self.files if path.rpartition("/")[2] in zarr.METADATA_NAMES}
        for path, file in self.files.items():
            top = path.partition("/")[0]
            if "/" not in path or not any(
                path.startswith(f"{name}/") for name in (top, path.rpartition("/")[0]) if name in arrays
            ):
                continue
            values[path] = StoredValue(path, 0, file.size_bytes)
        return self._check_arrays(values)

    def _check_arrays(self, values: Mapping[str, bytes | StoredValue]) -> set[str]:
        """Check each array's metadata, that its chunks are there and, at level full, that they decode."""
        names = set()
        for key in values:
            name, _, leaf = key.rpartition("/")
            if leaf not in zarr.METADATA_NAMES:
                continue
            try:
                array = zarr.parse_metadata(self._read_small(values[key]))
                if array is None:
                    continue
                names.add(name)
                if array.shape:
                    self.array_names.add(name)
                self._check_array(name, array, values)
            except DamagedError as error:
                raise DamagedError(f"the array {name!r} {error}") from error
        return names

    def _check_array(self, name: str, array: zarr.Array, values: Mapping[str, bytes | StoredValue]) -> None:
        self.has_checksum = self.has_checksum and array.is_checked
        self.unread_codec = self.unread_codec or array.unread_codec
        for chunk in array.chunk_keys():
            self.chunks_seen += 1
            if self.chunks_seen > _MAX_CHUNKS:
                raise TooLargeError(f"its arrays have more than {_MAX_CHUNKS} chunks")
            value = values.get(f"{name}/{chunk}")
            if value is None:
                if self.metadata.get("store_array_data_equal_to_fill_value") is True:
                    raise DamagedError(f"lacks its chunk {chunk}")
                continue
            if not _size(value) and array.chunk_bytes:
                raise DamagedError(f"has an empty chunk {chunk}")
            if self.level is Level.FULL:
                self._check_chunk(array, chunk, value)
            elif self.chunks_seen <= _MAX_HEADS:
                self._check_beginning(array, chunk, value)
            if array.chunk_count == 1 and _size(value) <= _MAX_SMALL_BYTES:
                number = zarr.read_scalar(array, self._read_small(value))
                if number is not None:
                    _put(self.numbers, name, number)

    def _check_beginning(self, array: zarr.Array, chunk: str, value: bytes | StoredValue) -> None:
        if isinstance(value, bytes):
            head = value[: zarr.HEAD_BYTES]
        else:
            with self.reader.open(self.files[value.path].path) as file:
                file.seek(value.offset)
                head = file.read(min(value.size_bytes, zarr.HEAD_BYTES))
        try:
            zarr.check_beginning(array, head, _size(value))
        except DamagedError as error:
            raise DamagedError(f"has a damaged chunk {chunk}: {error}") from error

    def _check_chunk(self, array: zarr.Array, chunk: str, value: bytes | StoredValue) -> None:
        try:
            if isinstance(value, bytes):
                zarr.check_chunk(array, io.BytesIO(value), 0, len(value))
            else:
                with self.reader.open(self.files[value.path].path) as file:
                    zarr.check_chunk(array, file, value.offset, value.size_bytes)
        except DamagedError as error:
            raise DamagedError(f"has a damaged chunk {chunk}: it {error}") from error

    def _read_small(self, value: bytes | StoredValue) -> bytes:
        if isinstance(value, bytes):
            return value
        if value.size_bytes > _MAX_JSON_BYTES:
            raise DamagedError(f"has metadata of {value.size_bytes} bytes")
        with self.reader.open(self.files[value.path].path) as file:
            file.seek(value.offset)
            return file.read(value.size_bytes)


def _size(value: bytes | StoredValue) -> int:
    return len(value) if isinstance(value, bytes) else value.size_bytes


def _put(numbers: dict[str, Any], name: str, value: float) -> None:
    """Put a number where its dotted name says."""
    holder: Any = numbers
    *parents, last = name.replace("/", ".").split(".")
    for parent in parents:
        following = holder.get(parent)
        if not isinstance(following, dict):
            following = holder[parent] = {}
        holder = following
    holder[last] = value


def read_json(file: File, reader: Reader) -> Any:
    """Return what a file of JSON holds.

    Raises:
        DamagedError: it holds none, or is larger than any writer makes it.

    """
    name = file.name
    if file.size_bytes > _MAX_JSON_BYTES:
        raise DamagedError(f"{name} has {file.size_bytes} bytes")
    try:
        return json.loads(reader.read_whole(file.path, _MAX_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{name} is no whole JSON: {error}") from error
