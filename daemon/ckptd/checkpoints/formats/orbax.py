"""Orbax's checkpoints: a directory per step, `N/` or `prefix_N/`, of items; also what Flax and T5X write with zarr.

A save fills `N.orbax-checkpoint-tmp` (older: `...-tmp-<number>`) and renames it: the rename commits. On stores
without an atomic rename `commit_success.txt` does; it and `_CHECKPOINT_METADATA` are optional when restoring.
Sources: orbax/checkpoint/_src/path/{step,atomicity}.py, orbax/checkpoint/_src/handlers/, and t5x/checkpoints.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ckptd.checkpoints.formats import facts, roles, state_walk
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.encodings import ocdbt
from ckptd.checkpoints.formats.flax import find_update_count
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape, describe_unchecked
from ckptd.checkpoints.formats.orbax_item import AGGREGATE, METADATA, OrbaxItem, read_json
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level, Role

_STEP_METADATA = "_CHECKPOINT_METADATA"
_ROOT_MARKERS = frozenset({_STEP_METADATA, METADATA, ocdbt.MANIFEST, "orbax.checkpoint"})
_ITEM_MARKERS = frozenset({METADATA, ocdbt.MANIFEST})
_TEMPORARY = re.compile(r"\.orbax-checkpoint-tmp(?:-\d+)?$|\.tmp-\d+$")
_NUMBERED = re.compile(r"(?:^|.*[_\-.])(?P<number>\d+)$")
_EPOCH_PREFIX = re.compile(r"(?:^|.*[_\-.])(?:epochs?|ep)[_\-.]\d+$", re.IGNORECASE)
_MAX_DEPTH = 3
_COMMIT_MARKERS = frozenset({"commit_success.txt"})
_JSON_ITEM_FILES = ("metadata", "metrics")


class Orbax:
    name = "orbax"
    role_unread = roles.TRAINING_STATE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for name, child in directory.directories.items():
            is_temporary = bool(_TEMPORARY.search(name))
            if not (".orbax-checkpoint-tmp" in name or _is_step(child)):
                continue
            base = _TEMPORARY.sub("", name)
            numbered = _NUMBERED.match(base)
            is_epoch = bool(_EPOCH_PREFIX.match(base))
            named = parse_name(base)
            number = int(numbered["number"]) if numbered else None
            yield Claim(
                format=self.name,
                shape=Shape.DIRECTORY,
                path=child.path,
                files=tuple(child.walk_files()),
                in_progress="it is Orbax's temporary directory of a save" if is_temporary else None,
                is_best=named.is_best,
                name_epoch=number if is_epoch else named.epoch,
                name_step=number if not is_epoch else None,
                name_metrics=named.metrics,
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        if claim.in_progress:
            return Examination().shown_as(self.role_unread)
        start = len(claim.path) + 1
        files = {file.path[start:]: file for file in claim.files}
        for path in files:
            top = path.partition("/")[0]
            if _TEMPORARY.search(top) and "/" in path:
                raise DamagedError(f"its item {top!r} is still temporary")
        handlers = _check_step_metadata(files, reader)
        numbers: dict[str, Any] = {}
        signs = roles.RoleSigns()
        has_checksum = True
        unread: str | None = None
        try:
            for item in _items(files, handlers, reader, level):
                has_checksum = _check_item(item, handlers, numbers) and has_checksum
                for name in item.array_names:
                    signs.add_array(name)
                unread = unread or item.unread_codec
        except ocdbt.UnsupportedError as error:
            return Examination(state=CheckpointState.UNKNOWN, reason=str(error)).shown_as(self.role_unread)
        found = facts.find_facts(numbers)
        step = found.step if found.step is not None else find_update_count(numbers)
        return Examination(
            epoch=found.epoch,
            step=step,
            metrics=found.metrics,
            has_checksum=level is Level.FULL and has_checksum,
            unchecked=unread and describe_unchecked(f"data of the codec {unread}, which are not decoded here"),
        ).shown_as(_judge(signs, numbers))


def _judge(signs: roles.RoleSigns, numbers: Mapping[str, Any]) -> roles.RoleEvidence:
    """Return the role that names show; a tree whose names show none is a state that its manager saved."""
    state_walk.add_role_signs(signs, numbers)
    found = signs.decide()
    return roles.TRAINING_STATE if found.role is Role.DATA else found


def _is_step(directory: Directory) -> bool:
    """Return whether a directory is that of a step, with items or arrays, and not that of a run, with steps."""
    if _ROOT_MARKERS & directory.files.keys():
        return True
    below = directory.directories.values()
    if AGGREGATE in directory.files and any(_is_array(child) for child in below):
        return True
    items = [child for child in below if _ITEM_MARKERS & child.files.keys() and _STEP_METADATA not in child.files]
    return bool(items and _NUMBERED.match(directory.name) and not all(_NUMBERED.match(item.name) for item in items))


def _is_array(directory: Directory) -> bool:
    return ".zarray" in directory.files or "zarr.json" in directory.files


def _check_step_metadata(files: Mapping[str, File], reader: Reader) -> Mapping[str, str]:
    """Return which handler wrote which item, as far as the metadata tell.

    Raises:
        DamagedError: the metadata are cut off, or say that the save was never committed.

    """
    if _STEP_METADATA not in files:
        return {}
    found = read_json(files[_STEP_METADATA], reader)
    if not isinstance(found, dict):
        raise DamagedError(f"{_STEP_METADATA} is no dictionary")
    if "commit_timestamp_nsecs" in found and found["commit_timestamp_nsecs"] is None:
        raise DamagedError(f"{_STEP_METADATA} says that it was never committed")
    handlers = found.get("item_handlers")
    if not isinstance(handlers, dict):
        return {}
    directories = {path.partition("/")[0] for path in files if "/" in path}
    missing = sorted(name for name in handlers if name not in directories)
    if missing:
        raise DamagedError(f"its item {missing[0]!r} is missing")
    return {name: str(handler) for name, handler in handlers.items()}


def _items(files: Mapping[str, File], handlers: Mapping[str, str], reader: Reader, level: Level) -> Iterator[OrbaxItem]:
    """Yield the step itself where it is a tree, else its items."""
    whole = OrbaxItem(name="", files=files, reader=reader, level=level)
    is_tree = METADATA in files or ocdbt.MANIFEST in files or AGGREGATE in files
    has_arrays = any(path.count("/") == 1 and path.endswith(("/.zarray", "/zarr.json")) for path in files)
    is_tree = is_tree or has_arrays or any(name.startswith("ocdbt.process_") for name in whole.directories)
    if not handlers and is_tree:
        yield whole
        return
    for name in sorted(whole.directories):
        yield from _with_inner(whole.below(name))


def _with_inner(item: OrbaxItem) -> Iterator[OrbaxItem]:
    """Yield an item, or those in it where the trees are one step further down, as a random key's is."""
    has_inner = any(f"{name}/{METADATA}" in item.files for name in item.directories)
    if METADATA in item.files or not has_inner or item.name.count("/") >= _MAX_DEPTH:
        yield item
        return
    for name in sorted(item.directories):
        yield from _with_inner(item.below(name))


def _check_item(item: OrbaxItem, handlers: Mapping[str, str], numbers: dict[str, Any]) -> bool:
    """Check one item and add its numbers; return whether checksums cover it."""
    handler = handlers.get(item.name, "")
    if "Json" in handler and not item.files.keys() - _COMMIT_MARKERS:
        raise DamagedError(f"{item.name}: its JSON is missing")
    try:
        if item.is_tree or "PyTree" in handler or "StandardCheckpoint" in handler:
            item.check()
            _merge(numbers, item.numbers)
            return item.has_checksum
        for name in _JSON_ITEM_FILES:
            if name in item.files and ("Json" in handler or not handler):
                found = read_json(item.files[name], item.reader)
                if isinstance(found, dict):
                    _merge(numbers, found)
    except DamagedError as error:
        raise DamagedError(f"{item.name}: {error}" if item.name else str(error)) from error
    return False


def _merge(numbers: dict[str, Any], found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        numbers.setdefault(name, value)
