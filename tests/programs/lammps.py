"""LAMMPS, Debian's: a melt of 2,048 atoms. Its input marks what it read and how far it is."""

from programs.truth import NOTHING, Loaded, Save

NAME = "lammps"
DIES_BY_ITSELF = False
TORN_MAY_BE_LEFTOVER = False
LEFT_OUT = frozenset({"disk-full"})
UNIT = "step"
STEPS = 100  # between two restart files


def prepare(directory):
    """Return the environment of its jobs."""
    return {}


def list_options(scenario):
    """Return nothing: LAMMPS keeps all of its files."""
    return {}


def read_mark(attempt, line):
    """Read what was loaded, and which steps were reached: every hundredth is saved by then."""
    if line["event"] == "loaded":
        attempt.loaded = Loaded(None if line["path"] == NOTHING else line["path"], int(line["step"]))
    elif line["event"] == "reached" and int(line["step"]) % STEPS == 0:
        attempt.saves.append(_make_save(int(line["step"]), line["at"]))


def read_logs(attempt, truth):
    """Conclude which save was torn: the one after the last, where LAMMPS died of the limit."""
    if attempt.program_ended_at is not None and not attempt.is_completed and attempt.saves:
        attempt.torn.append(_make_save(attempt.saves[-1].step + STEPS, attempt.program_ended_at))


def _make_save(step, at):
    return Save(f"melt.{step}.restart", step, at)
