"""Outcomes of operations on the trash, as values for the audit table."""

import errno
import os
from dataclasses import dataclass
from enum import StrEnum

from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.errors import CkptdError


class TrashResult(StrEnum):
    """Result of an operation. After all but the first three, the files are where they were before."""

    MOVED = "moved"
    DELETED = "deleted"
    RESTORED = "restored"
    UNDONE = "undone"  # begun, and put back
    REFUSED = "refused"  # what was found is not what was planned, or must not be touched
    FAILED = "failed"  # the system would not


@dataclass(frozen=True, kw_only=True, slots=True)
class TrashOutcome:
    """The outcome of one operation: `act_id` is the one that the audit table recorded before it."""

    act_id: str
    result: TrashResult
    path: str  # of the checkpoint
    reason: str | None = None
    cause: FailureCause | None = None  # the reason in one word; None where nothing went wrong
    size_bytes: int = 0


class RefusedError(CkptdError):
    """The files must not be touched; the text says why."""

    def __init__(self, text: str, cause: FailureCause = FailureCause.OTHER) -> None:
        super().__init__(text)
        self.cause = cause


_REASONS = {
    errno.EROFS: ("the file system is read-only", FailureCause.READ_ONLY),
    errno.ENOSPC: ("no space is left, not even for the manifest; emptying the trash needs none", FailureCause.FULL),
    errno.EDQUOT: ("the owner's quota is used up; emptying the trash needs none", FailureCause.FULL),
    errno.EXDEV: ("it is on another file system than its trash", FailureCause.MOUNTED),
    errno.ESTALE: ("the file server no longer knows it", FailureCause.BROKEN),
    errno.EACCES: ("its owner has no permission to change one of its directories", FailureCause.PERMISSION),
    errno.EPERM: ("it, or a directory of its path, is immutable or not its owner's to change", FailureCause.IMMUTABLE),
    errno.ENAMETOOLONG: ("its name is too long", FailureCause.CHANGED),
    errno.EEXIST: ("its name is in use", FailureCause.TAKEN),
    errno.ENOTEMPTY: ("a directory holds more than was moved", FailureCause.CHANGED),
    errno.ELOOP: ("a symbolic link is where a directory or file was", FailureCause.CHANGED),
    errno.ENOTDIR: ("a directory of its path is none any more", FailureCause.CHANGED),
    errno.ENOENT: ("it, or a directory of its path, no longer exists", FailureCause.GONE),
    errno.EIO: ("the file system failed to read or write", FailureCause.BROKEN),
}


def explain(error: OSError | RefusedError) -> str:
    """Return the reason of a failure as a sentence."""
    if isinstance(error, RefusedError):
        return str(error)
    explanation, _ = _REASONS.get(error.errno or 0, (None, None))
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{explanation} ({text})" if explanation else text


def fail(error: OSError | RefusedError, act_id: str, path: str) -> TrashOutcome:
    """Return the outcome of a failed operation."""
    if isinstance(error, RefusedError):
        result, cause = TrashResult.REFUSED, error.cause
    else:
        result, (_, cause) = TrashResult.FAILED, _REASONS.get(error.errno or 0, ("", FailureCause.OTHER))
    return TrashOutcome(act_id=act_id, result=result, path=path, reason=explain(error), cause=cause)
