"""Chooses among the checkpoints that an attempt may have loaded by which of them was read after its start.

It refines what progress leaves open, and never contradicts it. Backups and `cp -r` read everything: where several were
read, or it is not known of each of the others that it was not, nothing follows.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from ckptd.core.model import Certainty, CheckpointRead, Resume, ResumeReason

_OPEN = frozenset((
    ResumeReason.AMBIGUOUS, ResumeReason.COUNTED_ANEW, ResumeReason.NO_PROGRESS, ResumeReason.NO_RATE,
    ResumeReason.OTHER_NAMES, ResumeReason.PROGRAM,
))  # fmt: skip
_FEWEST = 2  # one that was read, and one that was not


def list_asked(resume: Resume) -> tuple[str, ...]:
    """Return the candidates of which it helps to know whether they were read; empty where nothing is left open."""
    if resume.is_known or resume.reason not in {*_OPEN, ResumeReason.NOT_SAVED}:
        return ()
    paths = tuple(dict.fromkeys(each.path for each in resume.candidates))
    return paths if len(paths) >= _FEWEST else ()


def merge(known: Iterable[CheckpointRead], seen: Iterable[CheckpointRead]) -> tuple[CheckpointRead, ...]:
    """Return for each path its first read that was seen, or until when it was not read; empty while none was."""
    merged = {each.path: each for each in known}
    before = {path: each.read_at for path, each in merged.items()}
    for each in seen:
        if before.get(each.path) is None:
            merged[each.path] = each
    if {path: each.read_at for path, each in merged.items()} == before:
        return tuple(known)  # a later scan of the same read adds nothing
    return tuple(sorted(merged.values())) if any(each.read_at for each in merged.values()) else ()


def choose(resume: Resume, reads: Iterable[CheckpointRead], started_at: datetime, first_saved_at: datetime) -> Resume:
    """Return what an attempt resumed from, where exactly one candidate was read between its start and its first save.

    When that was seen, none of the others had been read.
    """
    by_path = {each.path: each for each in reads}
    paths = {each.path for each in resume.candidates}
    if resume.is_known or resume.reason not in _OPEN or len(paths) < _FEWEST or not paths <= by_path.keys():
        return resume
    read = [by_path[path] for path in paths if by_path[path].read_at is not None]
    loaded = [each for each in resume.candidates if read and each.path == read[0].path]
    if len(read) != 1 or len(loaded) != 1:
        return resume
    [(path, checked_at, read_at)], [only] = read, loaded
    assert read_at is not None
    is_contrast = all(by_path[other].checked_at >= read_at for other in paths - {path})
    if not is_contrast or not started_at < read_at <= min(first_saved_at, checked_at):
        return resume
    evidence = {
        **resume.evidence,
        "read_at": read_at.isoformat(),
        "seconds_until_read": round((read_at - started_at).total_seconds()),
        "unread_count": len(paths) - 1,
    }
    return replace(
        resume,
        certainty=Certainty.INFERRED,
        reason=ResumeReason.ACCESS,
        path=only.path,
        saved_at=only.saved_at,
        evidence=evidence,
        may_be_fresh=False,
    )
