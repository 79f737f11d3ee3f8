"""DMTCP, where its release was built: a counter that knows nothing of checkpoints. Its job asks for them at a pace."""

import os
from pathlib import Path

from programs.truth import NOTHING, Loaded, Save

NAME = "dmtcp"
DIES_BY_ITSELF = False
TORN_MAY_BE_LEFTOVER = False
LEFT_OUT = frozenset({"older", "killed", "disk-full", "two-tiers", "copies-end"})  # it overwrites its one image
UNIT = "step"  # which no image tells


def is_there():
    """Whether DMTCP_BIN names a directory with DMTCP's commands: no distribution has the release that works here."""
    return Path(os.environ.get("DMTCP_BIN", "/nonexistent"), "dmtcp_launch").exists()


def prepare(directory):
    """Return the environment of its jobs."""
    return {"DMTCP_BIN": os.environ["DMTCP_BIN"]}


def list_options(scenario):
    """Return nothing."""
    return {}


def read_mark(attempt, line):
    """Read what the job restarted, and which images were complete; the set has the name of its script."""
    if line["event"] == "loaded":
        attempt.loaded = Loaded(None if line["path"] == NOTHING else line["path"], None)
    elif line["event"] == "saved":
        attempt.saves.append(Save(line["path"], None, line["at"]))


def read_logs(attempt, truth):
    """Read nothing: all of it is in the marks."""
