"""The checkpoints of a run that are on record when its directory is scanned."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ckptd.core.model import RecordedCheckpoint, Scan, Unknown
from ckptd.store.recorded_rows import RecordedRows


class KnownCheckpoints:
    """Those on record, and which of them are sent with a scan, so that it need not read them."""

    __slots__ = ("_sent", "recorded")

    def __init__(self, recorded: RecordedRows, reread: Collection[str] = ()) -> None:
        """Take all that are there; those at the paths to reread are not sent."""
        self.recorded = recorded
        left_out = recorded.find_at(reread) if reread else frozenset()
        self._sent = [number for number in range(len(recorded)) if number not in left_out]

    def encode(self) -> list[list[Any]]:
        """Return what is sent with the request for a scan."""
        return self.recorded.encode(self._sent)

    def complete(self, scan: Scan | Unknown) -> Scan | Unknown:
        """Return a scan with all the checkpoints that it found."""
        if isinstance(scan, Unknown) or not scan.unchanged:
            return scan
        same = [self.recorded[self._sent[number]].checkpoint for number in scan.unchanged]
        return replace(scan, checkpoints=(*same, *scan.checkpoints), unchanged=())

    def compare(self, scan: Scan) -> tuple[Sequence[RecordedCheckpoint], Scan]:
        """Return the checkpoints that a scan may change, and the scan without those that it certainly does not."""
        found = {self._sent[number] for number in scan.unchanged}
        unsettled = self.recorded.list_unsettled(found)
        same = [self.recorded[number].checkpoint for number in unsettled if number in found]
        left = replace(scan, checkpoints=(*same, *scan.checkpoints), unchanged=())
        return [self.recorded[number] for number in unsettled], left
