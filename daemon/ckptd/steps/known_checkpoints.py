"""The checkpoints of a run that are on record when its directory is scanned."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ckptd.checkpoints.agent.answer_pieces import PackedItems
from ckptd.checkpoints.agent.scan_client import KnownRows
from ckptd.core.model import RecordedCheckpoint, Scan, Unknown
from ckptd.steps.scan_groups import MAX_ENTRIES
from ckptd.store.recorded_rows import RecordedRows


class KnownCheckpoints:
    """Those on record, and which of them are sent with a scan, so that it need not read them."""

    __slots__ = ("_sent", "recorded")

    def __init__(self, recorded: RecordedRows, reread: Collection[str] = ()) -> None:
        """Take all that are there; those at the paths to reread are not sent."""
        self.recorded = recorded
        numbers: Sequence[int] = range(len(recorded))
        left_out = recorded.find_at(reread) if reread else frozenset()
        self._sent = [number for number in numbers if number not in left_out] if left_out else numbers

    def encode(self) -> KnownRows:
        """Return what is sent with the request for a scan; packed, as what is on record then, if there is much of it.

        A large directory takes long to be scanned, and others wait for the agent, too.
        """
        rows = self.recorded.encode(self._sent)
        if len(self._sent) <= MAX_ENTRIES:
            return [*rows]
        packed = PackedItems.of(rows)
        self.recorded.pack()
        return packed

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
