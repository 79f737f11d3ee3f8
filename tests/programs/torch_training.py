"""torch: a small model and its optimizer, one file for each epoch."""

from programs import marked
from programs.marked import list_options, read_logs, read_mark

__all__ = ["list_options", "read_logs", "read_mark"]

NAME = "torch"
DIES_BY_ITSELF = True
TORN_MAY_BE_LEFTOVER = False
LEFT_OUT = frozenset()
UNIT = "epoch"


def prepare(directory):
    """Return the environment of its jobs."""
    return marked.prepare("torch")
