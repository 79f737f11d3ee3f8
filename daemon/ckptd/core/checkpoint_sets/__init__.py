"""Which files are one indivisible checkpoint, its role, and which number is its progress."""

from ckptd.core.checkpoint_sets.grouping import group
from ckptd.core.checkpoint_sets.pieces import OtherFile

__all__ = ["OtherFile", "group"]
