"""What came of an act on the trash, as a value for the audit table."""

import errno
import os
from dataclasses import dataclass
from enum import StrEnum

from ckptd.errors import CkptdError


class Result(StrEnum):
    """How an act ended. After every one but the first three, what was there before is there still."""

    MOVED = "moved"
    DELETED = "deleted"
    RESTORED = "restored"
    UNDONE = "undone"  # begun, and put back
    REFUSED = "refused"  # what was found is not what was planned, or must not be touched
    FAILED = "failed"  # the system would not


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of one act: `act_id` is the one that the audit table recorded before it began."""

    act_id: str
    result: Result
    path: str  # of the checkpoint
    reason: str | None = None
    size_bytes: int = 0


class RefusedError(CkptdError):
    """What was found must not be touched; the text says why."""


_REASONS = {
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space is left, not even for the manifest; emptying the trash needs none",
    errno.EDQUOT: "the owner's quota is used up; emptying the trash needs none",
    errno.EXDEV: "it is on another file system than its trash",
    errno.ESTALE: "the file server no longer knows it",
    errno.EACCES: "its owner may not move it",
    errno.EPERM: "its owner may not move it",
    errno.ELOOP: "a symbolic link is where a directory or file was",
    errno.ENOTDIR: "a directory of its path is none any more",
    errno.ENOENT: "it, or a directory of its path, is gone",
    errno.EIO: "the file system failed to read or write",
}


def explain(error: OSError) -> str:
    """Say in a sentence what a system call's error means here."""
    told = _REASONS.get(error.errno or 0)
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{told} ({text})" if told else text
