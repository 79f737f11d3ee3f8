"""Days of trainings by many frameworks, whose users move files by hand, pruned by two daemons that fail.

    python tests/fuzz/users_play.py [--days 2] [--seed N] [--plays 1]

The files, the agent, the trash and the databases are real; the time and the queue are played. Each training saves by
the convention of another framework, rotates or does not, is cut off, requeued, continues, goes back or starts over.
Its user renames, moves, copies, links, annotates and deletes saves, takes them away for hours, and copies them back
from the trash. Two daemons with databases and policies of their own prune the same files, as the daemon or as a
person with `ckptd prune`; the controller fails, a clock is wrong, and they are killed within transactions.

No save that its world says must stay is removed, none is torn, nothing else is touched, no trash is emptied early, and
what goes is what the plan said. It ends with 1 otherwise.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:1] = [str(HERE.parent), str(ROOT / "daemon"), str(ROOT / "deploy")]  # not this folder: its layouts.py

from ckptd.core.model import Level, Role, RunKey, Scan  # noqa: E402
from ckptd.core.retention import Caps, KeepCalendar, KeepEvery, KeepLast, Policy, PolicyMode  # noqa: E402
from ckptd.service.step_table import make_runner  # noqa: E402
from ckptd.steps.poll import poll_unrecorded  # noqa: E402
from ckptd.steps.prune import apply, planning  # noqa: E402
from ckptd.steps.prune import step as prune  # noqa: E402
from ckptd.steps.prune.apply import ApplyOptions, ApplyParts  # noqa: E402
from ckptd.steps.prune.clock_guard import ClockGuard  # noqa: E402
from ckptd.steps.prune.foreign_removals import ForeignRemovals  # noqa: E402
from ckptd.steps.prune.observer import CommandObserver  # noqa: E402
from ckptd.steps.prune.recovered_runs import RecoveredRuns  # noqa: E402
from ckptd.steps.prune.recovery import PruneParts  # noqa: E402
from ckptd.steps.prune.scan_before_prune import ScanTurns  # noqa: E402
from ckptd.steps.state import begin  # noqa: E402
from fuzz.chaos_daemon import ChaosDaemon  # noqa: E402
from fuzz.chaos_world import Slurm  # noqa: E402
from fuzz.user_hands import Hands  # noqa: E402
from fuzz.user_judge import MIN_AGE, Seen, UserJudge  # noqa: E402
from fuzz.user_world import HARD_LINK, PlayedWorld  # noqa: E402
from support.prune_facts import CLUSTER, MINUTE, UID, make_site  # noqa: E402

DAY = 24 * 60
TICK = 5  # minutes
BELIEVED_AFTER = 3 * TICK  # minutes after which polls agree that the queue is empty
SETTLED = 60  # minutes after a fault in which jobs that had started before may count as just started
FAULT_GAP = 300  # minutes between two faults, on average
FAULTS = ("controller", "empty_queue", "clock", "killed", "killed_in_transaction", "down", "agent")
RULES = (
    (KeepLast(1),),
    (KeepLast(1),),
    (KeepLast(2),),
    (KeepLast(1), KeepEvery(5, "epochs")),
    (KeepLast(1), KeepCalendar("daily", 2)),
)


class PruningDaemon(ChaosDaemon):
    """A daemon that enforces a policy of its own. Each removal is judged."""

    def __init__(self, name, root, slurm, seed, judge):
        super().__init__(root, f"sqlite:///{root}/{name}.sqlite3", slurm, None, seed, max_depth=6, max_entries=20_000)
        self.name, self._judge = name, judge
        roles = seed.choice([{Role.STATE}, {Role.STATE}, {Role.STATE, Role.WEIGHTS}])
        rules = seed.choice(RULES)
        self.last = next(rule.n for rule in rules if isinstance(rule, KeepLast))
        self.policy = Policy(
            name=name,
            rules=rules,
            mode=PolicyMode.ENFORCE,
            roles=frozenset(roles),
            verify=seed.choice([Level.STRUCTURE, Level.FULL]),
        )
        self.hold = timedelta(hours=seed.choice([6, 24, 24 * 7]))
        self.clock_error = timedelta(0)
        self.down_until = 0
        self.was_wrong = False  # its clock: then it cannot tell which of two was there first
        self.missed = set()  # saves whose absence its scans have seen
        self.pruned = set()  # saves that it removed: of others it cannot know who copies them back
        self.full_at = 0  # the last minute in which the queue was not empty by mistake
        self.blind_at = 0  # the last minute in which it could not read the queue, or was not there
        self.plans, self.refusals = Counter(), Counter()

    def live(self, world):
        """Run once at this minute, if it is not down."""
        self.was_wrong |= bool(self.clock_error)
        if not self.slurm.is_empty:
            self.full_at = world.minute
        now, elapsed = world.at(world.minute) + self.clock_error, world.minute * MINUTE
        if world.minute < self.down_until:
            return
        if not self.is_alive:
            self.blind_at = world.minute
            self.start(now, elapsed)
        if self.is_alive:
            for text in self.tick(now, elapsed, world.minute):
                self._judge.note(f"{self.name}: {text}")
        if not self.is_alive or self.slurm.is_down or self.slurm.is_empty or self.clock_error:
            self.blind_at = world.minute
        if self.is_alive and not self.clock_error:
            self.missed |= {each for each in world.list_away() if self._has_missed(world, each)}

    def _has_missed(self, world, save):
        watched = self.state.watchlist.get(RunKey(CLUSTER, UID, str(save.training.directory)))
        scan = watched and watched.last
        return isinstance(scan, Scan) and scan.is_whole and scan.scanned_at > world.at(save.left_at)

    def _run(self, name, run, errors):
        if name not in {"send", "remind"}:
            super()._run(name, run, errors)

    def _prune(self, parts, state, now):
        """Prune as the daemon does, or as a person does, and have it judged."""
        site = make_site(self.root, self.policy, hold=self.hold, caps=Caps(filesystem_share=1.0))
        doubt = "the queue cannot be read" if self.slurm.is_down else None
        doubt = "its clock is wrong" if self.clock_error else doubt
        has_jobs = self.slurm.world.minute - self.full_at < BELIEVED_AFTER
        seen = Seen(missed=self.missed, pruned=self.pruned, has_jobs=has_jobs, knows_copies=not self.was_wrong)
        reasons = self._judge.protect(self.policy.roles, self.last, doubt, seen)
        is_shown = self._seed.random() < 0.5  # first in mode plan, which verifies what the plan depends on
        if is_shown:
            shown = make_site(self.root, replace(self.policy, mode=PolicyMode.PLAN), hold=self.hold)
            prune.act(parts, state, shown, self._memory, now, self.elapsed)
        facts = planning.read_facts(self.store, CLUSTER, site)
        said = planning.plan(facts, now)
        before = self._judge.list_files()
        is_interrupted = True
        try:
            if self._seed.random() < 0.3 and said.remove_count:
                self._apply_as_person(site, said, facts, now)
                done = None
            else:
                done = prune.act(parts, state, site, self._memory, now, self.elapsed)
            is_interrupted = False
        finally:
            removed = self._judge.compare(self.name, before, reasons, is_interrupted=is_interrupted)
            self.pruned |= set(removed)
            self._compare_with_plan(said, removed)
        # what has a second name elsewhere is refused, which no plan can know
        linked = {path for save in reasons if save.kept_by == HARD_LINK for path in save.files}
        left = before.keys() & self._judge.list_files().keys() - linked
        is_settled = self.slurm.world.minute - self.blind_at > SETTLED and not doubt
        current = {run.history.key for run in facts.runs if _is_of(run.history.scan, now)}
        if is_shown and done is not None and is_settled and (missed := left & _list_planned(said, current)):
            self._judge.note(f"{self.name} said {len(missed)} files that stay: {self._explain(missed)}")
        return done or prune.PruneResult()

    def _explain(self, missed):
        """Return what was recorded of the first of these files: a refusal is an explanation."""
        outcomes = {}
        for entry in self.store.audit.list_newest(CLUSTER):
            outcomes.setdefault(entry.target, f"{entry.action} {entry.outcome}, {entry.details}")
        path = min(missed)
        return path, [outcomes[str(each)] for each in (path, *path.parents) if str(each) in outcomes]

    def _compare_with_plan(self, said, removed):
        """What goes is what the plan said, but for runs that it skipped until something is read again."""
        self.plans["said"] += said.remove_count
        planned = _list_planned(said)
        skipped = {run.run.directory for run in said.runs if run.skipped}
        for save in removed:
            self.plans["removed"] += 1
            if self.slurm.world.minute - (save.ended_at or save.begun_at) <= MIN_AGE + 1:
                continue  # it may have reached that age between plan and move
            if planned.isdisjoint(save.files) and str(save.training.directory) not in skipped:
                reasons = {
                    each.path: each.reasons
                    for run in said.runs
                    for each in run.decisions
                    if not save.files.keys().isdisjoint(_list_files(each))
                }
                self._judge.note(f"{self.name} removed {save.name}, of which its plan said: {reasons}")

    def _apply_as_person(self, site, said, facts, now):
        """Do what `ckptd prune --apply --plan ID` does right after `ckptd plan`."""
        runner = make_runner(poll=lambda parts, state: poll_unrecorded(parts, state, now, None), read_time=lambda: now)
        parts = replace(self.parts, runner=runner)
        means = ApplyParts(
            hands=PruneParts(self.store, parts.agent, site, CLUSTER, lambda: False),
            observer=CommandObserver(parts, begin(parts, now)),
            clock=ClockGuard(deletes_from=timedelta.max),
            recovered=RecoveredRuns(),
            turns=ScanTurns(),
            foreign=ForeignRemovals(),
            elapsed=self.elapsed,
            read_passed=lambda: timedelta(0),
        )
        terms = ApplyOptions(modes=planning.ACTIVE_MODES, actor="uid 0", is_exact=True, retries_refused=True)
        applied = apply.apply(said, facts, means, terms, now)
        self.plans["by a person" if not applied.refused else "refused to a person"] += 1
        if applied.refused:
            self.refusals[applied.refused.partition(" and is now")[0]] += 1
            return
        asked = {each.path for run in said.runs for each in run.remove}
        done = {each.path for run in applied.limited.runs for each in run.remove}
        if not done <= asked:
            self._judge.note(f"{self.name}: a person's plan removes {sorted(done - asked)} beyond what was printed")


def _is_of(scan, now):
    return isinstance(scan, Scan) and scan.scanned_at >= now


def _list_planned(said, runs=None):
    """Return the files of all that a plan removes from these runs; None: from all."""
    wanted = (run for run in said.runs if runs is None or run.run in runs)
    return {path for run in wanted for each in run.remove for path in _list_files(each)}


def _list_files(decision):
    found = decision.record.checkpoint
    return [Path(found.path.parent, file) for file in found.files]


class Play:
    """A world, its users, two daemons and the judge."""

    def __init__(self, root, seed, days):
        self.random = random.Random(seed)
        begin_at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=days + 2)
        self.world = PlayedWorld(root, begin_at, self.random)
        self.slurm = Slurm(self.world)
        self.judge = UserJudge(self.world)
        self.hands = Hands(self.world, self.random)
        self.daemons = [PruningDaemon(name, root, self.slurm, self.random, self.judge) for name in ("one", "two")]
        if self.random.random() < 0.5:
            del self.daemons[1]
        self.faults, self.under_way = Counter(), []

    def run(self, days):
        """Play all days."""
        hold = min(each.hold for each in self.daemons)
        while self.world.minute < days * DAY:
            for _ in range(TICK):
                self.world.advance()
            self.hands.act(TICK)
            for due, undo in [each for each in self.under_way if each[0] <= self.world.minute]:
                self.under_way.remove((due, undo))
                undo()
            if self.random.random() < TICK / FAULT_GAP:
                self._fail()
            for daemon in self.daemons:
                daemon.live(self.world)
            self.judge.check_trash(hold)

    def _fail(self):
        fault, daemon = self.random.choice(FAULTS), self.random.choice(self.daemons)
        self.faults[fault] += 1
        until = self.world.minute + self.random.randint(10, 150)
        if fault in {"controller", "empty_queue"}:
            name = {"controller": "is_down", "empty_queue": "is_empty"}[fault]
            setattr(self.slurm, name, True)
            self.under_way.append((until, lambda: setattr(self.slurm, name, False)))
        elif fault == "clock":
            daemon.clock_error = self.random.choice([-3, -1, 1, 3, 48]) * timedelta(hours=1)
            self.under_way.append((until, lambda: setattr(daemon, "clock_error", timedelta(0))))
        elif fault == "killed":
            daemon.end()
        elif fault == "killed_in_transaction":
            daemon.kill_after = self.random.randint(1, 40)
        elif fault == "down":
            daemon.end()
            daemon.down_until = self.world.minute + self.random.choice([20, 120, 600])
        elif daemon.is_alive:
            daemon.lose_agent()
            for each in self.daemons:
                each.end()  # they share it

    def report(self):
        """Print what was played, and every violation."""
        saved = Counter()
        for training in self.world.trainings:
            saved[training.convention] += len(training.saves)
        print(f"{self.world.minute / DAY:.1f} days, by hand {self.hands.counts}, faults {dict(self.faults)}")
        for name, count in saved.items():
            print(f"  {name}: {count} saves, {self.judge.removed[name]} removed")
        for each in self.daemons:
            rules = ", ".join(str(rule) for rule in each.policy.rules)
            print(f"  {each.name}: {rules}; lives {each.lives}, failures {each.failures}, plans {dict(each.plans)}")
            print(f"    refused to a person: {dict(each.refusals)}")
        for text in self.judge.violations:
            print(f"  WRONG {text}")
        print(f"{len(self.judge.violations)} violations", flush=True)


def play(seed, days, *, is_told=False):
    """Play once; return whether anything was wrong."""
    root = Path(tempfile.mkdtemp(prefix="ckptd-play-"))
    root.chmod(0o755)
    began = time.monotonic()
    made = Play(root, seed, days)
    try:
        made.run(days)
    finally:
        for each in made.daemons:
            each.end()
        print(f"seed {seed}, {time.monotonic() - began:.0f} s", end=": ")
        made.report()
        if is_told:
            print("\n".join(made.world.journal))
        shutil.rmtree(root)
    return bool(made.judge.violations)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--plays", type=int, default=1, help="so many, with this seed and those after it")
    parser.add_argument("--journal", action="store_true", help="also print everything that happened in the world")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root: the files belong to another user")
    wrong = [play(options.seed + number, options.days, is_told=options.journal) for number in range(options.plays)]
    sys.exit(any(wrong))


if __name__ == "__main__":
    main()
