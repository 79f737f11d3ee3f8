"""Tells which checkpoints of a directory are the same kind of thing, and which of them one save left together.

`model_3.pt` and `model_4.pt` are one kind, `model_3.pt` and `optim_3.pt` are parts of one save. What this cannot
tell apart ends up in kinds of its own, and the newest of every kind is kept: doubt keeps, it never removes.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_DIGITS = re.compile(r"([0-9]+)")
_TIMESTAMP_OR_FRACTION = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T_ -]\d{2}[:_-]?\d{2}(?:[:_-]?\d{2})?)?"  # 2026-11-20T10:15:00
    r"|(?<!\d)\d{8}[-_T]\d{4,6}(?!\d)"  # 20261120_101500
    r"|\d+\.\d+(?:[eE][-+]?\d+)?"  # the 0.12 of val_loss=0.12
)
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,15}$")  # .pt, but also .h5 and .mp4, whose digit counts nothing


class Kind(NamedTuple):
    """A name with its counting numbers taken out, and those numbers."""

    pattern: str
    numbers: tuple[str, ...]  # empty: the name is fixed, each save overwrites the one before


@lru_cache(maxsize=65_536)
def parse_kind(name: str, *progress: float | None) -> Kind:
    """Split a base name into its kind and its counting numbers.

    Counting numbers are those equal to a value of `progress` (epochs and steps from content and name); where there
    is none, a timestamp; else the last number of the name. So `fold1_epoch3.pt` at epoch 3 counts by 3 and stays
    another kind than `fold2_epoch3.pt`. Fractions are metrics: they neither count nor tell kinds apart.
    """
    suffix = _SUFFIX.search(name)
    stem, end = (name[: suffix.start()], suffix[0]) if suffix else (name, "")
    stamps: list[str] = []

    def take(match: re.Match[str]) -> str:
        if "." not in match[0]:
            stamps.append(match[0])
        return "#"

    parts = _DIGITS.split(_TIMESTAMP_OR_FRACTION.sub(take, stem) if len(stem) > 2 else stem)
    counting = [at for at in range(1, len(parts), 2) if len(parts[at]) < 20 and int(parts[at]) in progress]
    if not counting and not stamps and len(parts) > 1:
        counting = [len(parts) - 2]
    numbers = tuple(parts[at].lstrip("0") or "0" for at in counting) or tuple(stamps)
    for at in counting:
        parts[at] = "#"
    return Kind("".join(parts) + end, numbers)
