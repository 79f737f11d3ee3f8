"""Finds files of no known format from which a run may resume: only its program knows whether they are checkpoints."""

from datetime import datetime
from typing import NamedTuple

from ckptd.core.model import Evidence, RunRecord, Scan, Unknown, UnrecognisedFile


class PossibleSave(NamedTuple):
    """The newest file of no known format in a location of a run."""

    directory: str
    file: UnrecognisedFile

    @property
    def path(self) -> str:
        """The absolute path."""
        return f"{self.directory.rstrip('/')}/{self.file.path}"


def find_possible_save(history: RunRecord, since: datetime) -> PossibleSave | None:
    """Return the newest file that the run may have saved at an instant or later; None if there is none.

    A run that ever had a checkpoint of a known format saves in that format: its other files are no checkpoints.
    """
    places = (*history.copies, *history.earlier)
    if history.checkpoints or history.summed is not None or any(place.checkpoints for place in places):
        return None
    scans = [(history.key.directory, history.scan), *((place.directory, place.scan) for place in places)]
    found = [PossibleSave(directory, file) for directory, scan in scans if (file := _file_of(scan, since))]
    return max(found, key=lambda each: each.file.modified_at, default=None)


def find_possible_save_of_run(history: RunRecord) -> PossibleSave | None:
    """Return the newest file that any attempt of the run may have saved."""
    starts = [attempt.started_at for attempt in history.attempts]
    return find_possible_save(history, min(starts)) if starts else None


def make_evidence(found: PossibleSave | None) -> dict[str, Evidence]:
    """Return the evidence that a flag has of such a file: nulls if there is none."""
    return {
        "unrecognised": None if found is None else found.path,
        "unrecognised_bytes": None if found is None else found.file.size_bytes,
        "unrecognised_at": None if found is None else found.file.modified_at.isoformat(),
    }


def _file_of(scan: Scan | Unknown | None, since: datetime) -> UnrecognisedFile | None:
    file = scan.unrecognised if isinstance(scan, Scan) else None
    # its time is in whole seconds
    return file if file is not None and file.modified_at >= since.replace(microsecond=0) else None
