"""Copies of a run's checkpoints in a second location: as its user's script makes them, and what looks at it show."""

from dataclasses import replace
from random import Random

from ckptd.core.model import CopyLocation, Scan
from simulation import directory
from simulation.directory import Directory
from simulation.record import Record
from simulation.run_truth import HOUR, MINUTE, Run, Write

SHARE = 0.25  # of the runs that name where they save
STOP = 0.4  # of these, whose copies stop one day
KEPT = 5
KINDS = {"healthy", "samples", "slow-saves", "broken-resume", "older-file"}


def plan_copies(run: Run) -> None:
    """Let some runs copy their checkpoints, by a random sequence of its own, which leaves the world as it is."""
    chance = Random(str(run.start))
    if run.kind not in KINDS or run.located_by != "comment" or chance.random() > SHARE:
        return
    if chance.random() < 0.5:
        run.copy_period = chance.uniform(0.5, 4) * HOUR
    if chance.random() < STOP:
        run.copies_stop_at = chance.uniform(run.start, run.end)
    keeps_dates = chance.random() < 0.5
    for write in run.saves:
        begin = _copied_at(run, write, chance)
        if not write.is_whole or begin is None or begin >= min(write.gone, run.copies_stop_at):
            continue
        end = begin + min(write.end - write.begin, MINUTE)
        modified = write.end if keeps_dates else None
        run.copies.append(replace(write, begin=begin, end=end, modified=modified, gone=float("inf"), corrupt_from=None))
    run.copies.sort(key=lambda copy: copy.end)
    for old, new in zip(run.copies, run.copies[KEPT:], strict=False):
        old.gone = new.end


def _copied_at(run: Run, write: Write, chance: Random) -> float | None:
    """Return when a save is copied; None if the job does not run then."""
    if run.copy_period is None:
        return write.end + chance.uniform(1, 20)
    due = run.start + ((write.end - run.start) // run.copy_period + 1) * run.copy_period
    return due if any(each.start <= due < each.end for each in run.executions) else None


class SecondLocation:
    """What is known of the second location of one run."""

    def __init__(self, run: Run):
        self._run = replace(run, number=f"copies-{run.number}", writes=run.copies, free_drops_at=None, unreadable=None)
        self._directory = Directory(self._run)
        self._record = Record()
        self._scan = self._looked_at = None

    def look(self, now: float) -> None:
        before, self._scan = self._scan, self._directory.look(now)
        if not isinstance(before, Scan) or not directory.is_same(before, self._scan):
            self._record.note_scan(self._scan, self._looked_at)
        self._looked_at = self._scan.scanned_at

    def list_turns(self) -> set[int]:
        return directory.list_turns(self._run)

    @property
    def known(self) -> CopyLocation:
        name = self._directory.key.directory
        return CopyLocation(directory=name, scan=self._scan, checkpoints=self._record.checkpoints)
