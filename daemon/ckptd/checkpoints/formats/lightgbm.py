"""LightGBM's text models: a header that states the size of every tree, the trees, and the parameters.

Source: src/boosting/gbdt_model_text.cpp of LightGBM. A snapshot is named `MODEL.snapshot_iter_N`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape, TooLargeError
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level

_SNAPSHOT_SUFFIX = re.compile(r"snapshot_iter_(\d+)")
_MODEL_SUFFIXES = ("txt", "model", "lgb", "lgbm")
_LOOKS_LIKE = re.compile(r"model|lgb|lightgbm|gbm|gbdt|boost|dart|ckpt|checkpoint|snapshot|iter|round", re.IGNORECASE)
_HEAD = b"tree\n"
_MAX_HEAD_BYTES = 64 << 20
_TAIL_BYTES = 1 << 16
_MAX_TREE_BYTES = 256 << 20
_END_OF_TREES = b"end of trees"
_END = b"end of parameters"
_PER_LEAF = frozenset({"leaf_value", "leaf_weight", "leaf_count"})
_PER_NODE = frozenset(
    {
        "split_feature",
        "split_gain",
        "threshold",
        "decision_type",
        "left_child",
        "right_child",
        "internal_value",
        "internal_weight",
        "internal_count",
    }
)
_TREE_KEYS = frozenset({"num_leaves", "num_cat", "leaf_value", "shrinkage"})


class LightGBM:
    name = "lightgbm"
    role_unread = roles.PARAMETERS_ONLY

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for suffix, files in directory.by_suffix.items():
            snapshot = _SNAPSHOT_SUFFIX.fullmatch(suffix)
            if not snapshot and suffix not in _MODEL_SUFFIXES:
                continue
            for file in files:
                if snapshot or (_LOOKS_LIKE.search(file.name) and _is_model(file, reader)):
                    named = parse_name(file.name)
                    yield Claim(
                        format=self.name,
                        shape=Shape.FILE,
                        path=file.path,
                        files=(file,),
                        is_best=named.is_best,
                        name_step=int(snapshot[1]) if snapshot else named.step,
                        name_metrics=named.metrics,
                    )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        is_snapshot = _SNAPSHOT_SUFFIX.fullmatch(claim.path.rpartition(".")[2]) is not None
        try:
            found = _examine(claim, reader, level)
        except DamagedError as error:
            found = Examination(state=CheckpointState.DAMAGED, reason=str(error))
        return found.shown_as(roles.SNAPSHOT if is_snapshot else self.role_unread)


def _examine(claim: Claim, reader: Reader, level: Level) -> Examination:
    size_bytes = claim.files[0].size_bytes
    if not size_bytes:
        raise DamagedError("the file is empty")
    with reader.open(claim.path) as file:
        if file.read(len(_HEAD)) != _HEAD:
            raise DamagedError("it does not begin as a model")
        header = _read_header(file)
        begin = file.tell()
        file.seek(max(begin, size_bytes - _TAIL_BYTES))
        if _END not in file.read(_TAIL_BYTES):
            raise DamagedError("cut off: the end of its parameters is missing")
        if "tree_sizes" not in header:
            return Examination(state=CheckpointState.UNKNOWN, reason="its header states no sizes of trees")
        try:
            sizes = [int(size) for size in header["tree_sizes"].split()]
            per_round = int(header.get("num_tree_per_iteration", "1"))
        except ValueError as error:
            raise DamagedError(f"its header is damaged: {error}") from error
        _check_trees(file, begin, sizes, level)
    return Examination(step=len(sizes) // max(per_round, 1))


def _is_model(file: File, reader: Reader) -> bool:
    try:
        head = reader.read_head(file.path, 256)
    except OSError:
        return False
    return head.startswith(_HEAD) or b"\nnum_tree_per_iteration=" in head


def _read_header(file: BinaryIO) -> Mapping[str, str]:
    """Read the lines before the first tree and leave the file standing at it."""
    found: dict[str, str] = {}
    while True:
        line = file.readline(_MAX_HEAD_BYTES)
        if not line.endswith(b"\n"):
            raise DamagedError("cut off: it ends inside its header")
        if line == b"\n":
            return found
        key, _, value = line.decode("utf-8", "replace").rstrip("\n").partition("=")
        found[key] = value


def _check_trees(file: BinaryIO, begin: int, sizes: list[int], level: Level) -> None:
    """Check that every tree begins where the sizes say, and at level full what is in it."""
    position = begin
    columns: set[str] = set()
    for number, size in enumerate(sizes):
        if not 0 < size <= _MAX_TREE_BYTES:
            raise TooLargeError(f"its tree {number} has {size} bytes")
        file.seek(position)
        title = f"Tree={number}\n".encode()
        text = file.read(size if level is Level.FULL else len(title))
        if not text.startswith(title):
            raise DamagedError(f"tree {number} is not where its header says")
        if level is Level.FULL:
            found = _check_tree(number, text)
            if found and columns and found != columns:
                raise DamagedError(f"tree {number} lacks or adds {min(found ^ columns)!r}")
            columns = found or columns
        position += size
    file.seek(position)
    if not file.read(len(_END_OF_TREES) + 2).strip().startswith(_END_OF_TREES):
        raise DamagedError("the trees do not end where its header says")


def _check_tree(number: int, text: bytes) -> set[str]:
    """Check that a tree's lines are numbers, as many as its leaves ask for; return which columns it has.

    A tree of one leaf has none to compare.
    """
    lines: dict[str, list[bytes]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition(b"=")
        if line and not equals:
            raise DamagedError(f"tree {number} has a line that says nothing")
        if line:
            lines[key.decode("utf-8", "replace")] = value.split()
    try:
        leaves = int(lines["num_leaves"][0])
        for name, values in lines.items():
            for each in values:
                float(each)
            expected = leaves if name in _PER_LEAF else leaves - 1 if name in _PER_NODE else len(values)
            if len(values) not in {expected, 0} and leaves > 1:
                raise DamagedError(f"tree {number} has {len(values)} of {expected} {name}")
    except (KeyError, IndexError, ValueError) as error:
        raise DamagedError(f"tree {number} is damaged: {type(error).__name__} {error}") from error
    if missing := _TREE_KEYS - lines.keys():
        raise DamagedError(f"tree {number} lacks {min(missing)!r}")
    return {*_PER_NODE, *_PER_LEAF} & lines.keys() if leaves > 1 else set()
