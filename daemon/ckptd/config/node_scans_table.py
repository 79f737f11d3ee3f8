"""Section for scans of locations that only the nodes of jobs see."""

from datetime import timedelta
from pathlib import PurePosixPath

from pydantic import Field, field_validator

from ckptd.config.base import AbsolutePath, Duration, PartitionPattern, Section


class NodeScansSection(Section):
    """Scans of locations that only the nodes of jobs see, by short steps in the owners' own jobs."""

    directories: tuple[PurePosixPath, ...] = ()
    """Directories that only the nodes of jobs see, such as "/local"; nothing is ever removed below them."""
    partitions: tuple[PartitionPattern, ...] = ()
    """Shell patterns of the partitions in whose jobs ckptd may run steps; without one, these locations are unknown."""
    interval: Duration = timedelta(minutes=30)
    """Time between two steps in one job."""
    time_limit: Duration = Field(default=timedelta(minutes=1), ge=timedelta(seconds=10), le=timedelta(minutes=10))
    """Time limit of one step; Slurm itself counts whole minutes."""
    max_running: int = Field(default=2, ge=1, le=4)
    """Maximum number of steps that run at the same time, and never two of one user."""
    python: AbsolutePath | None = None
    """Python of an installation of ckptd of this version that the nodes see; by default the one that runs here."""

    @field_validator("directories")
    @classmethod
    def _directories_are_absolute(cls, directories: tuple[PurePosixPath, ...]) -> tuple[PurePosixPath, ...]:
        for each in directories:
            if not each.is_absolute() or each == PurePosixPath("/") or ".." in each.parts or "{" in str(each):
                raise ValueError(f'{str(each)!r} is not a directory below "/"; use for example "/local"')
        return directories
