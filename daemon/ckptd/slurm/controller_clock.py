"""The time of slurmctld's own clock, from the first line of `scontrol show config` (22.05 to 26.05).

With munge, slurmctld rejects hosts whose clock differs by more than the lifetime of a credential. Without munge, no
other query shows such a difference.
"""

import re
from datetime import datetime

from ckptd.core.model import Unknown
from ckptd.slurm import failure_reasons, times
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.programs import Programs

_BEGINNING = "Configuration data as of "
_PING = "\nSlurmctld("  # the last lines: whether each slurmctld answered a ping
_HEAD = re.compile(rf"{_BEGINNING}(\d{{1,12}})$")


def is_complete(text: str, returncode: int) -> bool:
    """Return whether scontrol or sacctmgr printed the whole configuration.

    Above its rate limit, slurmctld refuses the ping at the end, and only that. scontrol then exits with 1.
    """
    return returncode == 0 or (returncode == 1 and text.startswith(_BEGINNING) and _PING in text)


def read_clock(programs: Programs) -> datetime | Unknown:
    """Return slurmctld's time; Unknown if it does not answer or the answer has no time."""
    answer = programs.read("clock", ["scontrol", "show", "config"])
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if not is_complete(text, finished.returncode):
        return failure_reasons.classify("clock", finished.returncode, finished.stderr)
    found = _HEAD.match(text.partition("\n")[0])
    at = times.from_epoch(int(found[1])) if found else None
    return at or failure_reasons.make_unknown(
        "clock", FailureReason.GARBLED, "scontrol show config does not begin with its time"
    )
