"""Rows about the locations of a run: where its checkpoints are, and which of them is the newest complete one."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ckptd.core.model import Certainty, CheckpointState, CopyLocation, RecordedCheckpoint, RunRecord, Scan, Unknown
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.compared_content import differs, find_comparison
from ckptd.core.runs.earlier_directories import directory_of

if TYPE_CHECKING:  # `ckptd show` starts without pydantic
    from ckptd.present.responses.location_documents import ComparisonDocument, LocationDocument, NewestCompleteDocument


def list_locations(history: RunRecord) -> "list[LocationDocument]":
    """Return a run's primary location, where it is known, and its copies in the order of their declaration.

    Directories of its earlier starts come before the copies.
    """
    complete = [each for each in facts.complete_now(history) if directory_of(history, each) == history.key.directory]
    own = facts.newest_complete(replace(history, checkpoints=tuple(complete)))
    rows: list[LocationDocument] = []
    if history.key.is_located:
        rows.append(
            {
                "path": history.key.directory,
                "role": "primary",
                "trouble": _trouble(history.scan),
                "scanned_at": history.scan.scanned_at if isinstance(history.scan, Scan) else None,
                "checkpoints": len(complete),
                "newest_complete": str(own.checkpoint.path) if own else None,
                "newest_saved_at": own.checkpoint.modified_at if own else None,
                "compared": None,
            }
        )
    return rows + [_further_row(history, each) for each in (*history.earlier, *history.copies)]


def _further_row(history: RunRecord, copy: CopyLocation) -> "LocationDocument":
    newest = copied_checkpoints.find_newest_copy(history, copy)
    there = [each for each in copy.checkpoints if each.deleted_at is None]
    return {
        "path": copy.directory,
        "role": "earlier" if copy.is_earlier else "copy",
        "trouble": "it does not exist" if copy.is_absent else _trouble(copy.scan),
        "scanned_at": copy.scan.scanned_at if isinstance(copy.scan, Scan) else None,
        "checkpoints": len([each for each in there if _is_complete(each) and not differs(history, each)]),
        "newest_complete": str(newest.record.checkpoint.path) if newest else None,
        "newest_saved_at": newest.saved_at if newest else None,
        "compared": None if copy.is_earlier else _compared_row(history, there),
    }


def _is_complete(record: RecordedCheckpoint) -> bool:
    return record.checkpoint.state is CheckpointState.COMPLETE


def _compared_row(history: RunRecord, there: Iterable[RecordedCheckpoint]) -> "ComparisonDocument | None":
    """Return the latest comparison of a copy that is there as it was read; one that differs before all others."""
    found = [(each, known) for each in there if (known := find_comparison(history, each)) is not None]
    if not found:
        return None
    copy, known = max(found, key=lambda pair: (pair[1].differing_file is not None, pair[1].compared_at))
    return {
        "path": str(copy.checkpoint.path),
        "original": known.original,
        "compared_at": known.compared_at,
        "is_same": known.differing_file is None,
        "differing_file": known.differing_file,
        "is_by_owner": known.is_by_owner,
    }


def _trouble(scan: Scan | Unknown | None) -> str | None:
    if isinstance(scan, Unknown):
        return scan.reason
    if scan is None:
        return "it was not scanned yet"
    return "; ".join(f"{problem.what}: {problem.reason}" for problem in scan.problems) or None


def newest_complete_row(history: RunRecord) -> "NewestCompleteDocument | None":
    """Return the newest complete checkpoint in any location of a run, as far as the locations could be read."""
    newest = copied_checkpoints.find_newest(history)
    if newest is None:
        return None
    is_sure = facts.was_read_whole(history) and not copied_checkpoints.list_unread(history)
    return {
        "path": str(newest.record.checkpoint.path),
        "location": newest.directory,
        "saved_at": newest.saved_at,
        "epoch": newest.record.checkpoint.epoch,
        "step": newest.record.checkpoint.step,
        "certainty": Certainty.PROVEN if is_sure else Certainty.INFERRED,
    }
