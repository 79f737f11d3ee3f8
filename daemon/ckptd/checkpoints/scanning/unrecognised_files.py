"""Finds the newest file of no known format that may be a checkpoint: by its name, its place and its first bytes.

Only its program knows whether it is one. Files of other tools are left out: programs, logs, plots, tables, traces,
trajectories, data sets. A text counts only under a name that programs give to restart files, or with their first line.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.scanning import tool_files
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import File
from ckptd.core.model import UnrecognisedFile

MAX_OPENED = 64  # files, the newest first
MAX_OPENED_ALIKE = 4  # of names that differ only in numbers: a log of each rank must not hide other files
_TEXT_HEAD_BYTES = 512  # Nek5000's header of text has 132
_NUMBER = re.compile(r"\d+")
_INDEX = ".idx"  # of Megatron's data sets, which consist of tokens.bin and tokens.idx


def find_newest(files: Iterable[File], reader: Reader, now: datetime) -> UnrecognisedFile | None:
    """Return the newest of these files that may be a checkpoint; None if there is none.

    A time of modification in the future counts as `now`.
    """
    named = sorted(_list_possible([*files]), key=lambda file: (-file.modified_ns, file.path))
    for file in islice(_leave_out_alike(named), MAX_OPENED):
        if tool_files.may_contain_state(file.name, read_head(reader, file.path, _TEXT_HEAD_BYTES)):
            seconds = min(file.modified_ns // 10**9, int(now.timestamp()))
            return UnrecognisedFile(file.path, file.size_bytes, datetime.fromtimestamp(max(seconds, 0), UTC))
    return None


def _list_possible(files: list[File]) -> Iterator[File]:
    """Yield the files of which neither the name nor the place shows that they are something else."""
    indexed = {file.path.removesuffix(_INDEX) + ".bin" for file in files if file.path.endswith(_INDEX)}
    for file in files:
        *places, name = file.path.split("/")
        if file.size_bytes and file.path not in indexed and not tool_files.is_named_as_other(places, name):
            yield file


def _leave_out_alike(files: Iterable[File]) -> Iterator[File]:
    counts: Counter[str] = Counter()
    for file in files:
        series = _NUMBER.sub("#", file.path)
        counts[series] += 1
        if counts[series] <= MAX_OPENED_ALIKE:
            yield file
