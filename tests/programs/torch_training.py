"""torch: a small model and its optimizer, one file for each epoch. The program marks what it does."""

import os
import subprocess

from programs.truth import NOTHING, Loaded, Save

NAME = "torch"
COUNTS_ITS_PARTS = False
TORN_MAY_BE_LEFTOVER = False
UNIT = "epoch"


def prepare(directory):
    """Return the environment of its jobs: the Python that has torch, which their users must be able to run."""
    python = os.environ["TORCH_PYTHON"]
    as_anyone = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run([*as_anyone, python, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"users cannot run {python} with torch: {done.stderr[-500:]}"
    return {"TORCH_PYTHON": python}


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
