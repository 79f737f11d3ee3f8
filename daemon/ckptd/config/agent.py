"""Section for the privileged agent: as whom it may act."""

from pydantic import Field

from ckptd.config.base import Section


class AgentSection(Section):
    """The privileged process that acts as the users whose files it reads. It reads this file itself."""

    uid_min: int | None = Field(default=None, ge=1)
    """The agent never acts as a user with a lower uid; by default UID_MIN of /etc/login.defs, or 1000."""
    deny_users: tuple[str, ...] = ("nobody", "munge", "slurm", "slurmrestd", "postgres", "mysql")
    """The agent never acts as these users, whatever their uid. Add SlurmUser of slurm.conf if it has another name."""
    deny_groups: tuple[str, ...] = ("root", "disk", "shadow")
    """The agent never acts as a member of these groups."""
    max_requests_per_minute: int = Field(default=1200, ge=10)
    """Maximum number of requests per minute on behalf of one user, each for up to 50 directories, or 500 that only
    have to be compared with their last scans; further ones are refused."""
