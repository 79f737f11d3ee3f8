"""Section for full verification and first scans by Slurm jobs of the files' owners."""

import re
from datetime import timedelta

from pydantic import Field, field_validator, model_validator

from ckptd.config.base import AbsolutePath, Duration, Section, Size

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}")
_VARIABLES = re.compile(r"\{(?:home|uid)\}")


class VerifyJobsSection(Section):
    """Full verification and first scans by Slurm jobs of the owners, whose results are the owners' own statements."""

    partition: str | None = None
    """Partition of these jobs, or several with commas; without it, this node verifies everything itself."""
    account: str | None = None
    """Account of these jobs; by default the user's own. Users who have no association with it submit none."""
    qos: str | None = None
    """QOS of these jobs, such as one of low priority that can be preempted."""
    time_limit: Duration = timedelta(hours=2)
    """Time limit of each task."""
    nice: int = Field(default=1000, ge=0, le=2_147_483_645)
    """How much less priority these jobs have than others."""
    task_size: Size = 100 * 2**30
    """How much one task reads; one file or part of a checkpoint is never split between tasks."""
    max_tasks: int = Field(default=64, ge=1, le=1000)
    """Maximum number of tasks of one job."""
    max_running: int = Field(default=4, ge=1, le=1000)
    """Maximum number of tasks of one job that run at the same time."""
    max_per_user: int = Field(default=4, ge=1, le=1000)
    """Maximum number of such jobs of one user."""
    max_tries: int = Field(default=3, ge=1, le=10)
    """Maximum number of submissions of a task that ends without a result. ckptd never resubmits a cancelled one."""
    max_wait: Duration = timedelta(days=7)
    """Cancel a job after this time in the queue; its checkpoints then stay unverified."""
    scan_beyond: int = Field(default=0, ge=0)
    """Let such jobs read what the first scan of a directory with more entries than this could not read in time; each
    task reads about as many. 0: never."""
    fallback: bool = False
    """Whether this node reads a checkpoint itself if its owner may not submit such a job."""
    python: AbsolutePath | None = None
    """Python of an installation of ckptd of this version that the nodes see; by default the one that runs here."""
    directory: str = "{home}/.ckptd-verify"
    """Directory, which the nodes see, for requests and results; "{home}" and "{uid}" are those of the owner. Its parent
    must exist, and the owner must be able to write there."""

    @field_validator("partition", "account", "qos")
    @classmethod
    def _names_are_plain(cls, given: str | None) -> str | None:
        for name in () if given is None else given.split(","):
            if not _NAME.fullmatch(name):
                raise ValueError(f'{given!r} is not a name that Slurm knows; use for example "main"')
        return given

    @model_validator(mode="after")
    def _scans_have_a_partition(self) -> "VerifyJobsSection":
        if self.scan_beyond and self.partition is None:
            raise ValueError("scan_beyond needs a partition for these jobs; set partition, too")
        return self

    @field_validator("directory")
    @classmethod
    def _directory_is_absolute(cls, directory: str) -> str:
        rest = _VARIABLES.sub("", directory)
        if (
            not directory.startswith(("/", "{home}/"))
            or any(mark in rest for mark in "{}\0")
            or ".." in rest.split("/")
        ):
            raise ValueError(f'{directory!r} is not of the form "{{home}}/NAME" or "/DIRECTORY/{{uid}}"')
        return directory
