"""What is on record of one run: its attempts, its checkpoints, and what is worked out of them when they change."""

from dataclasses import replace

from ckptd.core import queue
from ckptd.core.model import Role, Scan
from ckptd.core.runs import lost_work, ownership, progress, redone_work
from ckptd.core.runs.attempt_progress import list_saved, measure_reaches
from ckptd.core.runs.resumed_from import SURE_COUNT, find_resume, list_own_states
from ckptd.core.runs.rotated_copies import date_by_original
from ckptd.core.runs.saved_state import SavedState
from simulation.directory import Directory
from simulation.polls import BEGINNING
from simulation.queue import UID, QueueLook

KEPT_CHECKPOINTS = 64  # as the record gives them to rules


class Record:
    """The record of one run. Nothing here knows the truth beyond what looks show."""

    def __init__(self):
        self.attempts = ()
        self.checkpoints = ()  # those that rules are given
        self._recorded = ()  # of older ones those that are still there, for else each look would find them anew
        self._by_name = {}
        self._saved = {}  # of all checkpoints ever
        self._reaches = None
        self._records = {}  # all checkpoints as they were last seen, by path and when they appeared
        self._is_new = False
        self._sure = set()  # attempts of which nothing more is learned
        self._losses = {}

    @property
    def is_truncated(self):
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
            self._by_name[name] = replace(attempt, kind=kind, resumed_from=known.resumed_from if known else None)
        if look.attempts:
            self._is_new = True
            self.attempts = tuple(sorted(self._by_name.values(), key=lambda each: each.started_at))
            self._reaches = None

    def note_scan(self, scan: Scan, observed_at):
        """Note a look; `observed_at` is when the look before it was made."""
        writers = ownership.Writers(owner_uid=UID, attempts=self.attempts, observed_at=observed_at)
        changes = progress.merge_scan(self._recorded, scan, writers, scan.scanned_at)
        if not changes.is_empty:
            self._merge(changes)

    def conclude(self, scan: Scan, directory: Directory):
        """Note what follows from a look: what attempts resumed from, and what those that are over have lost."""
        if self._is_new:
            self._note_resumes(scan)
            self._is_new = False
        self._note_losses(scan, directory)

    def _merge(self, changes):
        self._is_new = True
        every, self._reaches = _merge_records(self._recorded, changes), None
        self.checkpoints = _newest(every)
        self._recorded = (
            *(each for each in every[:-KEPT_CHECKPOINTS] if each.deleted_at is None),
            *every[-KEPT_CHECKPOINTS:],
        )
        for record in (*changes.appeared, *changes.changed):
            for saved in list_saved([record]):
                self._saved[record.first_seen_at, record.checkpoint.path] = saved
        for record in (*changes.appeared, *changes.changed, *changes.gone):
            self._records[record.first_seen_at, record.checkpoint.path] = record

    def _note_resumes(self, scan):
        """Infer what attempts resumed from, until they have saved enough or were looked at after their end."""
        pending = [each for each in self.attempts if (each.job, each.restart_count) not in self._sure]
        if not pending:
            return
        states = self._list_states()
        for attempt in pending:
            name = (attempt.job, attempt.restart_count)
            found = find_resume(attempt, self.attempts, states, is_read=scan.scanned_at >= attempt.started_at)
            if found != attempt.resumed_from:
                self._by_name[name] = replace(attempt, resumed_from=found)
            is_over = attempt.ended_at is not None and scan.scanned_at >= attempt.ended_at
            if is_over or len(list_own_states(attempt, self.attempts, states)) >= SURE_COUNT:
                self._sure.add(name)
        self.attempts = tuple(sorted(self._by_name.values(), key=lambda each: each.started_at))

    def _list_states(self):
        return date_by_original(
            SavedState(
                path=str(record.checkpoint.path),
                completed_at=record.completed_at,
                deleted_at=record.deleted_at,
                step=record.checkpoint.step,
                attempt=record.attempt,
                is_state=record.checkpoint.role is Role.STATE,
            )
            for record in self._records.values()
            if record.completed_at is not None
        )

    def _note_losses(self, scan, directory):
        """Note what attempts have lost, once a look was made after their end."""
        over = [
            each
            for name, each in self._by_name.items()
            if name not in self._losses and each.ended_at is not None and scan.scanned_at >= each.ended_at
        ]
        if not over:
            return
        saves = lost_work.list_saves(self._records.values())
        for attempt in over:
            followed_at = min((e.started_at for e in self.attempts if e.started_at > attempt.started_at), default=None)
            read_at = directory.last_read_at((followed_at - BEGINNING).total_seconds()) if followed_at else None
            self._losses[attempt.job, attempt.restart_count] = lost_work.measure_loss(
                attempt, saves, is_located=True, is_followed=followed_at is not None, read_at=read_at
            )

    def measure_lost(self) -> dict:
        """Return the seconds that each attempt lost, unsaved and redone at least and at most, by job and restart."""
        redone = redone_work.measure_redone(self.attempts, {name: each.saved_at for name, each in self._losses.items()})
        return {
            (job.job_id, count): (
                loss.lost.total_seconds(),
                None if redone[job, count].low is None else redone[job, count].low.total_seconds(),
                None if redone[job, count].high is None else redone[job, count].high.total_seconds(),
            )
            for (job, count), loss in self._losses.items()
        }


def _merge_records(recorded, changes):
    replaced = {(each.checkpoint.path, each.first_seen_at): each for each in (*changes.changed, *changes.gone)}
    kept = [replaced.get((each.checkpoint.path, each.first_seen_at), each) for each in recorded]
    return (*kept, *changes.appeared)


def _newest(every):
    """Return the newest ones, the newest states, and the furthest of each, however old."""
    states = [each for each in every if each.checkpoint.role is Role.STATE]
    kept = [every[-KEPT_CHECKPOINTS:], states[-KEPT_CHECKPOINTS:]]
    kept += [[max(some, key=lambda record: record.checkpoint.step)] for some in (every, states) if some]
    wanted = {id(record) for some in kept for record in some}
    return tuple(record for record in every if id(record) in wanted)
