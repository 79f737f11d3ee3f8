"""The controller's own clock, as `scontrol show config` begins: it is slurmctld that writes it there (22.05 to 26.05).

With munge a host whose clock is further off than a credential lives is not answered at all; elsewhere nothing else
in a queue tells the time there.
"""

import re
from datetime import datetime

from ckptd.core.model import Unknown
from ckptd.slurm import failure_reasons, times
from ckptd.slurm.failure_reasons import Trouble
from ckptd.slurm.programs import Programs

_HEAD = re.compile(r"Configuration data as of (\d{1,12})$")


def read_clock(programs: Programs) -> datetime | Unknown:
    """Return what time slurmctld has; Unknown where it does not answer or its answer does not tell."""
    answer = programs.read("clock", ["scontrol", "show", "config"])
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if finished.returncode != 0:
        return failure_reasons.classify("clock", finished.returncode, finished.stderr)
    found = _HEAD.match(text.partition("\n")[0])
    at = times.from_epoch(int(found[1])) if found else None
    return at or failure_reasons.say("clock", Trouble.GARBLED, "scontrol show config does not begin with its time")
