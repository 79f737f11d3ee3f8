"""Trainings in Python, which mark what they do: their job needs no other log."""

import os
import subprocess

from programs.truth import NOTHING, Loaded, Save


def prepare(module):
    """Return the environment of jobs that import a module: a Python that has it and that every user can run."""
    python = os.environ["TRAINING_PYTHON"]
    as_anyone = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run([*as_anyone, python, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"users cannot run {python} with {module}: {done.stderr[-500:]}"
    return {"TRAINING_PYTHON": python}


def read_mark(attempt, line):
    """Read what a training marked."""
    if line["event"] == "loaded":
        attempt.loaded = Loaded(None if line["path"] == NOTHING else line["path"], int(line["step"]))
    elif line["event"] == "saved":
        save = _read_save(line)
        attempt.saves.append(save)
        if attempt.out_of_room_at is None and int(line["free"]) < 2 * int(line["size"]):
            attempt.out_of_room_at = save.at
    elif line["event"] == "torn":
        attempt.torn.append(_read_save(line))


def read_logs(attempt, truth):
    """Read nothing: all of it is in the marks."""


def list_options(scenario):
    """Return nothing: a training keeps all of its files."""
    return {}


def _read_save(line):
    return Save(line["path"].removeprefix("ckpt/"), int(line["step"]), line["at"])
