"""Reads files of one directory to their end for their digests, as their owner, in the agent's child or in a job.

The content goes through a digest and is not parsed. It is still read in a limited child, so that a file system that
hangs, and files that grow or are exchanged meanwhile, cost no more than in a full verification.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from ckptd.checkpoints.agent.limited_child import ChildLimits, ChildReporter, LimitedChild, RunningChild
from ckptd.checkpoints.scanning.allowed_roots import open_allowed
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.core.verification.file_digests import DIGEST
from ckptd.core.verification.task_results import MAX_REASON
from ckptd.errors import CkptdError

CHUNK_BYTES = 1 << 20


class FileChangedError(CkptdError):
    """The file is not as it was recorded, or changed while it was read."""


def digest(item: dict[str, Any]) -> dict[str, Any]:
    """Return the identity and the digest of each of `item["files"]`, which has names below the directory, and sizes.

    If one of them cannot be read as it was recorded, `refused` names it and says why, and the others are not read.

    Raises:
        OutsideRootsError: the directory is not below an allowed root.
        OSError: the directory cannot be opened.

    """
    with open_allowed(item["directory"], item["allowed_roots"]) as descriptor, Reader(descriptor) as reader:
        return _digest_in_child(reader, [(name, size) for name, size in item["files"]], ChildLimits())


def _digest_in_child(reader: Reader, files: Sequence[tuple[str, int]], limits: ChildLimits) -> dict[str, Any]:
    def allow(step: int) -> float:
        size = files[step][1] if 0 <= step < len(files) else 0
        return limits.seconds + size / limits.full_bytes_per_second

    def read(teller: ChildReporter) -> None:
        for number, (name, size) in enumerate(files):
            teller.begin(number, allow(number))
            try:
                with reader.open_descriptor(name) as file:
                    teller.answer(_digest_file(file, size))
            except (OSError, NotRegularError, FileChangedError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                teller.answer({"refused": f"{name}: {reason}"})
                return

    if not files:
        return {"files": []}
    found: list[Any] = []
    with RunningChild(LimitedChild(read, limits, allow, [reader.descriptor])) as running:
        for answer in running.answers:
            if isinstance(answer, dict):
                return {"refused": str(answer.get("refused"))[:MAX_REASON]}
            found.append(answer)
            if len(found) == len(files):
                return {"files": found}
        reason = running.child.failure or "its reader ended too early"
    return {"refused": f"{files[len(found)][0]}: {reason}"[:MAX_REASON]}


def _digest_file(file: BinaryIO, size: int) -> list[Any]:
    """Return the identity of a file and its digest.

    Raises:
        FileChangedError: its size is another one, or anything of it changes before its end is read.

    """
    before = _identify(file)
    if before[1] != size:
        raise FileChangedError(f"it has {before[1]} bytes, and had {size} when it was last scanned")
    made, left = hashlib.new(DIGEST), size
    while left and (data := os.read(file.fileno(), min(left, CHUNK_BYTES))):
        made.update(data)
        left -= len(data)
    if left or os.read(file.fileno(), 1) or _identify(file) != before:
        raise FileChangedError("it changed while it was read")
    return [*before, made.hexdigest()]


def _identify(file: BinaryIO) -> list[int]:
    status = os.fstat(file.fileno())
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
