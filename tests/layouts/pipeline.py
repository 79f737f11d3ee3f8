"""From a world to a plan through ckptd's own code, in one process: list, claim, examine, group, record, plan."""

import posixpath
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import PurePosixPath

from ckptd.checkpoints.formats.interface import Claim, Shape
from ckptd.checkpoints.scanning.claiming import claim_tree
from ckptd.checkpoints.scanning.recognition import WRITE_GRACE, examine_claim
from ckptd.core import checkpoint_sets, retention
from ckptd.core.model import Attempt, JobKey, JobState, Level, RestartKind, RunKey, Scan
from ckptd.core.runs import ownership, progress
from layouts import truth
from layouts.disk import UID, Disk, write_world
from layouts.trainings import BEGAN_AT
from support.closed_files import assemble
from support.run_builder import make_record

BEGAN = datetime.fromtimestamp(BEGAN_AT, UTC)
MIN_AGE = timedelta(minutes=1)
HOUR = 3600.0


def instant(seconds):
    """Return an instant of a world, which is given in seconds since its training began."""
    return BEGAN + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Outcome:
    """What came of one layout."""

    violations: list[truth.Violation]
    must: list  # the saves that the plan must remove
    removed: list  # those of them that it does
    skipped: str | None
    decisions: list[truth.Decided]


class Observer:
    """Scans a disk as the daemon does, keeps the record, and plans from it."""

    uid = UID
    root = PurePosixPath("/scratch/alice/run")

    def __init__(self, world, *, is_running=True):
        self.world = world
        self.disk = write_world(world, BEGAN_AT)
        self.records = ()
        self.scan = None
        self.violations = []
        self.attempts = tuple(_attempts(world, is_running=is_running and world.attempt_count == 1))

    def look(self, at):
        """Scan the disk at an instant of the world, and record what was found."""
        now = instant(at)
        checkpoints, markers = self._inspect(now)
        self.scan = Scan(directory=self.root, scanned_at=now, checkpoints=tuple(checkpoints), markers=markers)
        writers = ownership.Writers(owner_uid=self.uid, attempts=self.attempts, observed_at=BEGAN - timedelta(hours=1))
        changes = progress.merge_scan(self.records, self.scan, writers, now)
        known = {_name(each): each for each in self.records}
        known.update((_name(each), each) for each in (*changes.gone, *changes.changed, *changes.appeared))
        self.records = tuple(known.values())

    def _inspect(self, now):
        """Return the sets that are there, and the markers."""
        claims, left = claim_tree(self.disk.list(), self.disk)
        examinations = [self._examine(claim) for claim in claims]
        found = assemble(claims, examinations, root=self.root, level=Level.STRUCTURE, now=now)
        others = [checkpoint_sets.OtherFile(file.path, file.identity, file.uid) for file in left]
        unchanged_since_ns = int((now - WRITE_GRACE).timestamp() * 10**9)
        sets = checkpoint_sets.group(found, others, root=self.root, unchanged_since_ns=unchanged_since_ns)
        self.violations += self._check_partition(found, left, sets)
        return sets, tuple(sorted({file.path for claim in claims for file in claim.markers}))

    def _examine(self, claim):
        if claim.shape is not Shape.FILE or len(claim.files) > 1:
            return examine_claim(claim, self.disk, Level.STRUCTURE)
        name = re.sub(r"\d+", "0", claim.path.rpartition("/")[2])
        return examine_bytes(claim.format, name, self.disk.nodes[claim.path].data)

    def _check_partition(self, found, left, sets):
        """Yield what is in no set or in several, and members that nobody listed."""
        taken = Counter(path for each in sets for path in self.files_of(each))
        recognised = {path for each in found for path in self.files_of(each)}
        listed = recognised | {file.path for file in left}
        for path in sorted(recognised | set(taken)):
            if path not in listed:
                yield truth.Violation("a member that is not there", path)
            elif taken[path] != 1:
                yield truth.Violation(f"in {taken[path]} sets", path)

    def plan(self, at, asked):
        """Return the plan of an instant of the world."""
        now = instant(at)
        history = make_record(
            RunKey("c", self.uid, str(self.root)),
            attempts=self.attempts,
            checkpoints=self.records,
            polled_at=now,
            scan=self.scan,
        )
        references = [
            retention.Reference(str(self.root / self.disk.resolve(link)), f"{link} is a link to it", is_exact=False)
            for link in self.disk.links
        ]
        return make_plan(history, asked, now, references)

    def prune(self, at, plan):
        """Do what a plan says: the files go, and the record says so."""
        for decision in plan.remove:
            for path in self.files_of(decision.record.checkpoint):
                self.disk.nodes.pop(path, None)
        gone = {id(decision.record) for decision in plan.remove}
        self.records = tuple(
            replace(each, pruned_at=instant(at)) if id(each) in gone else each for each in self.records
        )

    def files_of(self, checkpoint):
        """Return the paths of a checkpoint's files, relative to the root."""
        base = str(checkpoint.path.parent)
        paths = (posixpath.normpath(posixpath.join(base, file)) for file in checkpoint.files)
        return frozenset(path.removeprefix(f"{self.root}/") for path in paths)

    def decided(self, plan):
        return [self._decided(each) for each in plan.decisions]

    def _decided(self, decision):
        found = decision.record.checkpoint
        formats = frozenset({found.format, *(part.format for part in found.parts)})
        return truth.Decided(self.files_of(found), decision.is_kept, decision.reasons, formats)

    def judge(self, plan, saves, data, asked):
        """Compare a plan with the truth."""
        decisions = self.decided(plan)
        kept = {*self.world.markers, *self.world.links}
        violations, must, removed = truth.judge(saves, data, kept, asked, decisions)
        return Outcome([*self.violations, *violations], must, removed, plan.skipped, decisions)


def _name(record):
    return str(record.checkpoint.path), record.checkpoint.format, record.first_seen_at


def _attempts(world, *, is_running):
    """Yield the attempts of the job: each began shortly before its first save."""
    starts = {}
    for save in world.saves:
        starts.setdefault(save.attempt, min(save.times.values()) - 100)
    ordered = sorted(starts.items()) or [(0, -100.0)]
    for number, (index, begun) in enumerate(ordered):
        is_last = number == len(ordered) - 1
        ended = world.ends_at + 10 if is_last else ordered[number + 1][1] - 1
        is_open = is_last and is_running
        yield Attempt(
            job=JobKey("c", 1, BEGAN),
            restart_count=index,
            kind=RestartKind.REQUEUE if index else None,
            state=JobState.RUNNING if is_open else JobState.COMPLETED,
            first_seen_at=instant(begun),
            started_at=instant(begun),
            ended_at=None if is_open else instant(ended),
        )


@lru_cache(maxsize=65_536)
def examine_bytes(format_name, name, data):
    """Examine one file. Layouts have few contents under few names, numbers in them aside."""
    disk = Disk(BEGAN_AT)
    disk.write(name, data, 0.0)
    claim = Claim(format=format_name, shape=Shape.FILE, path=name, files=(disk.list().files[name],))
    return examine_claim(claim, disk, Level.STRUCTURE)


def make_plan(history, asked, now, references):
    """Plan one run: the one place to change where the planner's arguments change."""
    policy = retention.Policy(
        name="layouts",
        rules=(retention.KeepLast(asked.last),),
        min_age=MIN_AGE,
        roles=asked.roles,
        formats=asked.formats,
        prune_files=asked.prune_files,
    )
    return retention.plan_run(history, policy, now, references=references)


def run(world, asked, *, is_running=True):
    """Take a world through everything and compare the plan with the truth."""
    observer = Observer(world, is_running=is_running)
    end = world.ends_at
    saves, data = list(world.saves), dict(world.data)
    if world.by_hand:
        observer.look(end + HOUR)
        for act in world.by_hand:
            observer.disk.act(act, end + 1.5 * HOUR)
        saves, data = world.after_hands()
    observer.look(end + 2 * HOUR)
    plan = observer.plan(end + 2 * HOUR + 600, asked)
    outcome = observer.judge(plan, saves, data, asked)
    gone = frozenset().union(*(observer.files_of(each.record.checkpoint) for each in plan.remove))
    went = [save for save in saves if save.members <= gone]
    if not world.is_copied_back or outcome.violations or not went:
        return outcome
    return _copy_back(observer, plan, saves, data, asked, went)


def _copy_back(observer, plan, saves, data, asked, went):
    """Prune, let a person copy one back that went, and plan again: it is theirs, and stays."""
    at = observer.world.ends_at + 2 * HOUR + 700
    trash = dict(observer.disk.nodes)
    observer.prune(at, plan)
    restored = replace(went[-1], keeps="a person copied it back")
    for path in restored.files:
        observer.disk.write(path, trash[path].data, at + 100)
    left = [save for save in saves if not any(save is other for other in went)] + [restored]
    observer.look(at + HOUR / 2)
    return observer.judge(observer.plan(at + HOUR / 2 + 600, asked), left, data, asked)
