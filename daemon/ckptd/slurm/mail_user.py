"""A job's --mail-user, which `squeue` does not print: read with `scontrol show job` for one job with a notice.

The answer is about one job. Text that its user wrote into its name or comment can therefore only forge an address that
the same user could have passed to --mail-user. (scontrol prints the address only with --mail-type.)
"""

import re

from ckptd.core.model import Unknown
from ckptd.slurm import failure_reasons
from ckptd.slurm.programs import Programs

_MAIL_USER = re.compile(r"\bMailUser=(\S+)")
_NOBODY = "(null)"


def read_mail_user(programs: Programs, job_id: int) -> str | Unknown | None:
    """Return the job's MailUser unchanged; None if it has none."""
    answer = programs.read("mail user", ["scontrol", "show", "job", str(job_id)])
    if isinstance(answer, Unknown):
        return answer
    text, finished = answer
    if finished.returncode != 0 or not text:
        return failure_reasons.classify("mail user", finished.returncode, finished.stderr)
    found = _MAIL_USER.findall(text)
    return found[-1] if found and found[-1] != _NOBODY else None
