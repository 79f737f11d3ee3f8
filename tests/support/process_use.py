"""CPU and memory of a daemon's processes, as /proc tells them."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class ProcessUse:
    """CPU seconds (user and system) of a daemon's parts since each began."""

    main: float
    agent: float  # with all its children
    watcher: float
    slurm: float  # programs of Slurm that the main process has run

    def __sub__(self, other):
        return ProcessUse(**{name: value - getattr(other, name) for name, value in vars(self).items()})


def read_use(pid):
    """Return what the daemon with this main process has used so far."""
    own, ended = _read_times(pid)
    helpers = {"agent": 0.0, "watcher": 0.0}
    for child in _list_children(pid):
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        for name in helpers:
            if f"{name}_process".encode() in command:
                helpers[name] += read_tree_seconds(child)
    return ProcessUse(main=own, slurm=ended, **helpers)


def read_peak_bytes(pid):
    """Return the largest resident memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def read_tree_seconds(pid):
    """Return the CPU of a process, its ended children and its living ones; one that ends meanwhile may be missing."""
    try:
        return sum(_read_times(pid)) + sum(map(read_tree_seconds, _list_children(pid)))
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def _read_times(pid):
    """Return the CPU seconds of a process itself, and of its children that have ended."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, ended_user, ended_system = (int(value) / _TICKS for value in values[11:15])
    return user + system, ended_user + ended_system


def _list_children(pid):
    """Return the children that any thread of a process has started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except (FileNotFoundError, ProcessLookupError):  # a thread that ended
            continue
    return found
