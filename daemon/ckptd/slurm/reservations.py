"""Maintenance reservations, by `scontrol show reservation`: its text is the same from Slurm 22.05 on, JSON came later.

Only administrators make reservations, so that their words are believed; what is no reservation is passed over.
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
    """Return the maintenance reservations, also those to come; Unknown where nobody answers."""
    answer = programs.read("reservations", ["scontrol", "--oneliner", "show", "reservation"])
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if not finished.is_clean:
        return failure_reasons.classify("reservations", finished.returncode, finished.stderr)
    return parse_maintenance(text)


def parse_maintenance(text: str) -> tuple[Maintenance, ...]:
    """Parse what `scontrol -o show reservation` prints with times as seconds since the epoch, a line for each."""
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
