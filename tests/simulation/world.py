"""A simulated cluster whose truth is known: its runs, and what is wrong with each of them.

Everything is decided here, from a seed, before the first poll. Instants are seconds since the world began.
"""

from random import Random

from ckptd.core.model import JobState, Role
from simulation import copies
from simulation.run_truth import DAY, GIGABYTE, HOUR, MINUTE, Execution, Run, Write

KINDS = {
    "healthy": 62,
    "never-saves": 5,
    "broken-resume": 6,
    "wrong-path": 3,
    "repeats": 3,
    "older-file": 5,
    "samples": 10,
    "crash-loop": 4,
    "hangs": 5,
    "torn-saves": 6,
    "rots": 3,
    "shares": 4,
    "sparse": 3,
    "frequent": 2,
    "slow-saves": 5,
    "emptied": 4,
    "improving": 5,
    "preempted": 3,
    "parts": 5,
}
FRESH = {"broken-resume", "wrong-path", "repeats"}  # kinds that begin again from nothing, the last in the same files
# kinds whose first two executions are broken off in any case
BROKEN_OFF = FRESH | {"older-file", "emptied"}
MISSES = (
    0.7  # of the restarts of these kinds that load something else than the furthest one, or find an empty directory
)
SOON = 0.85  # of an interval, after which a job is preempted that is preempted more often than it saves
IMPROVES_LATER = 1.15  # by which each gap between two improvements is longer than the one before
SAMPLES_KEPT = 30
NEVER_DONE = {"crash-loop", "hangs", "preempted"}  # kinds whose goal is farther than they ever get
BREAKS = {  # what breaks an execution off: how its job ends, what accounting says of that, how often of a hundred
    "preemption": (JobState.REQUEUED, JobState.PREEMPTED, 45),
    "node failure": (JobState.REQUEUED, JobState.NODE_FAIL, 25),
    "node failure, not requeued": (JobState.NODE_FAIL, None, 10),
    "crash": (JobState.FAILED, None, 20),
}
GOES_ON = {JobState.TIMEOUT, JobState.FAILED, JobState.NODE_FAIL}  # ends after which its user submits another job
JITTERS = {0.005: 3, 0.01: 3, 0.02: 3, 0.05: 2, 0.1: 1}  # spread of the intervals: most jobs save by counted steps
MAINTENANCE = (2.5 * DAY, 7 * DAY, 4 * HOUR)  # the first, from one to the next, and how long each lasts
MEAN_BETWEEN_INTERRUPTIONS = 40 * HOUR


def make_world(seed: int, *, run_count: int, days: float) -> list[Run]:
    """Return runs that checkpoint, or should, beginning over the first part of the days, in the order of their starts.

    `ordinary.make_cluster` adds the jobs that never meant to.
    """
    chance = Random(seed)
    job_ids = iter(range(1000, 10_000_000))
    runs = [_Maker(Random(chance.random()), number, job_ids, days).make() for number in range(run_count)]
    note_interruptions(runs)
    return sorted(runs, key=lambda run: run.start)


def note_interruptions(runs: list[Run]) -> None:
    """Note for each run how long jobs of its size ran between two interruptions, as it came out."""
    for node_count in {run.node_count for run in runs}:
        alike = [run for run in runs if run.node_count == node_count]
        executions = [execution for run in alike for execution in run.executions]
        broken_off = sum(is_interrupted(execution) for execution in executions)
        ran = sum(execution.end - execution.start for execution in executions)
        for run in alike:
            run.mean_between_interruptions = ran / max(broken_off, 1)


def is_interrupted(execution: Execution) -> bool:
    """Whether neither the job nor its user broke it off, and nobody had said that it would be."""
    told = execution.told or execution.state
    return told in {JobState.PREEMPTED, JobState.NODE_FAIL} and not execution.is_for_maintenance


class _Maker:
    """Lives the life of one run."""

    def __init__(self, chance, number, job_ids, days):
        self.chance = chance
        self.job_ids = job_ids
        self.horizon = days * DAY
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        limit = chance.choice([4, 8, 12, 24, 24, 48]) * HOUR
        interval = min(chance.lognormvariate(0, 0.7) * 40 * MINUTE, limit / 3)
        interval = max(interval, 6 * MINUTE)
        share = chance.uniform(0.005, 0.06)
        if kind == "frequent":
            share = chance.uniform(0.15, 0.3)
        if kind == "sparse":
            interval, share = chance.uniform(0.2, 0.3) * limit, 0.001
        self.run = Run(
            number=number,
            kind=kind,
            interval=interval,
            jitter=chance.choices(list(JITTERS), list(JITTERS.values()))[0],
            save_time=max(interval * share, 2.0),
            limit=limit,
            node_count=chance.choice([1, 1, 1, 2, 4, 16]),
            work=limit * chance.uniform(0.3, 3.0),
            saves_at_limit=chance.random() < 0.2,
            asked_lead=None,
            has_inotify=chance.random() < 0.5,
            is_in_place=chance.random() < 0.3,
            size=int(chance.uniform(1, 50) * GIGABYTE),
        )
        if kind in NEVER_DONE:
            self.run.work *= 100
        if self.run.saves_at_limit and chance.random() < 0.6:
            self.run.user_settings["signal"] = "USR1"
        if "signal" not in self.run.user_settings:
            self.run.asked_lead = self.choose_lead(Random(number))
        if chance.random() < 0.15:
            self.run.user_settings["steps"] = int(self.run.work)
        if chance.random() < 0.3:
            first, gap, length = MAINTENANCE
            begins = [first + gap * number for number in range(int(self.horizon / gap) + 1)]
            self.run.maintenance = tuple((begin, begin + length) for begin in begins)
        self.run.states_goal = chance.random() < 0.3
        self.divide(Random(number))
        if kind == "samples":
            self.run.sample_interval = interval / chance.uniform(2, 12)
        if kind == "older-file":
            self.run.kept_count = 6

    def divide(self, chance):
        """Let runs of that kind work through folds in directories of their own, or a sweep in one directory."""
        if self.run.kind != "parts":
            return
        self.run.part_work = self.run.interval * chance.uniform(3, 9)
        self.run.part_name = chance.choice(["fold_{}/", "lr{}_"])
        self.run.states_goal = False
        self.run.user_settings.pop("steps", None)

    def choose_lead(self, chance):
        """Most that save at their limit ask Slurm for the signal; a few others do, too, and do not heed it."""
        share = 0.75 if self.run.saves_at_limit else 0.04
        return int(2 * MINUTE + 1.5 * self.run.save_time) if chance.random() < share else None

    def make(self):
        run, chance = self.run, self.chance
        now = self.after_maintenance(chance.uniform(0, self.horizon * 0.7))
        job_id, restart_count = next(self.job_ids), 0
        array = job_id if chance.random() < 0.3 else None
        while now < self.horizon and len(run.executions) < 12:
            loaded = self.resume(len(run.executions), now)
            done = float(loaded.step) if loaded else 0.0
            execution = self.execute(now, job_id, restart_count, done)
            execution.array_job_id, execution.done, execution.loaded = array, done, loaded
            now = self.after_maintenance(execution.end + chance.uniform(4, 20) * MINUTE)
            if execution.state is JobState.REQUEUED:
                restart_count += 1
            elif execution.state in GOES_ON and chance.random() < 0.85:
                job_id, restart_count = next(self.job_ids), 0
            else:
                break
        if run.kind == "shares":
            self.share()
        if chance.random() < 0.04:
            begin = chance.uniform(run.start, run.end)
            run.unreadable = (begin, begin + chance.uniform(0.5, 8) * HOUR)
        if chance.random() < 0.03:
            run.free_drops_at = chance.uniform(run.start, run.end)
        if run.kind == "rots":
            self.rot()
        if run.sample_interval:
            self.write_samples()
        first = run.executions[0]
        if any(write.is_whole and write.end < first.end - HOUR / 2 for write in run.saves) and chance.random() < 0.35:
            run.located_by = "discovery"
        copies.plan_copies(run)
        return run

    def after_maintenance(self, instant):
        """Return when a job starts that could have at an instant: not on nodes in maintenance."""
        for begin, end in self.run.maintenance:
            if begin <= instant < end:
                return end + self.chance.uniform(1, 20) * MINUTE
        return instant

    def resume(self, number, now):
        """Return what an execution loads."""
        run = self.run
        good = [write for write in run.writes if write.is_whole and write.end <= now < write.gone]
        if number > 0 and run.kind == "emptied" and self.chance.random() < MISSES:
            good = self.empty(run.executions[-1].end, now)
        if number == 0 or not good:
            return None
        if run.kind in FRESH and self.chance.random() < MISSES:
            run.broken_resumes.append(number)
            return None
        by_progress = sorted(good, key=lambda write: write.step)
        if run.kind == "older-file" and len(good) > 2 and self.chance.random() < MISSES:
            run.broken_resumes.append(number)
            return self.chance.choice(by_progress[:-2])
        return by_progress[-1]

    def empty(self, since, until):
        """Let a clean-up delete everything while no job of the run is there, and return what is left."""
        emptied_at = self.chance.uniform(since + 10, max(until - 10, since + 10))
        for write in self.run.writes:
            write.gone = min(write.gone, emptied_at)
        self.run.emptied_at.append(emptied_at)
        return []

    def execute(self, start, job_id, restart_count, done):
        run, chance = self.run, self.chance
        number = len(run.executions)
        limit_end = start + run.limit
        end, state = limit_end, JobState.TIMEOUT
        suspended = None
        if chance.random() < 0.04:
            begin = start + chance.uniform(0.2, 0.7) * run.limit
            suspended = (begin, begin + chance.uniform(0.5, 5) * HOUR)
            limit_end += suspended[1] - suspended[0]
            end = limit_end
        broken_off, broken_state, told = self.choose_break(start, number)
        if broken_off < end:
            end, state = broken_off, broken_state
        finished = start + (run.work - done) + (suspended[1] - suspended[0] if suspended else 0)
        if finished < end:
            end, state = max(finished, start + MINUTE), JobState.COMPLETED
        if chance.random() < 0.02 and end - start > HOUR:
            end, state = start + chance.uniform(0.2, 0.9) * (end - start), JobState.CANCELLED
        taken_down = next((begin for begin, _ in run.maintenance if start < begin < end), None)
        if taken_down is not None:
            end, state, told = taken_down + chance.uniform(0, 2 * MINUTE), JobState.REQUEUED, JobState.NODE_FAIL
        if suspended and suspended[1] >= end:
            suspended, limit_end = None, start + run.limit
            end = min(end, limit_end)
        execution = Execution(job_id, restart_count, start, end, run.limit, limit_end, state, suspended=suspended)
        execution.told = told if state is JobState.REQUEUED else None
        execution.is_for_maintenance = taken_down is not None
        run.executions.append(execution)
        if run.kind != "never-saves" and not (run.kind == "crash-loop" and number >= 1):
            self.save_all(number, execution, done)
        return execution

    def choose_break(self, start, number):
        """Return when an execution would be broken off, how its job ends then, and what accounting says of that."""
        run, chance = self.run, self.chance
        own = JobState.REQUEUED, None
        if run.kind == "crash-loop" and number >= 1:
            return start + chance.uniform(2, 15) * MINUTE, *own
        if run.kind == "preempted" and number >= 1:
            return start + chance.uniform(0.4, SOON) * run.interval, JobState.REQUEUED, JobState.PREEMPTED
        if run.kind in BROKEN_OFF and number < 2:
            return start + chance.uniform(0.3, 0.8) * run.limit, *own
        if run.kind == "never-saves" and number < 2:
            return start + chance.uniform(0.1, 0.9) * run.limit, *own
        state, told, _ = chance.choices(list(BREAKS.values()), [weight for *_, weight in BREAKS.values()])[0]
        return start + chance.expovariate(1 / MEAN_BETWEEN_INTERRUPTIONS), state, told

    def save_all(self, number, execution, done):
        run, chance = self.run, self.chance
        now = execution.start + chance.uniform(0.5, 5) * MINUTE
        hangs_after = chance.randint(5, 9) if run.kind == "hangs" else None
        is_warned = run.saves_at_limit and execution.state is JobState.TIMEOUT
        at_limit = execution.limit_end - 2 * MINUTE - 1.5 * run.save_time
        count = 0
        while True:
            gap = max(self.choose_gap(), run.save_time * 1.05)
            pause = execution.suspended
            if pause and now < pause[1] and now + gap > pause[0]:
                gap += pause[1] - max(pause[0], now)
            save_time = run.save_time
            if run.kind == "slow-saves" and chance.random() < 0.08:
                save_time = min(save_time * chance.uniform(4, 15), run.interval)
            completed = now + gap + save_time - run.save_time
            if completed - save_time > execution.end or (is_warned and completed - save_time > at_limit):
                break
            if execution.state is JobState.COMPLETED and completed > execution.end:
                break  # one that ends by itself ends with a save
            if hangs_after is not None and count >= hangs_after and run.hung_from is None:
                run.hung_from = now
                break
            self.write(number, completed - save_time, completed, execution, done)
            count += 1
            now = completed
        if is_warned and now < at_limit and run.hung_from is None:
            self.write(number, at_limit, at_limit + run.save_time, execution, done)
        if execution.state is JobState.COMPLETED:
            self.write(number, execution.end - 1, execution.end - 0.5, execution, done)

    def choose_gap(self):
        """Return the time between two saves."""
        run, chance = self.run, self.chance
        if run.kind != "improving":
            return run.interval * chance.gauss(1, run.jitter)
        count = min(len(run.writes), 12)
        return run.interval / 4 * IMPROVES_LATER**count * chance.lognormvariate(0, 0.4)

    def write(self, number, begin, completed, execution, done):
        run, chance = self.run, self.chance
        paused = execution.suspended[1] - execution.suspended[0] if execution.suspended else 0.0
        worked = begin - execution.start - (paused if execution.suspended and begin > execution.suspended[0] else 0)
        step = int(done + worked)
        if run.kind == "repeats":  # it saves at the same steps each time, however long they take
            step = max(round((done + worked) / run.interval), 1) * int(run.interval)
        is_truncated = completed > execution.end
        is_torn = run.kind == "torn-saves" and chance.random() < 0.15
        name, shown_step = self.choose_name(number, step)
        value = None
        if run.kind == "improving":
            value = round(3 * 0.98 ** len(run.writes), 5)
            name = f"epoch={len(run.writes)}-val_loss={value:.5f}.pt"
        if is_truncated and not run.is_in_place:
            name = name.removesuffix("pt") + "tmp"
        found = Write(
            name=name,
            begin=begin,
            end=min(completed, execution.end),
            step=step,
            size=run.size,
            execution=number,
            is_whole=not (is_truncated or is_torn),
            is_leftover=is_truncated and not run.is_in_place,
            value=value,
            shown_step=shown_step,
        )
        for old in run.writes:
            if old.name == name:
                old.gone = min(old.gone, begin)
        if not is_truncated:  # a program that was ended in mid-save deletes nothing afterwards
            whole = [write for write in run.writes if write.is_whole and write.gone > completed]
            for old in whole[: -run.kept_count]:
                old.gone = completed + 5
        run.writes.append(found)

    def choose_name(self, number, step):
        """Return the name of a save, and the step that it states if that is not how far the run is."""
        run = self.run
        if run.part_work:
            part = int(step // run.part_work)
            shown_step = int(step - part * run.part_work)
            return f"{run.part_name.format(part)}step-{shown_step}.{number}.pt", shown_step
        if run.kind == "repeats":
            return f"step-{step}.pt", None
        is_elsewhere = run.kind == "wrong-path" and number in run.broken_resumes
        return f"{'other' if is_elsewhere else 'step'}-{step}.{number}.pt", None

    def write_samples(self):
        """Write data beside the checkpoints, more often than these, numbered by the work that is done."""
        run, chance = self.run, self.chance
        for number, execution in enumerate(run.executions):
            now = execution.start + chance.uniform(0.5, 5) * MINUTE
            pause = execution.suspended or (float("inf"), float("inf"))
            while (now := now + run.sample_interval * chance.gauss(1, run.jitter)) < execution.end - 2:
                if pause[0] <= now < pause[1]:
                    now = pause[1]
                    continue
                worked = now - execution.start - (pause[1] - pause[0] if now >= pause[1] else 0)
                name = f"sample-{int(execution.done + worked)}.npz"
                sample = Write(name, now, now + 1, int(execution.done + worked), 10**6, number, role=Role.DATA)
                run.writes.append(sample)
        samples = sorted((each for each in run.writes if each.role is Role.DATA), key=lambda each: each.begin)
        for old, new in zip(samples, samples[SAMPLES_KEPT:], strict=False):
            old.gone = new.end
        run.writes.sort(key=lambda each: each.begin)

    def share(self):
        """Let a second job run in the same directory for a while, which writes nothing."""
        first = self.run.executions[0]
        begin = first.start + 0.3 * (first.end - first.start)
        end = begin + max(0.4 * (first.end - first.start), 30 * MINUTE)
        self.run.executions.append(
            Execution(next(self.job_ids), 0, begin, end, self.run.limit, begin + self.run.limit, JobState.CANCELLED)
        )

    def rot(self):
        """Let the bytes of the newest save of some moment go bad, found by a deep look a while later."""
        candidates = [w for w in self.run.writes if w.is_whole and w.gone - w.end > self.run.interval]
        if candidates:
            rotten = self.chance.choice(candidates)
            rotten.corrupt_from = rotten.end + 0.3 * self.run.interval
