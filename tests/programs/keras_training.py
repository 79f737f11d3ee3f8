"""Keras: `model.fit` with its ModelCheckpoint, one .keras file for each epoch."""

from programs import marked
from programs.marked import list_options, read_logs, read_mark

__all__ = ["list_options", "read_logs", "read_mark"]

NAME = "keras"
DIES_BY_ITSELF = True
TORN_MAY_BE_LEFTOVER = False
LEFT_OUT = frozenset({"disk-full"})
UNIT = "epoch"


def prepare(directory):
    """Return the environment of its jobs."""
    return marked.prepare("tensorflow")
