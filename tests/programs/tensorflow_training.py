"""TensorFlow: a loop of its own with tf.train.CheckpointManager, an index and its data for each save."""

from programs import marked
from programs.marked import list_options, read_logs, read_mark

__all__ = ["list_options", "read_logs", "read_mark"]

NAME = "tensorflow"
DIES_BY_ITSELF = True
TORN_MAY_BE_LEFTOVER = True  # it writes into a temporary directory
LEFT_OUT = frozenset({"disk-full", "killed"})
UNIT = "step"


def prepare(directory):
    """Return the environment of its jobs."""
    return marked.prepare("tensorflow")
