"""Reads TensorFlow's V2 checkpoints: an index `P.index` and its shards `P.data-0000i-of-0000n` for each prefix P.

`tf.train.Checkpoint`, Keras 2 and the savers since TensorFlow 1 write them. A save collects everything in `P_temp/`,
renames the shards, creates the index in place, and then replaces the state file `checkpoint`, which names the newest
checkpoint. All checkpoints of a directory share that file.
Sources: tensorflow/python/checkpoint/checkpoint_management.py and tensorflow/core/util/tensor_bundle.
"""

import re
from collections.abc import Iterator

from ckptd.checkpoints.formats import facts, keras_names, roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.encodings import protobuf, tensor_bundle
from ckptd.checkpoints.formats.encodings.sorted_table import MAGIC, CompressedError
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape, describe_unchecked
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import NAME_MAX, Directory, File
from ckptd.core.model import CheckpointState, Level

STATE_FILE = "checkpoint"
_DATA_SUFFIX = re.compile(r"data-\d{5}-of-\d{5}")
_TEMPORARY = re.compile(r"(?P<prefix>.+)_temp(?:_[0-9a-f]{32})?")
_PART = re.compile(r"part-\d{5}-of-\d{5}\.(?:index|data-\d{5}-of-\d{5})(?:\.tempstate\d+)?")
_SAVE_COUNTER_NAME = re.compile(r"ckpt-(\d+)")
_STEP_NAME = re.compile(r"-(\d+)$")
_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")
_MAX_STATE_BYTES = 1 << 20
_QUOTED = rb'"((?:[^"\\\n]|\\.)*)"'
_NEWEST = re.compile(rb"\s*model_checkpoint_path:\s*" + _QUOTED)
_LISTED = re.compile(rb"^[ \t]*all_model_checkpoint_paths:[ \t]*" + _QUOTED, re.MULTILINE)


class TensorFlow:
    name = "tensorflow"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        sets = _group(directory, reader)
        state = directory.files.get(STATE_FILE)
        newest, listed = read_state(state, reader) if state is not None and sets else (None, frozenset())
        is_dangling = newest is not None and newest not in sets and newest not in directory.files
        furthest = max(sets, key=_last_number, default=None)
        for prefix, files in sets.items():
            facts = parse_name(prefix)
            epoch = keras_names.epoch_of_name(prefix)
            yield Claim(
                format=self.name,
                shape=Shape.SET,
                path=directory.join(prefix),
                files=tuple(files),
                markers=(state,) if state is not None and newest is not None else (),
                note=f"{STATE_FILE} names {newest}, which is missing" if is_dangling and prefix == furthest else None,
                is_newest=True if prefix == newest else None,
                is_listed=True if prefix in listed else None,
                is_best=facts.is_best,
                name_epoch=facts.epoch if epoch is None else epoch,
                name_step=_step_of_name(prefix) if epoch is None else None,
                name_metrics=facts.metrics,
            )
        yield from self._claim_temporaries(directory)

    def _claim_temporaries(self, directory: Directory) -> Iterator[Claim]:
        for name, child in directory.directories.items():
            if _TEMPORARY.fullmatch(name) and any(_PART.fullmatch(part) for part in child.files):
                yield Claim(
                    format=self.name,
                    shape=Shape.DIRECTORY,
                    path=child.path,
                    files=tuple(child.walk_files()),
                    in_progress="it is TensorFlow's temporary directory of a save",
                )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        if claim.in_progress:
            return Examination()
        try:
            bundle = tensor_bundle.read_bundle(claim.path, {file.path: file for file in claim.files}, reader)
        except CompressedError as error:
            return Examination(state=CheckpointState.UNKNOWN, reason=str(error))
        if level is not Level.FULL:
            tensor_bundle.check_samples(bundle, reader)
        values = tensor_bundle.read_scalars(bundle, reader)
        found = facts.find_facts(values)
        is_checked = level is Level.FULL and tensor_bundle.check_data(bundle, reader)
        step = found.step
        if step is None:
            step = _step_of_counter_name(claim.path, values.get("save_counter"))
        return Examination(
            reason=check_graph(claim, reader),
            epoch=found.epoch,
            step=step,
            metrics=found.metrics,
            has_checksum=is_checked,
            unchecked=next(
                (describe_unchecked(file.name) for file in claim.files if file.name.endswith(".meta")), None
            ),
        ).shown_as(roles.judge_variables(entry.key for entry in bundle.entries))


def _group(directory: Directory, reader: Reader) -> dict[str, list[File]]:
    """Return the files of each checkpoint by its prefix; an index without shards counts if it ends as a table does."""
    sets: dict[str, list[File]] = {}
    for suffix, files in directory.by_suffix.items():
        if _DATA_SUFFIX.fullmatch(suffix):
            for file in files:
                sets.setdefault(file.name[: -len(suffix) - 1], []).append(file)
    for file in directory.by_suffix.get("index", []):
        prefix = file.name.removesuffix(".index")
        if prefix in sets or is_table(file, reader):
            sets.setdefault(prefix, []).append(file)
    for prefix, files in sets.items():
        if meta := directory.files.get(f"{prefix}.meta"):
            files.append(meta)
    return sets


def is_table(file: File, reader: Reader) -> bool:
    """Return whether a file ends with the magic number of a LevelDB table, as indexes and V1 checkpoints do."""
    if file.size_bytes < len(MAGIC):
        return False
    try:
        with reader.open(file.path) as opened:
            opened.seek(-len(MAGIC), 2)
            return opened.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_state(state: File, reader: Reader) -> tuple[str | None, frozenset[str]]:
    """Return the name of the newest checkpoint that a state file states, and the names of all that it lists.

    The first is None if the file is no state file. Its paths may be absolute and of another machine, so only their
    last parts are used. TensorFlow's managers themselves delete the checkpoints that they list.
    """
    try:
        text = reader.read_whole(state.path, _MAX_STATE_BYTES)
    except (OSError, ValueError):
        return None, frozenset()
    found = _NEWEST.match(text)
    listed = (_name_of(each[1]) for each in _LISTED.finditer(text)) if found else ()
    return _name_of(found[1]) if found else None, frozenset(name for name in listed if name)


def _name_of(quoted: bytes) -> str | None:
    path = re.sub(rb"\\([0-7]{1,3}|.)", _unescape, quoted).decode("utf-8", "surrogateescape")
    name = path.rstrip("/").rpartition("/")[2]
    is_possible = name not in {"", ".", ".."} and "\0" not in name and len(name) <= NAME_MAX
    return name if is_possible else None


def _unescape(found: re.Match[bytes]) -> bytes:
    escaped = found[1]
    return bytes([int(escaped, 8) & 0xFF]) if escaped.isdigit() else escaped


def check_graph(claim: Claim, reader: Reader) -> str | None:
    """Return what is wrong with the graph in `P.meta`, else None; programs that build their graph do not need it."""
    meta = next((file for file in claim.files if file.name.endswith(".meta")), None)
    if meta is None:
        return None
    if not meta.size_bytes:
        return f"the variables are whole, but the graph in {meta.name} is empty"
    try:
        with reader.open(meta.path) as opened:
            protobuf.check_outline(opened, meta.size_bytes)
    except DamagedError as error:
        return f"the variables are whole, but the graph in {meta.name} {error}"
    return None


def _last_number(prefix: str) -> int:
    found = _LAST_NUMBER.search(prefix)
    return int(found[1]) if found else -1


def _step_of_name(prefix: str) -> int | None:
    """Return the step that `Saver.save(global_step=N)` appends to a name; None for `ckpt-N`, where N counts saves."""
    found = _STEP_NAME.search(prefix)
    return int(found[1]) if found and not _SAVE_COUNTER_NAME.fullmatch(prefix) else None


def _step_of_counter_name(path: str, save_counter: float | None) -> int | None:
    """Return N of the name `ckpt-N` if the save counter in the content differs from it, so that N is a step."""
    found = _SAVE_COUNTER_NAME.fullmatch(path.rpartition("/")[2])
    return int(found[1]) if found and save_counter != int(found[1]) else None
