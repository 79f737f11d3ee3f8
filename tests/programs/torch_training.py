"""torch: a small model and its optimizer, one file for each epoch. The program marks what it does."""

import os

from programs.truth import NOTHING, Loaded, Save

NAME = "torch"
COUNTS_ITS_PARTS = False
TORN_MAY_BE_LEFTOVER = False
UNIT = "epoch"


def prepare(directory):
    """Return the environment of its jobs: the Python that has torch."""
    return {"TORCH_PYTHON": os.environ["TORCH_PYTHON"]}


def list_options(scenario):
    """Return nothing: it keeps all of its files."""
    return {}


def read_mark(attempt, line):
    """Read what the program marked."""
    if line["event"] == "loaded":
        attempt.loaded = Loaded(None if line["path"] == NOTHING else line["path"], int(line["step"]))
    elif line["event"] in {"saved", "torn"}:
        save = Save(line["path"].removeprefix("ckpt/"), int(line["step"]), line["at"])
        (attempt.saves if line["event"] == "saved" else attempt.torn).append(save)


def read_logs(attempt, truth):
    """Read nothing: all of it is in the marks."""
