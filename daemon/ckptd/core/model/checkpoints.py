"""Checkpoints as a scan finds them, and as the database keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

from ckptd.core.model.content_comparisons import ContentComparison
from ckptd.core.model.jobs import JobKey
from ckptd.core.model.resumes import CheckpointRead, DeclaredResume
from ckptd.core.model.unknown import Unknown

_LAST_NS = 2**63 - 1  # in the year 2262; calendars here end with 9999, and the times of files do not


def to_instant(nanoseconds: int) -> datetime:
    """Return the time of a file, or the nearest one that calendars know: some file systems hold any."""
    if not -_LAST_NS <= nanoseconds <= _LAST_NS:
        nanoseconds = min(max(nanoseconds, -_LAST_NS), _LAST_NS)
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)


class CheckpointState(StrEnum):
    """What is known of a checkpoint's wholeness."""

    COMPLETE = "complete"
    WRITING = "writing"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


UNREAD = "not read yet: the scan of its directory had no time left for it"


class Level(StrEnum):
    """How thoroughly a checkpoint was checked."""

    LISTED = "listed"
    STRUCTURE = "structure"
    FULL = "full"


class Role(StrEnum):
    """What a checkpoint can be used for."""

    STATE = "state"  # its content or its framework's own structure proves that a run can resume from it
    WEIGHTS = "weights"  # parameters only: it may be an export or a download
    PART = "part"  # what only a state has, such as an optimizer's moments, and no parameters: the rest is elsewhere
    DATA = "data"  # arrays, tables, samples, embeddings, and everything whose content proves nothing


class FileIdentity(NamedTuple):
    """What must be unchanged for a file to be the one that was inspected.

    `changed_ns` is the inode's change time (ctime), which no user can set; 0 where it was not recorded.
    """

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouping:
    """Which files are one checkpoint, which number in their names is its progress, and how that is known.

    Built by `core.checkpoint_sets`. Where `doubt` says why it is not known, the files are shown and never pruned.
    """

    series: str = ""  # the path in its location with `#` for the progress number: equal in all checkpoints of a series
    progress: tuple[int, ...] = ()  # progress numbers in the names, such as (epoch, step); empty: the name is fixed
    evidence: str = ""  # why these numbers are progress, such as "the word `step` is beside it"
    has_progress_word: bool = False  # a word such as `epoch` or `step` is beside the number
    is_directory: bool = False  # the path is a directory that holds nothing but this checkpoint
    doubt: str | None = None


NOT_GROUPED = Grouping()


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Describe one restorable state as one scan shows it: an indivisible set of files.

    `path` is the file, the directory, the prefix that the framework takes for a set, or else the first part. `files`
    are all files, relative to the parent of `path`, and `identities` has the identity of each. `parts` are the things
    that formats recognised, if several make up the set, each with its own path and files; it is empty if there is only
    one.
    """

    path: PurePosixPath
    format: str
    files: tuple[str, ...]
    identities: tuple[FileIdentity, ...]
    owner_uids: frozenset[int] = frozenset()
    size_bytes: int
    modified_at: datetime
    state: CheckpointState
    reason: str | None = None
    level: Level
    epoch: float | None = None  # whole numbers are ints
    step: int | None = None
    name_epoch: float | None = None
    name_step: int | None = None
    is_best: bool | None = None
    is_newest: bool | None = None  # the format's own marker names it
    is_listed: bool | None = None  # an index of the format's own names it, newest or not
    metrics: Mapping[str, float] = field(default_factory=dict)
    goal_epoch: float | None = None  # how far the training shall go, where the content says so
    goal_step: int | None = None
    unsafe: tuple[str, ...] = ()
    content_epoch: float | None = None  # what the content itself says; `epoch` and `step` may be from the name
    content_step: int | None = None
    role: Role = Role.DATA
    role_evidence: str = ""
    is_result: bool = False  # users also analyse it, as an OpenFOAM time or a snapshot: kept like data
    grouping: Grouping = NOT_GROUPED
    parts: tuple["Checkpoint", ...] = ()
    continued_count: int | None = None  # how often the program that wrote it was continued, by its own count
    continued_from_step: int | None = None  # the step that it was last continued from, by its own count
    # ids that a continued program keeps and a new start does not have, with spaces; `+` begins those of a log, oldest
    # first
    computation: str | None = None

    def in_group(self, grouping: Grouping) -> "Checkpoint":
        """Return one with this grouping; `dataclasses.replace` would take ten times as long for each file."""
        if self.grouping is not NOT_GROUPED and grouping == self.grouping:
            return self
        made = cast("Any", UnfrozenCheckpoint)(*_read_all(self))
        made.grouping = grouping
        return freeze(made)


# It has the same layout, so that it becomes one when it is frozen. To make one so takes half of the time, because its
# fields are set without a call for each. It needs all of them.
UnfrozenCheckpoint = cast("type[Checkpoint]", make_dataclass("UnfrozenCheckpoint", Checkpoint.__slots__, slots=True))
_read_all = attrgetter(*Checkpoint.__slots__)


def freeze(made: Checkpoint) -> Checkpoint:
    """Make an UnfrozenCheckpoint, of which nobody else has a reference, a Checkpoint."""
    made.__class__ = Checkpoint
    return made


class SeenLink(NamedTuple):
    """A symbolic link that a scan saw, or `resume_from` in a user's own file, and where it leads.

    An empty `target` is one that could not be read: it may be anything.
    """

    path: str  # of the link or the file, absolute
    target: str  # absolute and normalised, as its text says
    real: str | None = None  # without any links; None where nothing is there, or nobody could tell
    device: int = 0  # of what is there, or where that is a directory of the file `inside` it; 0: not known
    inode: int = 0
    inside: str = ""


class UnrecognisedFile(NamedTuple):
    """A file of no known format that may be a checkpoint, by its name and its first bytes."""

    path: str  # relative to the directory
    size_bytes: int
    modified_at: datetime  # in whole seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """The result of one scan of a checkpoint directory."""

    directory: PurePosixPath
    scanned_at: datetime  # when the scan was requested: later writes may be missing
    checkpoints: tuple[Checkpoint, ...]
    problems: tuple[Unknown, ...] = ()  # not empty: the directory was not read completely
    leftovers: tuple[str, ...] = ()  # backups and temporaries of saves, relative to the directory
    free_bytes: int | None = None
    total_bytes: int | None = None
    quota_left_bytes: int | None = None  # what the owner's quota leaves; None: no limit, or not known
    quota_error: str | None = None  # why the quota is not known
    quota_read_at: datetime | None = None  # None: not determined
    filesystem_type: str | None = None
    markers: tuple[str, ...] = ()  # files that several checkpoints share, relative to the directory: never moved
    finished_at: datetime | None = None  # when the scan ended, if known: it may include what was written until then
    links: tuple[SeenLink, ...] = ()  # its owner's, there and in the working directories of its jobs
    declared: tuple[DeclaredResume, ...] = ()  # what jobs declared in these directories that they loaded, oldest first
    reads: tuple[CheckpointRead, ...] = ()  # of the candidates that were asked about, as far as anything tells
    fingerprint: str | None = None  # of the tree, if the same one always leads to the same checkpoints
    entry_count: int = field(default=0, compare=False)  # directory entries that it read
    unread_count: int = 0  # checkpoints, or parts of them, that it had no time to read
    unrecognised: UnrecognisedFile | None = None  # the newest one, if the scan found no checkpoint
    unchanged: tuple[int, ...] = ()  # numbers of known checkpoints that are as they were: not among `checkpoints`

    @property
    def is_whole(self) -> bool:
        return not self.problems

    @property
    def available_bytes(self) -> int | None:
        """The bytes that can still be written: the free space, or the rest of the owner's quota if that is less."""
        known = [each for each in (self.free_bytes, self.quota_left_bytes) if each is not None]
        return min(known, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedCheckpoint:
    """A checkpoint on disk with what the database adds to it."""

    checkpoint: Checkpoint
    first_seen_at: datetime
    completed_at: datetime | None = None  # when its last byte was written, once it was seen complete
    started_writing_at: datetime | None = None  # None: it was never seen incomplete
    attempt: tuple[JobKey, int] | None = None  # the attempt that was seen writing it: the ownership proof
    deleted_at: datetime | None = None
    pruned_at: datetime | None = None
    is_pinned: bool = False
    # when a file in it was first seen renamed, or it was first back from where a person had moved it: it is kept then.
    # If earlier than `first_seen_at`: when another daemon had moved one with its path and size to the trash.
    renamed_at: datetime | None = None
    verified_full_at: datetime | None = None  # when all its present bytes were last verified
    owner_verified_at: datetime | None = None  # the same by a job of its owner, which says what its owner likes
    owner_damage: str | None = None  # why such a job calls it damaged, until this node verifies it
    comparisons: tuple[ContentComparison, ...] = ()  # of a copy: the last one with each original, oldest first

    @property
    def was_in_trash(self) -> bool:
        """Whether another daemon had moved one of its path and size to the trash; a person or a job made it again."""
        return self.renamed_at is not None and self.renamed_at < self.first_seen_at
