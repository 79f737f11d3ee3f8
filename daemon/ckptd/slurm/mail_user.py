"""Whom a job wants mailed, which `squeue` does not tell: asked of slurmctld for one job that there is news about.

The answer is about that one job, so what its user wrote into its name or comment can forge nothing but an address that
the same user could have given with --mail-user. (scontrol shows it only where --mail-type is given, too.)
"""

import re

from ckptd.core.model import Unknown
from ckptd.slurm import failure_reasons
from ckptd.slurm.programs import Programs

_MAIL_USER = re.compile(r"\bMailUser=(\S+)")
_NOBODY = "(null)"


def read_mail_user(programs: Programs, job_id: int) -> str | Unknown | None:
    """Return the job's MailUser as it stands there, None where it names none."""
    answer = programs.read("mail user", ["scontrol", "show", "job", str(job_id)])
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if finished.returncode != 0 or not text:
        return failure_reasons.classify("mail user", finished.returncode, finished.stderr)
    found = _MAIL_USER.findall(text)
    return found[-1] if found and found[-1] != _NOBODY else None
