"""Detect copies whose content is not that of their original, as a comparison of both has shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import (
    CheckpointState,
    ContentComparison,
    CopyLocation,
    Evidence,
    Finding,
    RecordedCheckpoint,
    RunHistory,
    Scan,
    Severity,
    Unknown,
)
from ckptd.core.runs import history as facts
from ckptd.core.runs.compared_content import find_comparison, identify_files

SHOWN_COUNT = 10


@dataclass(frozen=True, slots=True)
class CopyDiffers:
    """Flag a run while a copy of a checkpoint is known to have another content than its original."""

    name: ClassVar[str] = "copy-differs"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        job = facts.current_job(history)
        if job is None or not history.copies:
            return ()
        differing = [each for copy in history.copies for each in list_differing(history, copy)]
        if not differing:
            unread = next((copy.directory for copy in history.copies if not copy.was_read_whole), None)
            return () if unread is None else Unknown(what=self.name, reason=f"{unread} was not read completely")
        newest, known = max(differing, key=lambda pair: pair[0].checkpoint.modified_at)
        evidence: dict[str, Evidence] = {
            "copy": str(newest.checkpoint.path),
            "original": known.original,
            "differing_file": known.differing_file,
            "compared_at": known.compared_at.isoformat(),
            "is_by_owner": known.is_by_owner,
            "copies": [str(each.checkpoint.path) for each, _ in differing[-SHOWN_COUNT:]],
            "copy_count": len(differing),
        }
        return (FindingBuilder(self.name, history).make_finding(job, Severity.WARNING, evidence),)


def list_differing(history: RunHistory, copy: CopyLocation) -> Iterator[tuple[RecordedCheckpoint, ContentComparison]]:
    """Yield the copies in a location that are there as they were compared, if their original was not written again.

    An original that is deleted does not make its copy right.
    """
    if not isinstance(copy.scan, Scan) or copy.is_absent:
        return
    for each in copy.checkpoints:
        known = find_comparison(history, each)
        if known is None or known.differing_file is None or each.deleted_at is not None:
            continue
        originals = [one.checkpoint for one in facts.present(history) if str(one.checkpoint.path) == known.original]
        if each.checkpoint.state is CheckpointState.COMPLETE and all(
            identify_files(original) == known.original_files for original in originals
        ):
            yield each, known
