"""Selects the jobs that a section of the site's configuration applies to."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ckptd.core.model import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPatterns:
    """Shell globs; a job is selected if it matches all of them."""

    partition: str = "*"
    account: str = "*"
    user: str = "*"
    qos: str = "*"
    job_name: str = "*"

    def matches(self, job: Job) -> bool:
        return (
            fnmatchcase(job.partition, self.partition)
            and fnmatchcase(job.account, self.account)
            and fnmatchcase(job.user, self.user)
            and fnmatchcase(job.qos, self.qos)
            and fnmatchcase(job.name, self.job_name)
        )
