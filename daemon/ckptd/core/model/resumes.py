"""What an attempt resumed from, as far as that is known, and how surely."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Certainty(StrEnum):
    """How surely something is known, surest first."""

    PROVEN = "proven"  # the program itself left a trace of it
    DECLARED = "declared"  # the job or its user says so, and nothing contradicts it
    INFERRED = "inferred"  # it follows from what was observed
    UNKNOWN = "unknown"


class ResumeReason(StrEnum):
    """What a `Resume` was inferred from; its evidence holds the numbers."""

    PROGRAM = "program"  # the program's own trace
    JOB = "job"  # declared by the job
    EMPTY = "empty"  # no complete checkpoint was there when it started
    PROGRESS = "progress"  # its first own checkpoint: one explanation fits
    ACCESS = "access"  # of several candidates it read one, by the access times of their files
    AMBIGUOUS = "ambiguous"  # its first own checkpoint: several explanations fit
    CONTRADICTION = "contradiction"  # its first own checkpoint: no explanation fits
    OTHER_NAMES = "other-names"  # its own checkpoints: as after a fresh start, but of names that none had before
    COUNTED_ANEW = "counted-anew"  # as after a fresh start, but its program may count from 0 after a resume
    NOT_SAVED = "not-saved"  # it has not completed a checkpoint of its own
    NO_PROGRESS = "no-progress"  # its first own checkpoint does not state its progress, or not in the same unit
    NO_RATE = "no-rate"  # its speed is not known
    CONCURRENT = "concurrent"  # other attempts ran in the same directory at that time
    NOT_READ = "not-read"  # the directory was not read completely


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredResume:
    """What one attempt declared that it loaded; None where it declared nothing."""

    path: str  # absolute
    real_path: str | None = None  # the real path at the time of the declaration
    cluster: str | None = None
    job_id: int | None = None
    restart_count: int | None = None
    said_at: datetime | None = None


class ResumeCandidate(NamedTuple):
    """A checkpoint that an attempt may have loaded."""

    path: str
    saved_at: datetime  # when it was complete


class CheckpointRead(NamedTuple):
    """Whether a checkpoint was read since an attempt started, as the access times of its files show at one instant."""

    path: str
    checked_at: datetime
    read_at: datetime | None = None  # None: not until `checked_at`


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """What one attempt resumed from.

    If `path` is None, the attempt started without a checkpoint, or the checkpoint is not known (certainty `unknown`).
    `candidates` are all checkpoints that it may have loaded, including the one at `path`; empty if it is certain which
    one it loaded. If `may_be_fresh` is true, it may have loaded none of them. `reads` are the observed reads of
    candidates. `equals` are the paths of candidates at the same progress as the one at `path`, such as `last.ckpt`: it
    may have loaded each of them, which makes no difference to the work.
    """

    certainty: Certainty
    reason: ResumeReason
    path: str | None = None
    saved_at: datetime | None = None  # when the checkpoint at `path` was complete; None: it is not on record
    evidence: Mapping[str, str | int | float | None] = field(default_factory=dict, hash=False)
    candidates: tuple[ResumeCandidate, ...] = ()
    may_be_fresh: bool = False
    reads: tuple[CheckpointRead, ...] = ()
    equals: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        return self.certainty is not Certainty.UNKNOWN

    @property
    def is_fresh(self) -> bool:
        """Whether it started without a checkpoint, as far as is known."""
        return self.is_known and self.path is None
