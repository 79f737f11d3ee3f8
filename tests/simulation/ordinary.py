"""Jobs that never meant to checkpoint: on most clusters they are the majority.

Studies of clusters (Helios, SC '21; Philly, ATC '19; MIT Supercloud, HPCA '22) agree on the shape that is made up here:
most jobs are over within minutes, a few long ones take most of the time, users ask for far longer limits than they
need, and many jobs are cancelled or fail. The shares of the kinds, and what is in the directories, are assumptions.
"""

from itertools import count
from random import Random

from ckptd.core.model import JobState, Role
from simulation.run_truth import DAY, HOUR, MINUTE, Execution, Run, Write
from simulation.world import BREAKS, MEAN_BETWEEN_INTERRUPTIONS, make_world, note_interruptions

KINDS = {
    "short": (30, 4 * MINUTE, 1.0),  # kind: its share, how long its jobs run in the middle, and how that spreads
    "array-task": (22, 40 * MINUTE, 1.0),
    "logs": (16, 3 * HOUR, 1.0),
    "notebook": (10, 2 * HOUR, 0.8),
    "outputs": (14, 6 * HOUR, 0.8),
    "best-weights": (5, 6 * HOUR, 0.8),
    "array-outputs": (3, 1 * HOUR, 0.8),
    "elsewhere": (2, 4 * HOUR, 0.5),  # it checkpoints where nobody can see it, and requeues itself near its limit
}
LIMITS = [1 * HOUR, 4 * HOUR, 12 * HOUR, 24 * HOUR, 24 * HOUR, 48 * HOUR]
ENDS = {  # of a job that nothing breaks off, of a hundred
    "notebook": {JobState.CANCELLED: 50, JobState.TIMEOUT: 40, JobState.COMPLETED: 10},
    "": {JobState.COMPLETED: 70, JobState.CANCELLED: 12, JobState.FAILED: 12, JobState.TIMEOUT: 6},
}
MEGABYTE = 10**6


def make_cluster(seed: int, *, run_count: int, ordinary_count: int, days: float) -> list[Run]:
    """Return a world of runs that checkpoint and of ordinary ones, in the order of their starts."""
    chance = Random(seed + 1_000_000)
    job_ids = count(20_000_000)
    runs = make_world(seed, run_count=run_count, days=days)
    runs += [
        _Maker(Random(chance.random()), run_count + place, job_ids, days).make() for place in range(ordinary_count)
    ]
    note_interruptions(runs)
    return sorted(runs, key=lambda run: run.start)


class _Maker:
    """Lives the life of one ordinary job, with its requeues."""

    def __init__(self, chance, number, job_ids, days):
        self.chance = chance
        self.job_ids = job_ids
        self.start = chance.uniform(0, days * 0.8) * DAY
        kind = chance.choices(list(KINDS), [share for share, *_ in KINDS.values()])[0]
        _, middle, spread = KINDS[kind]
        length = max(middle * chance.lognormvariate(0, spread), 20.0)
        fitting = [limit for limit in LIMITS if limit >= length] or LIMITS[-1:]
        interval = 20 * MINUTE * chance.lognormvariate(0, 0.7)
        self.run = Run(
            number=number,
            kind=kind,
            interval=interval,
            jitter=0.3,
            save_time=1.0,
            limit=chance.choice(fitting),
            node_count=chance.choice([1, 1, 1, 1, 2]),
            work=length,
            saves_at_limit=False,
            asked_lead=None,
            has_inotify=chance.random() < 0.5,
            is_in_place=chance.random() < 0.8,
            size=10 * MEGABYTE,
            located_by="discovery",
            is_ordinary=True,
        )
        self.array = next(job_ids) if kind in {"array-task", "array-outputs"} else None
        self.goes_on = chance.random() < 0.5  # it leaves out the parts whose output is there
        self.is_silent_after = chance.uniform(0.4, 1.2)  # of its work: the last stage writes nothing

    def make(self):
        run, chance = self.run, self.chance
        if run.kind == "array-outputs":
            for place in range(chance.randint(3, 8)):
                self.add_task(place)
            # the first one is so quick that a search finds the directory before the others begin
            run.executions.sort(key=lambda execution: execution.start)
            run.writes.sort(key=lambda write: write.begin)
            return run
        now, job_id, restart_count = self.start, next(self.job_ids), 0
        while len(run.executions) < 8:
            loaded = self.find_last_part(now)
            done = min(loaded.step * run.interval, run.work) if loaded else 0.0
            execution = self.execute(now, job_id, restart_count, done)
            execution.loaded = loaded
            if run.kind == "outputs":
                self.write_outputs(execution)
            elif run.kind == "best-weights":
                self.write_weights(execution)
            now = execution.end + chance.uniform(4, 20) * MINUTE
            is_ended_early = execution.state in {JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL}
            if execution.state is JobState.REQUEUED:
                restart_count += 1
            elif is_ended_early and run.writes and chance.random() < 0.5:
                job_id, restart_count = next(self.job_ids), 0
            else:
                break
        run.writes.sort(key=lambda write: write.begin)
        return run

    def find_last_part(self, now):
        """Return the last of the parts that need not be done again."""
        run = self.run
        if run.kind != "outputs" or not self.goes_on:
            return None
        there = [write for write in run.writes if write.is_whole and write.end <= now < write.gone]
        return max(there, key=lambda write: write.step, default=None)

    def execute(self, start, job_id, restart_count, done):
        run, chance = self.run, self.chance
        limit_end = start + run.limit
        ends = ENDS.get(run.kind, ENDS[""])
        state = chance.choices(list(ends), list(ends.values()))[0]
        end, told = start + max(run.work - done, MINUTE), None
        if state in {JobState.CANCELLED, JobState.FAILED}:
            end = start + chance.uniform(0.02, 1) * (end - start)
        if state is JobState.TIMEOUT or end > limit_end:
            end, state = limit_end, JobState.TIMEOUT
        broken_off = start + chance.expovariate(1 / MEAN_BETWEEN_INTERRUPTIONS)
        if broken_off < end:
            state, told, _ = chance.choices(list(BREAKS.values()), [weight for *_, weight in BREAKS.values()])[0]
            end = broken_off
        if run.kind == "elsewhere" and restart_count < 5:
            end, state, told = start + run.work, JobState.REQUEUED, None
        execution = Execution(job_id, restart_count, start, end, run.limit, limit_end, state)
        execution.told = told if state is JobState.REQUEUED else None
        execution.array_job_id, execution.done = self.array, done
        run.executions.append(execution)
        return execution

    def write_outputs(self, execution):
        """Write one data file for each part of the work, under the same names each time it begins anew."""
        run, chance = self.run, self.chance
        number = round(execution.done / run.interval)
        now = execution.start
        while execution.done + now - execution.start < self.is_silent_after * run.work:
            number += 1
            begin, now = now, now + run.interval * max(chance.gauss(1, run.jitter), 0.2)
            end = min(now, execution.end)
            if end - 5 <= begin:
                break
            is_whole = now <= execution.end
            if not is_whole and chance.random() < 0.7:
                break
            name = f"result-{number}.npz" if is_whole or run.is_in_place else f"result-{number}.tmp"
            self.write(name, end - 5, end, number, Role.DATA, is_whole=is_whole)
            if not is_whole:
                break

    def write_weights(self, execution):
        """Write the best model so far over the one before, each time later than the last time."""
        run, chance = self.run, self.chance
        now, gap = execution.start, run.interval / 3
        while True:
            gap *= chance.uniform(1.0, 1.5)
            now += gap * chance.lognormvariate(0, 0.5)
            if now + 5 > execution.end:
                break
            self.write("best_model.pt", now, now + 5, int((now - execution.start) / MINUTE), Role.WEIGHTS)

    def add_task(self, place):
        """Run one task of an array whose tasks write into one directory, each one file when it is done."""
        begin = self.start + (self.chance.uniform(15, 45) * MINUTE if place else 0)
        length = max(self.run.work * self.chance.uniform(0.5, 1.5), 5 * MINUTE) if place else 6 * MINUTE
        end = min(begin + length, begin + self.run.limit)
        job_id = next(self.job_ids)
        state = JobState.COMPLETED if end < begin + self.run.limit else JobState.TIMEOUT
        execution = Execution(job_id, 0, begin, end, self.run.limit, begin + self.run.limit, state)
        execution.array_job_id = self.array
        self.run.executions.append(execution)
        if state is JobState.COMPLETED:
            self.write(f"result-{place}.npz", end - 5, end - 1, place, Role.DATA)

    def write(self, name, begin, end, step, role, *, is_whole=True):
        run = self.run
        for old in run.writes:
            if old.name == name:
                old.gone = min(old.gone, begin)
        is_leftover = not is_whole and name.endswith("tmp")
        number = len(run.executions) - 1
        made = Write(name, begin, end, step, 10 * MEGABYTE, number, is_whole, is_leftover, role=role)
        run.writes.append(made)
