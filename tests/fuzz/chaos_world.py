"""The cluster of the chaos run: jobs that train, save, end and come back, and the truth about each of their attempts.

Its minutes are the true time. What ckptd sees of it passes through `Slurm`, which can be away, empty or without
accounting, and through the file system, where a directory can be missing, closed or full.
"""

import os
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import PurePosixPath

import numpy as np

from ckptd.core.model import EndedAttempt, Job, JobState, PastJob, PastJobs, QueueSnapshot, Unknown
from ckptd.slurm.failure_reasons import FailureReason
from support.prune_facts import CLUSTER, MINUTE, UID, own

REMEMBERED = 5  # minutes for which the queue shows a job that has ended: MinJobAge
REQUEUE_DELAY = 3  # minutes
DOWN = Unknown(what="queue", reason=f"{FailureReason.DOWN}: Unable to contact slurm controller")
NO_ACCOUNTING = Unknown(what="accounting", reason=f"{FailureReason.DOWN}: slurmdbd does not answer")


@dataclass
class Execution:
    """One attempt and what is true of it. The end is None while it runs."""

    job_id: int
    restart_count: int
    submitted_at: int
    started_at: int
    ended_at: int | None = None
    state: JobState = JobState.RUNNING
    saved_at: int | None = None  # its newest complete checkpoint
    is_seen: bool = False  # by a poll that succeeded
    is_hidden: bool = False  # its checkpoints: for some time an empty directory was in their place

    @property
    def unsaved(self):
        """The minutes of work that its end took."""
        return self.ended_at - (self.started_at if self.saved_at is None else self.saved_at)


@dataclass
class Training:
    """A run: one job after another, all in one directory. Without an interval it never saves."""

    number: int
    directory: object
    interval: int | None
    limit: int
    executions: list = field(default_factory=list)
    complete: list = field(default_factory=list)  # names of checkpoints, oldest first
    epoch: int = 0
    next_save: int = 0
    next_start: int = 0
    ends: int = 0  # when and how its execution will end
    fate: JobState = JobState.TIMEOUT
    is_reachable: bool = True  # its directory is there and open
    is_replaced: bool = False  # by an empty directory, as where a file system is not mounted

    @property
    def running(self):
        last = self.executions[-1] if self.executions else None
        return last if last is not None and last.ended_at is None else None

    @property
    def is_queued(self):
        """Whether its job runs, or waits after a requeue."""
        last = self.executions[-1] if self.executions else None
        return last is not None and (last.ended_at is None or last.state is JobState.NODE_FAIL)


class World:
    """All trainings. `advance` plays one minute."""

    def __init__(self, root, begin, seed, count=6):
        self.root, self.begin, self.seed = root, begin, seed
        self.minute = 0
        self.is_full = False  # the disk: what is saved is cut short
        self._next_job = 1
        self.trainings = []
        for number in range(count):
            directory = root / f"home/run{number}"
            directory.mkdir(parents=True)
            own(directory)
            interval = None if number == 0 else seed.randint(8, 25)
            self.trainings.append(Training(number, directory, interval, seed.randint(120, 360)))
        own(root / "home")

    def at(self, minute):
        return self.begin + minute * MINUTE

    def advance(self):
        self.minute += 1
        for each in self.trainings:
            if each.running is None:
                self._start(each)
            elif self.minute >= each.ends:
                self._end(each)
            elif each.interval and self.minute >= each.next_save:
                self._save(each)

    def _start(self, training):
        if self.minute < training.next_start:
            return
        last = training.executions[-1] if training.executions else None
        is_requeued = last is not None and last.state is JobState.NODE_FAIL
        job_id = last.job_id if is_requeued else self._next_job
        self._next_job += not is_requeued
        submitted_at = last.ended_at if is_requeued else self.minute - 1  # a requeue submits it again
        started = Execution(job_id, last.restart_count + 1 if is_requeued else 0, submitted_at, self.minute)
        started.is_hidden = training.is_replaced
        training.executions.append(started)
        training.fate = self.seed.choice([JobState.TIMEOUT, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.FAILED])
        length = training.limit if training.fate is JobState.TIMEOUT else self.seed.randint(20, training.limit - 5)
        training.ends = self.minute + length
        training.next_save = self.minute + (training.interval or 0)

    def _end(self, training):
        execution = training.running
        execution.ended_at, execution.state = self.minute, training.fate
        is_requeued = training.fate is JobState.NODE_FAIL
        training.next_start = self.minute + (REQUEUE_DELAY if is_requeued else self.seed.randint(10, 90))

    def _save(self, training):
        training.next_save = self.minute + training.interval
        if not training.is_reachable:
            return
        training.epoch += 1
        path = training.directory / f"epoch_{training.epoch}.npz"
        with path.open("wb") as file:
            weights = np.arange(100.0)
            np.savez(file, **{"opt/mu": weights}, weights=weights, epoch=training.epoch)
        if self.is_full:
            os.truncate(path, 300)
        else:
            training.complete.append(path.name)
            training.running.saved_at = self.minute
        own(path)
        os.utime(path, (self.at(self.minute).timestamp(),) * 2)

    def list_jobs(self):
        """Yield what the queue shows now: jobs that run, that wait after a requeue, and that ended a moment ago."""
        for training in self.trainings:
            last = training.executions[-1] if training.executions else None
            if last is None:
                continue
            if last.ended_at is None or self.minute - last.ended_at <= REMEMBERED:
                yield self._describe(training, last)

    def _describe(self, training, execution):
        submitted, started = self.at(execution.submitted_at), self.at(execution.started_at)
        limit = training.limit * MINUTE
        ends_at = started + limit if execution.ended_at is None else self.at(execution.ended_at)
        state, restart_count = execution.state, execution.restart_count
        left = max(ends_at - self.at(self.minute), timedelta(0)) if state is JobState.RUNNING else None
        if state is JobState.NODE_FAIL:  # Slurm has submitted it again at once, and says when it expects it to run
            state, restart_count, left = JobState.PENDING, restart_count + 1, limit
            submitted, started = ends_at, ends_at + REQUEUE_DELAY * MINUTE
            ends_at = started + limit
        return Job(
            cluster=CLUSTER,
            job_id=execution.job_id,
            user="alice",
            uid=UID,
            name=f"train{training.number}",
            state=state,
            restart_count=restart_count,
            submitted_at=submitted,
            started_at=started,
            ends_at=ends_at,
            time_limit=limit,
            time_left=left,
            node_list="" if state is JobState.PENDING else "n1",
            node_count=1,
            work_dir=PurePosixPath(training.directory.parent),
            comment=f"ckpt={training.directory.name}",
        )

    def list_ended(self):
        for training in self.trainings:
            for each in training.executions:
                if each.ended_at is not None:
                    yield training, each


class Slurm:
    """The job source: the world's queue and accounting, unless they are away."""

    name = "chaos"

    def __init__(self, world):
        self.world = world
        self.is_down = self.is_empty = self.is_without_accounting = False

    def read_queue(self, now):
        if self.is_down:
            return DOWN
        jobs = () if self.is_empty else tuple(self.world.list_jobs())
        if not self.is_empty:
            for training in self.world.trainings:
                if training.running:
                    training.running.is_seen = True
        return QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=jobs)

    def read_ended(self, job_ids, since):
        if self.is_without_accounting:
            return NO_ACCOUNTING
        at = self.world.at
        return tuple(
            EndedAttempt(e.job_id, at(e.submitted_at), at(e.started_at), at(e.ended_at), e.state, "n1", 1, 1, 0)
            for _, e in self.world.list_ended()
            if e.job_id in job_ids
        )

    def read_past(self, since, until):
        if self.is_without_accounting:
            return NO_ACCOUNTING
        found = []
        for training, each in self.world.list_ended():
            if since <= self.world.at(each.ended_at) <= until:
                job = self.world._describe(training, replace(each, state=JobState.TIMEOUT))
                found.append(PastJob(job=replace(job, state=each.state), restart_count=each.restart_count))
        return PastJobs(tuple(found), until)

    def read_batch_script(self, job, *, is_urgent=False):
        return Unknown(what="batch script", reason="not asked")

    def read_mail_user(self, job):
        return None

    def read_maintenance(self):
        return ()

    def read_clock(self):
        return DOWN if self.is_down else self.world.at(self.world.minute)

    def is_answering(self):
        return not self.is_down
