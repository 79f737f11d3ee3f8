"""What is on record of one run: its attempts, its checkpoints, and what is worked out of them when they change."""

from dataclasses import replace

from ckptd.core import queue
from ckptd.core.model import RunKey, Scan
from ckptd.core.runs import ownership, progress
from ckptd.core.runs.attempt_progress import list_saved, measure_reaches
from simulation.queue import UID, QueueLook

KEPT_CHECKPOINTS = 64  # as the record gives them to rules


class Record:
    """The record of one run. Nothing here knows the truth beyond what looks show."""

    def __init__(self, key: RunKey):
        self.key = key
        self.attempts = ()
        self.checkpoints = ()  # those that rules are given
        self._recorded = ()  # of older ones those that are still there, for else each look would find them anew
        self._by_name = {}
        self._saved = {}  # of all checkpoints ever
        self._reaches = None

    @property
    def is_cut(self):
        return len(self.checkpoints) >= KEPT_CHECKPOINTS

    @property
    def reaches(self):
        if self._reaches is None:
            self._reaches = measure_reaches(self.attempts, self._saved.values())
        return self._reaches

    def note_queue(self, look: QueueLook):
        for attempt in look.attempts:
            name = (attempt.job, attempt.restart_count)
            known = self._by_name.get(name)
            earlier = tuple(each for other, each in self._by_name.items() if other != name)
            kind = known.kind if known else queue.assign_kind(earlier, attempt)
            self._by_name[name] = replace(attempt, kind=kind)
        if look.attempts:
            self.attempts = tuple(sorted(self._by_name.values(), key=lambda each: each.started_at))
            self._reaches = None

    def note_scan(self, scan: Scan, looked_at):
        """Note a look; `looked_at` is when the look before it was made."""
        writers = ownership.Writers(owner_uid=UID, attempts=self.attempts, looked_at=looked_at)
        changes = progress.merge_scan(self._recorded, scan, writers, scan.scanned_at)
        if changes.is_empty:
            return
        every, self._reaches = _merge(self._recorded, changes), None
        self.checkpoints = _newest(every)
        self._recorded = (
            *(each for each in every[:-KEPT_CHECKPOINTS] if each.gone_at is None),
            *every[-KEPT_CHECKPOINTS:],
        )
        for record in (*changes.appeared, *changes.changed):
            for saved in list_saved([record]):
                self._saved[record.first_seen_at, record.checkpoint.path] = saved


def _merge(recorded, changes):
    replaced = {(each.checkpoint.path, each.first_seen_at): each for each in (*changes.changed, *changes.gone)}
    kept = [replaced.get((each.checkpoint.path, each.first_seen_at), each) for each in recorded]
    return (*kept, *changes.appeared)


def _newest(every):
    """Return the newest ones, and the furthest, too, however old."""
    furthest = max(every, key=lambda record: record.checkpoint.step)
    newest = every[-KEPT_CHECKPOINTS:]
    return newest if any(record is furthest for record in newest) else (furthest, *newest)
