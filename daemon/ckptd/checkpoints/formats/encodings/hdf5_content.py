"""Walks the groups and data sets of one HDF5 file, checks them, and finds epoch, step and metrics among them.

Only hard links are followed, so that no file leads to another. libhdf5 parses the file and compares the checksums of
newer metadata; only this module loads it, in the limited child. For HDF5 inside other formats (Keras, Octave, MATLAB
7.3, or a member of an archive), `examine` takes any open file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from ckptd.checkpoints.formats import facts, roles
from ckptd.checkpoints.formats.encodings import hdf5_zeros
from ckptd.checkpoints.formats.encodings.file_part import FilePart
from ckptd.checkpoints.formats.encodings.hdf5_superblock import check_superblock
from ckptd.checkpoints.formats.interface import DamagedError, Examination, TooLargeError
from ckptd.core.model import CheckpointState, Level

_MAX_OBJECTS = 200_000
_MAX_CHUNKS = 1_000_000
_MAX_CHUNK_BYTES = 1 << 30
_MAX_NUMBERS = 256
_MAX_ATTRIBUTES = 64
_NAMED_DEPTH = 3
_NUMERIC = frozenset("iuf")
_FLETCHER32, _DEFLATE = 3, 1
_MAX_SIGNS = 20_000
_FLASH_SCALARS = ("integer scalars",)  # pairs of FLASH's IO unit (hdf5_flash.h), `nstep` among them
_KERAS_COUNTER = "optimizer/vars/0"
_KERAS_OPTIMIZERS = frozenset({"optimizer", "optimizer_weights"})
_KERAS_OLD_COUNTERS = frozenset({"iter", "iteration", "iterations"})


@dataclass
class _ContentWalk:
    """What one walk has seen so far."""

    size_bytes: int
    level: Level
    signs: roles.RoleSigns = field(default_factory=roles.RoleSigns)
    objects: int = 0
    chunks: int = 0
    numbers: dict[str, Any] = field(default_factory=dict)
    optimizer_step: int | None = None
    numbers_read: int = 0
    extents: list[hdf5_zeros.Extent] = field(default_factory=list)
    has_checksum: bool = True
    doubt: str | None = None


def examine(file: BinaryIO, size_bytes: int, level: Level) -> Examination:
    """Check an HDF5 file and return what it says; at level full every chunk is decoded.

    Raises:
        DamagedError: it is damaged.
        TooLargeError: it holds more objects or larger chunks than are read here.
        OSError: the file beneath could not be read.

    """
    check_superblock(file, size_bytes)
    walk = _ContentWalk(size_bytes=size_bytes, level=level)
    with _opened(file, size_bytes) as root:
        _visit(root, walk)
    if level is Level.FULL:
        walk.doubt = walk.doubt or hdf5_zeros.find_doubt(file, size_bytes, walk.extents)
    found = facts.find_facts(walk.numbers)
    return Examination(
        state=CheckpointState.UNKNOWN if walk.doubt else CheckpointState.COMPLETE,
        reason=walk.doubt,
        epoch=found.epoch,
        step=walk.optimizer_step if walk.optimizer_step is not None else found.step,
        metrics=found.metrics,
        has_checksum=level is Level.FULL and walk.has_checksum,
    ).shown_as(_judge(walk))


def _judge(walk: _ContentWalk) -> roles.RoleEvidence:
    for name, value in walk.numbers.items():
        if isinstance(value, (int, float)):
            walk.signs.add_counter(name, value)
    return walk.signs.decide()


@contextmanager
def _opened(file: BinaryIO, size_bytes: int) -> Iterator[Any]:
    import h5py  # noqa: PLC0415 - it takes long and much memory to load, and only the child needs it

    part = FilePart(file, 0, size_bytes)
    try:
        with h5py.File(part, "r") as root:
            yield root
    except (DamagedError, TooLargeError, MemoryError):
        raise
    except Exception as error:
        if part.error is not None:
            raise part.error from error
        raise DamagedError(f"libhdf5 cannot read it: {error}") from error


def _visit(root: Any, walk: _ContentWalk) -> None:
    import h5py  # noqa: PLC0415

    _read_attributes(root, walk.numbers)
    pending: list[tuple[tuple[str, ...], Any]] = [((), root)]
    seen: set[tuple[int, Any]] = set()
    while pending:
        path, group = pending.pop()
        for raw in group.id:
            walk.objects += 1
            if walk.objects > _MAX_OBJECTS:
                raise TooLargeError(f"it holds more than {_MAX_OBJECTS} objects")
            if group.id.links.get_info(raw).type != h5py.h5l.TYPE_HARD:
                continue
            opened = h5py.h5o.open(group.id, raw)
            name = raw.decode("utf-8", "surrogateescape")
            if isinstance(opened, h5py.h5d.DatasetID):
                _check_dataset((*path, name), h5py.Dataset(opened), walk)
            elif isinstance(opened, h5py.h5g.GroupID):
                item = h5py.Group(opened)
                identity = _identity(item)
                if identity not in seen:
                    seen.add(identity)
                    pending.append(((*path, name), item))
                    if not path:
                        _read_attributes(item, walk.numbers.setdefault(name, {}))


def _identity(item: Any) -> tuple[int, Any]:
    import h5py  # noqa: PLC0415

    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


def _read_attributes(item: Any, numbers: Any) -> None:
    if not isinstance(numbers, dict):
        return  # a data set of that name was there first
    for name in list(item.attrs)[:_MAX_ATTRIBUTES]:
        attribute = item.attrs.get_id(name)
        if attribute.get_space().get_simple_extent_npoints() == 1 and _kind(attribute) in _NUMERIC:
            numbers.setdefault(name, item.attrs[name].reshape(-1)[0].item())


def _kind(item: Any) -> str:
    """Return numpy's letter for the type of a data set or attribute, "" where numpy has no such type."""
    try:
        return str(item.dtype.kind)
    except (TypeError, ValueError):
        return ""


def _check_dataset(path: tuple[str, ...], dataset: Any, walk: _ContentWalk) -> None:
    import h5py  # noqa: PLC0415

    plan = dataset.id.get_create_plist()
    layout = plan.get_layout()
    if layout == h5py.h5d.CONTIGUOUS and not plan.get_external_count():
        _check_contiguous(path, dataset, walk)
    elif layout == h5py.h5d.CHUNKED:
        _check_chunks(path, dataset, plan, walk)
    elif layout != h5py.h5d.COMPACT:
        return  # its data lie in other files, which are not opened
    _add_role_sign(path, dataset, walk)
    _read_number(path, dataset, walk)
    if path == _FLASH_SCALARS and dataset.size <= _MAX_NUMBERS and dataset.dtype.names == ("name", "value"):
        walk.numbers |= {
            name.decode("ascii", "replace").strip(" \0"): int(value) for name, value in dataset[()].reshape(-1).tolist()
        }


def _check_contiguous(path: tuple[str, ...], dataset: Any, walk: _ContentWalk) -> None:
    offset, size = dataset.id.get_offset(), dataset.id.get_storage_size()
    if offset is None or not size:
        return  # nothing was ever written to it: it reads as its fill value
    if offset + size > walk.size_bytes:
        raise DamagedError(f"the data of {'/'.join(path)!r} end behind the end of the file")
    walk.has_checksum = False
    kind = _kind(dataset)
    if kind in _NUMERIC and dataset.dtype.byteorder == ">":
        kind = "?"
    walk.extents.append(hdf5_zeros.Extent("/".join(path), offset, size, dataset.id.get_type().get_size(), kind))


def _check_chunks(path: tuple[str, ...], dataset: Any, plan: Any, walk: _ContentWalk) -> None:
    filters = [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]
    chunks: list[tuple[tuple[int, ...], int, int]] = []

    def collect(info: Any) -> bool | None:
        chunks.append((info.chunk_offset, info.byte_offset, info.size))
        return True if walk.chunks + len(chunks) > _MAX_CHUNKS else None

    dataset.id.chunk_iter(collect)
    walk.chunks += len(chunks)
    if walk.chunks > _MAX_CHUNKS:
        raise TooLargeError(f"it holds more than {_MAX_CHUNKS} chunks")
    for _, offset, size in chunks:
        if offset is not None and offset + size > walk.size_bytes:
            raise DamagedError(f"a chunk of {'/'.join(path)!r} ends behind the end of the file")
    if chunks and not {_FLETCHER32, _DEFLATE} & set(filters):
        walk.has_checksum = False
    if walk.level is Level.FULL and filters and chunks:
        _decode_chunks(path, dataset, filters, [chunk[0] for chunk in chunks], walk)


def _decode_chunks(
    path: tuple[str, ...],
    dataset: Any,
    filters: list[int],
    corners: list[tuple[int, ...]],
    walk: _ContentWalk,
) -> None:
    """Read every chunk that is there, so that a huge sparse data set costs no more than its file."""
    import h5py  # noqa: PLC0415

    missing = [number for number in filters if not h5py.h5z.filter_avail(number)]
    if missing:
        walk.has_checksum = False
        walk.doubt = f"{'/'.join(path)!r} was written with filter {missing[0]}, which is not installed here"
        return
    if not _kind(dataset):
        walk.doubt = f"{'/'.join(path)!r} has a type that cannot be read here"
        return
    chunk_bytes = dataset.dtype.itemsize
    for size in dataset.chunks:
        chunk_bytes *= size
    if chunk_bytes > _MAX_CHUNK_BYTES:
        raise TooLargeError(f"{'/'.join(path)!r} has chunks of {chunk_bytes} bytes")
    for corner in corners:
        place = tuple(
            slice(start, min(start + size, end))
            for start, size, end in zip(corner, dataset.chunks, dataset.shape, strict=True)
        )
        try:
            dataset[place]
        except (OSError, ValueError, RuntimeError) as error:
            raise DamagedError(f"a chunk of {'/'.join(path)!r} cannot be decoded: {error}") from error


def _add_role_sign(path: tuple[str, ...], dataset: Any, walk: _ContentWalk) -> None:
    if walk.objects > _MAX_SIGNS:
        return
    if path[-1] == "value" and len(path) == 2:
        path = path[:1]  # Octave's, see below
    if dataset.shape or path[0] in _KERAS_OPTIMIZERS:
        walk.signs.add_array("/".join(path))


def _read_number(path: tuple[str, ...], dataset: Any, walk: _ContentWalk) -> None:
    """Note the value of a data set of one number, under its name."""
    if dataset.size != 1 or _kind(dataset) not in _NUMERIC or walk.numbers_read >= _MAX_NUMBERS:
        return
    walk.numbers_read += 1
    joined = "/".join(path)
    value = dataset[()].reshape(-1)[0].item()
    if joined == _KERAS_COUNTER or (
        path[0] == "optimizer_weights" and path[-1].partition(":")[0] in _KERAS_OLD_COUNTERS
    ):
        if isinstance(value, int) and value >= 0:
            walk.optimizer_step = int(value)
        return
    if path[-1] == "value" and len(path) == 2:
        path = path[:1]  # Octave wraps each variable into a group of its type and its value
        walk.numbers[path[0]] = value
        return
    holder = walk.numbers
    for name in path[:-1][:_NAMED_DEPTH]:
        holder = cast("dict[str, Any]", holder.setdefault(name, {}))
        if not isinstance(holder, dict):
            return
    holder.setdefault(path[-1], value)
