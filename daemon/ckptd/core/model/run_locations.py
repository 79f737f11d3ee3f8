"""The further directories of a run: where its checkpoints are copied to, and where its earlier starts saved them."""

from dataclasses import dataclass
from typing import NamedTuple

from ckptd.core.model.checkpoints import RecordedCheckpoint, Scan
from ckptd.core.model.unknown import Unknown

COPY = "copy"  # how a directory was located that is only a further location of other runs


class NamedLocation(NamedTuple):
    """A further directory of a run's checkpoints, as the last search found it.

    `directory` is its real path, or as it was named where ckptd cannot use it.
    """

    directory: str
    trouble: str | None = None  # why ckptd does not scan it
    is_absent: bool = False  # it does not exist, and its owner could make it
    is_earlier: bool = False  # earlier starts of the run saved there, and nobody named it

    @property
    def is_scanned(self) -> bool:
        return self.trouble is None and not self.is_absent


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyLocation:
    """A further directory of a run, with what the last scan found there."""

    directory: str
    scan: Scan | Unknown | None  # None: not scanned yet
    checkpoints: tuple[RecordedCheckpoint, ...] = ()  # oldest first, gone ones included
    is_absent: bool = False  # it does not exist: no copy is there
    is_earlier: bool = False  # earlier starts of the run saved there: it holds no copies

    @property
    def was_read_whole(self) -> bool:
        """Whether it is known what is there."""
        return self.is_absent or (isinstance(self.scan, Scan) and self.scan.is_whole)
