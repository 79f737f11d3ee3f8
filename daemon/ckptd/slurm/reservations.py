"""Reads maintenance reservations with `scontrol show reservation`.

Its text has had the same form since Slurm 22.05; JSON came later. Only administrators can create reservations, so
their names are trusted. Lines that are no reservation are ignored.
"""

import re

from ckptd.core.model import Maintenance, Unknown
from ckptd.core.text import hostlist
from ckptd.slurm import failure_reasons, times
from ckptd.slurm.programs import Programs

_RESERVATION = re.compile(r"ReservationName=(\S+) StartTime=(\d{1,12}) EndTime=(\d{1,12}) ")
_NODES = re.compile(r" Nodes=(\S+) ")
_FLAGS = re.compile(r" Flags=(\S*) ")


def read_maintenance(programs: Programs) -> tuple[Maintenance, ...] | Unknown:
    """Return the maintenance reservations, current and future; Unknown if Slurm does not answer."""
    answer = programs.read("reservations", ["scontrol", "--oneliner", "show", "reservation"])
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if not finished.is_clean:
        return failure_reasons.classify("reservations", finished.returncode, finished.stderr)
    return parse_maintenance(text)


def parse_maintenance(text: str) -> tuple[Maintenance, ...]:
    """Parse the output of `scontrol -o show reservation`: one line each, times as seconds since the epoch."""
    found: list[Maintenance] = []
    for line in text.splitlines():
        head, nodes, flags = _RESERVATION.match(line), _NODES.search(line), _FLAGS.search(line)
        if not (head and nodes and flags) or "MAINT" not in flags[1].split(","):
            continue
        begins_at, ends_at = times.from_epoch(int(head[2])), times.from_epoch(int(head[3]))
        if begins_at and ends_at:
            name, held = head[1], hostlist.expand(nodes[1])
            found.append(Maintenance(name=name, begins_at=begins_at, ends_at=ends_at, nodes=held))
    return tuple(found)
