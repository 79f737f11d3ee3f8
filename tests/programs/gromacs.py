"""GROMACS, Debian's: mdrun on 1,728 molecules of water. What it saved and loaded is in its own log."""

import re
import subprocess
import time

from programs.truth import Loaded, Save

NAME = "gromacs"
DIES_BY_ITSELF = False
TORN_MAY_BE_LEFTOVER = True  # mdrun writes under a temporary name
LEFT_OUT = frozenset({"disk-full"})
UNIT = "step"
ENDING_SECONDS = 2  # mdrun saves when it is asked to end, and may be killed before that is written
_WROTE = re.compile(r"^Writing checkpoint, step (\d+) at (.*)$", re.MULTILINE)
_READ = re.compile(r"^Reading checkpoint file (\S+)$.*?^\s*step:\s+(\d+)$", re.MULTILINE | re.DOTALL)


def prepare(directory):
    """Make the input of mdrun beside its job; return the environment of its jobs."""
    box = "-cs spc216 -box 3.72412 3.72412 3.72412 -p water.top -o water.gro"  # so many of spc216 that they fit
    for arguments in (f"solvate {box}", "grompp -f water.mdp -c water.gro -p water.top -o water.tpr"):
        argv = ["nice", "gmx", "-quiet", *arguments.split()]
        done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr[-2000:]}"
    return {}


def list_options(scenario):
    """Return what mdrun needs to keep older states where a scenario resumes from one."""
    return {"GROMACS_OPTIONS": "-cpnum" if scenario.later == "older" else ""}


def read_mark(attempt, line):
    """Read nothing: all of it is in the log."""


def read_logs(attempt, truth):
    """Read what mdrun wrote of its checkpoints."""
    logs = list(truth.parent.glob(f"{truth.name}-{attempt.name}*.log"))
    if not logs:
        return
    text = logs[0].read_text(errors="replace")
    read = _READ.search(text)
    if read:
        attempt.loaded = Loaded(read[1], int(read[2]))
    elif "Started mdrun" in text:
        attempt.loaded = Loaded(None, 0)
    numbered = bool(re.search(r"^\s*-cpnum|mdrun.*-cpnum", text, re.MULTILINE))
    for step, instant in _WROTE.findall(text):
        at = time.mktime(time.strptime(instant.strip()))
        path = f"state_step{step}.cpt" if numbered else "state.cpt"
        attempt.saves.append(Save(path, int(step), at))
    if "Finished mdrun" in text or not attempt.saves:
        return
    if attempt.program_ended_at is not None:
        attempt.torn.append(attempt.saves.pop())  # logged before it was written
    elif attempt.saves[-1].at > attempt.ended_at - ENDING_SECONDS:
        attempt.unsure.append(attempt.saves.pop())
