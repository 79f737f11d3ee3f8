"""Define the interface of a checkpoint format: which files are one checkpoint, and what their content says."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from ckptd.checkpoints.formats.roles import RoleEvidence
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level, Role
from ckptd.errors import CkptdError


class DamagedError(CkptdError):
    """The checkpoint cannot be restored as it is; the text says what is wrong with it."""


class TooLargeError(CkptdError):
    """Reading the content would take more work or memory than allowed, so that its state is unknown."""


class Shape(StrEnum):
    """What one checkpoint of a format is on disk."""

    FILE = "file"
    SET = "set"
    DIRECTORY = "directory"


class Claim(NamedTuple):
    """Hold the files that a format takes for one checkpoint, judged by names and at most their first bytes.

    `path` and the paths of the files are relative to the root of the scan. For a set, `path` is the prefix that the
    framework takes. These fields are None or a clause for users:
    - `in_progress`: the framework's own marker says that a save is unfinished;
    - `temporary`: the name is that of an unfinished save. A recent file is still being written; an older one is a
      leftover;
    - `damage`: files or markers beside it show that it cannot be restored;
    - `note`: files or markers beside it show a harmless irregularity, such as a marker that names a missing file;
    - `unlisted`: a part that could not be listed, so that files that seem to be missing may exist.
    """

    format: str
    shape: Shape
    path: str
    files: tuple[File, ...]
    in_progress: str | None = None
    temporary: str | None = None
    damage: str | None = None
    note: str | None = None
    unlisted: str | None = None
    markers: tuple[File, ...] = ()  # index and marker files shared with other checkpoints; never pruned with it
    is_newest: bool | None = None  # a marker names it
    is_listed: bool | None = None  # an index names it, newest or not
    is_best: bool | None = None
    name_epoch: float | None = None
    name_step: int | None = None
    name_metrics: Mapping[str, float] = {}


class Examination(NamedTuple):
    """The facts in the bytes of one checkpoint. `complete` at `level` means that all checks of the level passed."""

    epoch: float | None = None
    step: int | None = None
    state: CheckpointState = CheckpointState.COMPLETE
    reason: str | None = None
    is_best: bool | None = None
    # what its content calls the best, by each metric: base names, with the names of their directories where known
    best_paths: tuple[str, ...] = ()
    metrics: Mapping[str, float] = {}
    goal_epoch: float | None = None  # the goal of the training, if its state has one
    goal_step: int | None = None
    unsafe: tuple[str, ...] = ()  # names of callables outside the known-safe set that a pickle would call
    has_checksum: bool = False  # at level full: whether every byte of data was under a checksum
    unchecked: str | None = None  # at level full: the part without a checksum, as `describe_unchecked` words it
    role: Role = Role.DATA
    role_evidence: str = ""  # what shows the role, such as "holds the state of an optimizer"; "" where nothing does
    is_result: bool = False  # a state that users also analyse, such as an OpenFOAM time
    continued_count: int | None = None  # how often the program was continued from a checkpoint, by its own count
    continued_from_step: int | None = None  # the step that it was last continued from, by its own count
    # ids that a continued program keeps and a new start does not have, with spaces; `+` begins those of a log, oldest
    # first
    computation: str | None = None

    def shown_as(self, found: RoleEvidence) -> "Examination":
        """Return the same with the role that was found."""
        return self._replace(role=found.role, role_evidence=found.evidence, is_result=found.is_result)


NO_CHECKSUM = "no checksum in this format"


def describe_unchecked(what: str) -> str:
    """Return the note that a full check could compare no checksum for a part of a checkpoint."""
    return f"{NO_CHECKSUM} for {what}"


class Format(Protocol):
    """One checkpoint format. Nothing here imports the framework or executes what a file says."""

    name: str
    role_unread: RoleEvidence  # if the content cannot be read; NOT_SHOWN if only the content shows the role

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        """Yield the checkpoints of this format among the entries of one directory.

        A directory-shaped checkpoint is claimed from its parent. Work must be proportional to the entries with
        this format's names (use `directory.by_suffix`); open files only where names alone cannot tell.
        Entries that formats before this one in FORMATS claimed are no longer in `directory`.
        """

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        """Read what `level` requires: STRUCTURE means headers, indexes, sizes and markers; FULL means every byte.

        Trust no size, count or path in a file: bound each by the sizes of the files. Return the role at every level,
        from names and types of values; do not read arrays for it.

        Raises:
            DamagedError: the checkpoint is damaged, with the reason.
            OSError: it could not be read.

        """
