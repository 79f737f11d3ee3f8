"""One daemon's decisions about a few runs, step by step, to compare two ways of making them."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import PurePosixPath

from ckptd.core import health
from ckptd.core.model import CheckpointState, Finding, Level, RunKey, Scan, Severity
from ckptd.core.model.records import LocationRecord
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.steps import decide, declared_locations, poll, record_scans
from ckptd.steps.decision_slice import DecisionSlice
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import begin
from ckptd.store import prune_records
from ckptd.store.fresh_checkpoints import FreshCheckpoints
from support.checkpoints import make_checkpoint
from support.migrated import open_record
from support.parts import make_parts
from support.queue_facts import CLUSTER, at, look, make_job

FILE_NUMBERS = count()


class Counted:
    """A rule, and how often it was asked."""

    name = "not-requeueable"

    def __init__(self):
        self.asked = []

    def evaluate(self, history, now):
        self.asked.append(history.key)
        return ()


class Always:
    """A rule that flags every run, by the name of any rule."""

    def __init__(self, name="not-requeueable"):
        self.name = name
        self.asked = []

    def evaluate(self, history, now):
        self.asked.append(history.key)
        return (Finding(rule=self.name, severity=Severity.INFO, run=history.key, job_id=None, user="eve", evidence={}),)


class Deciding:
    """One daemon; `forgets` lets it decide about all runs each time, and others do after so many minutes."""

    def __init__(self, path, *, forgets, rules=None, compared_after=1):
        self.forgets = forgets
        self.store = open_record(f"sqlite:///{path}/{next(FILE_NUMBERS)}.db")
        every = tuple(rule() for name, rule in health.RULES.items() if name not in {"volatile-path", "too-sparse"})
        self.parts = make_parts(
            CLUSTER,
            None,
            self.store,
            rules=rules or every,
            poll_interval=timedelta(minutes=compared_after),
            scan_interval=timedelta(minutes=5),
            max_poll_age=timedelta(minutes=10),
            min_job_duration=timedelta(minutes=10),
        )
        self.state = begin(self.parts, at(0))

    def poll(self, minute, jobs):
        poll.record_queue(self.parts, self.state, look(minute, *jobs), (), at(minute))

    def locate(self, minute, job_id, directory=None):
        known = self.state.latest(PolledQueue).tracked.get(job_id)
        if known is None or known.run.is_located:
            return
        where = LocationRecord(
            jobs=(known.key,),
            run=RunKey(CLUSTER, known.job.uid, directory or f"/scratch/{job_id}"),
            user=known.job.user,
            located_by="comment",
            user_settings={},
            settings_directory="/scratch",
        )
        watched = self.state.watchlist.get(known.run)
        declared_locations.record_moves(self.parts, self.state, [(watched, where)], at(minute))

    def scan(self, minute, job_id, checkpoints, free_bytes, meanwhile=None):
        """Record a scan as the daemon does; `meanwhile` is called while the directory is scanned."""
        watched = self.state.watchlist.get(RunKey(CLUSTER, make_job(job_id).uid, f"/scratch/{job_id}"))
        if watched is None:
            return
        before = record_scans._read_record(self.parts, self.state, [watched])
        if meanwhile is not None:
            meanwhile()
        seen = self.find(minute, before, watched, checkpoints, free_bytes)
        record_scans._record(self.parts, self.state, [(watched, seen)], before, at(minute))

    def find(self, minute, before, watched, checkpoints, free_bytes):
        """Return what a scan finds of a directory, given what is on record of it."""
        on_record = [each.checkpoint for each in before.known[watched.key].recorded]
        here, known = set(map(_name, checkpoints)), set(map(_name, on_record))
        return Scan(
            directory=PurePosixPath(watched.key.directory),
            scanned_at=at(minute),
            checkpoints=tuple(each for each in checkpoints if _name(each) not in known),
            unchanged=tuple(number for number, each in enumerate(on_record) if _name(each) in here),
            free_bytes=free_bytes,
            total_bytes=10**9,
            filesystem_type="lustre",
            fingerprint=make_fingerprint(checkpoints),
        )

    def change(self, minute, job_id, kind):
        """Change the newest checkpoint of a run as other processes do: pin, verify, or move to the trash.

        The next decision compares all runs, as one does after each poll.
        """
        run = RunKey(CLUSTER, make_job(job_id).uid, f"/scratch/{job_id}")
        there = self.store.checkpoints.read_present([run]).get(run, ())
        if not there:
            return
        if (memory := self.state.find(DecisionSlice)) is not None:
            memory.compared_at = None
        newest = there[-1]
        path = str(newest.checkpoint.path)
        if kind == "pin":
            self.store.checkpoints.set_pinned(run, path, is_pinned=not newest.is_pinned)
        elif kind == "verify":
            verified = replace(newest.checkpoint, state=CheckpointState.DAMAGED, level=Level.FULL, reason="verified")
            self.store.checkpoints.record_changes(
                run, CheckpointChanges(changed=(replace(newest, checkpoint=verified),))
            )
        else:
            with self.store.database.writing() as connection:
                prune_records._mark_pruned(connection, run, path, newest.first_seen_at, at(minute))

    def decide(self, minute):
        if self.forgets:
            self.state.slices.pop(DecisionSlice, None)
            self.store.histories.fresh = FreshCheckpoints()
        decide.decide(self.parts, self.state, at(minute))

    def list_outdated(self):
        """Return the runs whose checkpoints in memory are others than those that the database has at their revision."""
        known = self.state.find(DecisionSlice).evaluated.by_run
        fresh, self.store.histories.fresh = self.store.histories.fresh, FreshCheckpoints()
        found = self.store.histories.read_changed(dict.fromkeys(known)).records
        self.store.histories.fresh = fresh
        return [
            key
            for key, read in found.items()
            if read.revision == known[key].revision
            and summarise(read.record) != summarise(known[key].own_record or known[key].history)
        ]

    def flags(self):
        """What people and notices see of the flags, without figures that count the time on."""
        return sorted(
            (
                str(each.finding.run),
                each.finding.rule,
                str(each.finding.job_id),
                each.finding.severity,
                each.opened_at,
                str(each.worsened_at),
                str(each.resolved_at),
                str(sorted((k, v) for k, v in each.finding.evidence.items() if not isinstance(v, int | float))),
            )
            for each in self.store.flags.read(CLUSTER, include_resolved=True)
        )


def _name(checkpoint):
    """Return what makes a checkpoint another one than that on record."""
    return checkpoint.path, checkpoint.identities, checkpoint.state, checkpoint.level, checkpoint.role


def summarise(record):
    """What a record says of checkpoints, those of equal age in any order."""
    checkpoints = sorted(map(repr, record.checkpoints))
    return checkpoints, record.attempts, record.is_truncated, record.totals, record.reaches, record.summed


def make_fingerprint(checkpoints):
    """Make what a scan has of its files once none of them is being written."""
    if any(each.state is CheckpointState.WRITING for each in checkpoints):
        return None
    return str([(str(each.path), each.state) for each in checkpoints])


def files(job_id, minute, gap, newest_state):
    numbers = range(1, int(minute) // gap + 1)
    return tuple(
        make_checkpoint(
            f"/scratch/{job_id}/step-{number}.pt",
            at(number * gap),
            inode=job_id * 1000 + number,
            size_bytes=1000,
            step=number,
            state=newest_state if number == numbers[-1] else CheckpointState.COMPLETE,
        )
        for number in numbers
    )
