"""A training over weeks, and a daemon that watches and prunes it, in pure code: what is true beside what is on record.

The training saves, rotates its own files, is killed at any moment, restarts from what it finds or afresh. The daemon
polls, looks and prunes at random times, is away for hours, and is killed between two removals.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from random import Random

from ckptd.core import retention
from ckptd.core.model import (
    Attempt,
    CheckpointState,
    FileIdentity,
    Grouping,
    Job,
    JobKey,
    JobState,
    RecordedCheckpoint,
    RestartKind,
    Role,
    RunKey,
    Scan,
)
from ckptd.core.runs import ownership, progress
from ckptd.core.runs.resumed_from import find_resume
from support.checkpoints import make_checkpoint
from support.resume_facts import list_states
from support.run_builder import make_record

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DIRECTORY = PurePosixPath("/scratch/alice/run")
RUN = RunKey("c", 1000, str(DIRECTORY))
LOADING = 8  # minutes in which a restart reads what it resumes from


def at(minutes):
    return BEGIN + timedelta(minutes=minutes)


@dataclass
class File:
    """A file as it is. `saved_by`: the attempt and save number; None: somebody else's."""

    inode: int
    written: float
    is_whole: bool
    step: int
    saved_by: tuple[int, int] | None


@dataclass
class Habits:
    """How a framework goes about it."""

    parts: tuple[str, ...] = ("step",)
    rotates_to: int | None = None
    remembers: bool = True  # after a restart its rotation knows what it wrote before
    resumes_by_step: bool = True  # else by time
    writes_in_place: bool = False


@dataclass
class Training:
    """The job and the disk, by the minute."""

    random: Random
    habits: Habits
    disk: dict[str, File] = field(default_factory=dict)
    attempts: list[list[float | None]] = field(default_factory=list)  # begin and end
    now: float = 0.0
    step: int = 0
    save_count: int = 0
    inode_count: int = 0
    kept: list[int] = field(default_factory=list)  # steps that its rotation knows of
    writing: list[str] = field(default_factory=list)  # parts of the save that is going on
    loading: int | None = None
    due: float = 0.0  # the next thing that happens
    ends: float = 0.0
    lost: list[str] = field(default_factory=list)

    @property
    def is_running(self):
        return bool(self.attempts) and self.attempts[-1][1] is None

    def advance(self, minutes):
        until = self.now + minutes
        while self.due <= until:
            self.now = self.due
            self._happen()
        self.now = until

    def _happen(self):
        if not self.is_running:
            self._start()
        elif self.now >= self.ends:
            self.attempts[-1][1] = self.now
            self.writing.clear()
            self.due = self.now + self.random.choice([1, 5, 60, 60 * 24])
            return
        elif self.writing:
            self._end_part()
        elif self.random.random() < 0.02:
            self.step = max(0, self.step - 200)  # it goes back to an older state of itself
            self.due = self.now + 10
        else:
            self._begin_save()
        self.due = min(self.due, self.ends)

    def _start(self):
        self.attempts.append([self.now, None])
        self.ends = self.now + self.random.choice([20, 90, 60 * 7, 60 * 23])
        whole = self.whole_steps()
        is_fresh = self.random.random() < 0.1
        self.loading = None
        self.step = 0
        if whole and not is_fresh:
            by_time = max(whole, key=self.written)
            self.loading = self.step = max(whole) if self.habits.resumes_by_step else by_time
        self.kept = sorted(whole) if self.habits.remembers and not is_fresh else []
        self.due = self.now + LOADING + self.random.uniform(1, 60)

    def _begin_save(self):
        self.step += 100
        self.save_count += 1
        self.writing = [self.name(part, self.step) for part in self.habits.parts]
        self._begin_part()

    def _begin_part(self):
        name = self.writing[0]
        old = self.disk.get(name)
        self.inode_count += 1
        inode = old.inode if old and self.habits.writes_in_place else self.inode_count
        by = (len(self.attempts) - 1, self.save_count)
        self.disk[name] = File(inode, self.now, False, self.step, by)
        self.due = self.now + self.random.uniform(0.1, 8)

    def _end_part(self):
        name = self.writing.pop(0)
        if name in self.disk:
            self.disk[name].is_whole, self.disk[name].written = True, self.now
        if self.writing:
            self._begin_part()
            return
        self.kept = [step for step in self.kept if step != self.step] + [self.step]
        self._rotate()
        self.due = self.now + self.random.uniform(5, 120)

    def _rotate(self):
        while self.habits.rotates_to and len(self.kept) > self.habits.rotates_to:
            step = self.kept.pop(0)
            for part in self.habits.parts:
                self.disk.pop(self.name(part, step), None)

    @staticmethod
    def name(part, step):
        return f"{part}_{step}.pt"

    def whole_steps(self):
        """The steps of which every part is there and whole, of one save."""
        steps = {file.step for file in self.disk.values() if file.saved_by}
        return {step for step in steps if self.is_whole(step)}

    def is_whole(self, step):
        files = [self.disk.get(self.name(part, step)) for part in self.habits.parts]
        return (
            all(file and file.is_whole and file.saved_by for file in files)
            and len({file.saved_by for file in files}) == 1
        )

    def written(self, step):
        return max(self.disk[self.name(part, step)].written for part in self.habits.parts)

    def needed(self, polled):
        """The steps that must not be lost now: the last written, the furthest of its last attempt, what is loaded.

        What is loaded only by an attempt that the queue had shown when it was last read, at minute `polled`.
        """
        whole = self.whole_steps()
        if not whole:
            return set()
        newest = max(whole, key=self.written)
        is_loading = self.is_running and self.attempts[-1][0] <= polled and self.now < self.attempts[-1][0] + LOADING
        loading = {self.loading} & whole if is_loading else set()
        attempt = max(self.disk[self.name(self.habits.parts[0], step)].saved_by[0] for step in whole)
        of_last = {s for s in whole if self.disk[self.name(self.habits.parts[0], s)].saved_by[0] == attempt}
        return {newest, max(of_last)} | loading


@dataclass
class Daemon:
    """What ckptd knows of the training, and what it does."""

    training: Training
    policy: retention.Policy
    attempts: dict[int, Attempt] = field(default_factory=dict)
    recorded: list[RecordedCheckpoint] = field(default_factory=list)
    polled_at: datetime | None = None
    polled_since: datetime | None = None
    scan: Scan | None = None
    watched_at: datetime | None = None
    removed: list[str] = field(default_factory=list)

    def poll(self):
        now = at(self.training.now)
        if not (self.polled_since and ownership.is_poll_continued(self.polled_at, now)):
            self.polled_since = now
        self.polled_at = now
        states = list_states(self.recorded)
        for number, (begin, end) in enumerate(self.training.attempts):
            known = self.attempts.get(number)
            if known is not None and known.ended_at is not None:
                continue  # the record does not change any more, and what it resumed from keeps nothing
            found = self._attempt(number, begin, end)
            if known is None:
                found = replace(found, first_seen_at=now)
            else:
                found = replace(found, first_seen_at=known.first_seen_at)
            resume = find_resume(found, [*self.attempts.values(), found], states)
            found = replace(found, resumed_from=resume)
            self.attempts[number] = found
        if not self.training.is_running:
            self.watched_at = None

    def _attempt(self, number, begin, end):
        job = JobKey("c", number // 3, BEGIN)  # every third is a new job, the others are requeues
        return Attempt(
            job=job,
            restart_count=number % 3,
            kind=RestartKind.REQUEUE if number else None,
            state=JobState.RUNNING if end is None else JobState.TIMEOUT,
            first_seen_at=at(begin),
            started_at=at(begin),
            ended_at=None if end is None else at(end),
        )

    def look(self):
        now = at(self.training.now)
        sets = defaultdict(dict)
        for name, file in self.training.disk.items():
            sets[int(re.search(r"\d+", name)[0])][name] = file
        found = [self._see(number, files) for number, files in sorted(sets.items())]
        scan = Scan(directory=DIRECTORY, scanned_at=now, checkpoints=tuple(found))
        known = ownership.PreviousScan(
            attempts=tuple(self.attempts.values()),
            scanned_at=self.scan and self.scan.scanned_at,
            is_whole=self.scan is not None,
            polled_at=self.polled_at,
            polled_since=self.polled_since,
        )
        writers = ownership.find_writers(RUN, known, self.watched_at, now)
        changes = progress.merge_scan(self.recorded, scan, writers, now)
        new = {(each.checkpoint.path, each.first_seen_at): each for each in (*changes.gone, *changes.changed)}
        self.recorded = [new.get((each.checkpoint.path, each.first_seen_at), each) for each in self.recorded]
        self.recorded += changes.appeared
        self.scan, self.watched_at = scan, now

    def _see(self, number, files):
        """Return the checkpoint of which these are the members, as a scan shows it."""
        names = tuple(sorted(files))
        written = max(file.written for file in files.values())
        is_open = any(name in self.training.writing[:1] for name in names) or self.training.now - written < 1
        is_whole = all(file.is_whole for file in files.values()) and len(names) == len(self.training.habits.parts)
        broken = CheckpointState.WRITING if is_open else CheckpointState.DAMAGED
        return make_checkpoint(
            DIRECTORY / names[0],
            at(written),
            files=names,
            identities=tuple(_identify(files[name]) for name in names),
            size_bytes=100 * len(names),
            state=CheckpointState.COMPLETE if is_whole else broken,
            step=max(file.step for file in files.values()),
            role=Role.STATE,
            grouping=Grouping(series="#.pt", progress=(number,), has_progress_word=True),
        )

    def prune(self, stop_after):
        """Look, plan, remove the oldest first, and be killed after so many checkpoints; return the plan."""
        self.look()
        training = self.training
        jobs = ()
        if training.is_running and self.attempts and max(self.attempts.values(), key=_start).ended_at is None:
            left = timedelta(minutes=training.ends - training.now)
            number = (len(self.attempts) - 1) // 3
            jobs = (Job(cluster="c", job_id=number, user="alice", uid=1000, state=JobState.RUNNING, time_left=left),)
        history = make_record(
            RUN,
            jobs=jobs,
            attempts=tuple(sorted(self.attempts.values(), key=_start)),
            checkpoints=tuple(self.recorded),
            polled_at=self.polled_at,
            scan=self.scan,
        )
        made = retention.plan_run(history, self.policy, at(training.now))
        going = made.remove[:stop_after]
        gone = [decision.path for decision in going]
        for name in (name for decision in going for name in decision.record.checkpoint.files):
            del training.disk[name]
        self.recorded = [
            replace(each, pruned_at=at(training.now), deleted_at=at(training.now))
            if str(each.checkpoint.path) in gone and each.deleted_at is None
            else each
            for each in self.recorded
        ]
        self.removed += gone
        return made


def _identify(file):
    written_ns = int(at(file.written).timestamp() * 1e6) * 1000 + file.is_whole
    return FileIdentity(1, file.inode, 100, written_ns, written_ns)


def _start(attempt):
    return attempt.started_at
