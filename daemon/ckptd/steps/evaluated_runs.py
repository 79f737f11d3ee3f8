"""The runs as they were last evaluated, and until when each evaluation holds: what makes decisions incremental.

A run is evaluated again when anything that a rule may read of it changed, after a scan of its directory that may have
found something else, and when a comparison with the time turns out differently. How often other jobs were interrupted
counts from the next of these on.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime

from ckptd.core.fleet.fleet_totals import RunShare
from ckptd.core.health import Evaluation
from ckptd.core.health.evaluation import ASKING_FOR_OWN_FLAG
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.model import CheckpointState, Flag, RunContext, RunHistory, RunKey, RunRecord, Scan, Unknown
from ckptd.store.fresh_checkpoints import ShownCheckpoints
from ckptd.store.histories import RevisedRecord

# other jobs' ends change the first, and recording an evaluation the second; of the third, few rules read something
_FREE_CONTEXT = frozenset({"interruptions", "open_evidence", "flagged"})
_CONTEXT = tuple(each.name for each in fields(RunContext) if each.name not in _FREE_CONTEXT)
_NO_TIME = datetime.min.replace(tzinfo=UTC)
FEW_ENDS = 100
LEFT_COUNT = 1000  # runs whose jobs have ended: about 3 kB each, with their checkpoints packed
_Array = tuple[int, int]  # owner, id


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedRun:
    """One run with its last evaluation, before findings of arrays were folded."""

    row_id: int
    revision: int
    history: RunHistory
    evaluation: Evaluation
    share: RunShare
    until: datetime | None  # None: until a fact changes
    scan_until: datetime | None  # the same for the time of a scan that found nothing else
    needed_bytes: float  # above which free space changes nothing
    shown: ShownCheckpoints  # of its record
    own_record: RunRecord | None = None  # without what the history has from earlier directories; None: it has nothing
    is_acted_on: bool = False  # ckptd acts on its jobs: what that depends on is not followed
    is_damaged: bool = False  # a damaged checkpoint counts from the first poll after it was written
    was_poll_old: bool = False  # the last poll was too old for rules: the next one changes that

    @property
    def revised(self) -> RevisedRecord:
        """Its record at this revision."""
        return RevisedRecord(self.row_id, self.revision, self.own_record or self.history, self.shown)

    def is_due(self, scan: Scan | Unknown | None, now: datetime, *, is_poll_old: bool) -> bool:
        """Whether a scan since may have found something else, the time is up, or the last poll became too old."""
        if is_poll_old and not self.was_poll_old and self.history.polled_at is not None:
            return True
        if scan is not self.history.scan and not self._is_found_the_same(scan):
            return True
        return self.until is not None and self.until <= now

    def is_outdated(self, history: RunHistory) -> bool:
        """Whether a rule may answer differently about a newer history with the same checkpoints and attempts."""
        mine = self.history
        if self.is_acted_on or ((self.is_damaged or self.was_poll_old) and mine.polled_at != history.polled_at):
            return True
        return (
            (mine.polled_at is None) != (history.polled_at is None)
            or mine.jobs != history.jobs
            or mine.other_writers != history.other_writers
            or (mine.free_space_samples != history.free_space_samples and not self.has_room(history.scan))
            or (mine.earlier, mine.copies) != (history.earlier, history.copies)
            or mine.suspended_until != history.suspended_until
            or any(getattr(mine.context, name) != getattr(history.context, name) for name in _CONTEXT)
            or _list_asked(mine.context) != _list_asked(history.context)
        )

    def _is_found_the_same(self, scan: Scan | Unknown | None) -> bool:
        """Whether rules answer the same about a later scan."""
        mine = self.history.scan
        if not isinstance(mine, Scan) or not isinstance(scan, Scan) or scan.scanned_at < mine.scanned_at:
            return False
        if self.scan_until is not None and self.scan_until <= scan.scanned_at:
            return False
        is_same_tree = scan.fingerprint is not None and scan.fingerprint == mine.fingerprint
        return is_same_tree and self.has_room(mine) and self.has_room(scan) and _facts_of(mine) == _facts_of(scan)

    @property
    def follows_more(self) -> bool:
        """Whether its evaluation depends on more than its record, its jobs, and what all runs share."""
        return self.is_acted_on or self.is_damaged or self.was_poll_old

    def has_room(self, scan: Scan | Unknown | None) -> bool:
        """Whether free space is known and above what any rule asks about."""
        return isinstance(scan, Scan) and (scan.available_bytes or 0) > self.needed_bytes


def _facts_of(scan: Scan) -> Scan:
    """Return a scan without its times and what it saw of free space."""
    return replace(
        scan,
        scanned_at=_NO_TIME,
        finished_at=None,
        free_bytes=None,
        quota_left_bytes=None,
        quota_read_at=None,
    )


def _list_asked(context: RunContext) -> set[tuple[str, int | None]]:
    """Return the open flags that rules ask for."""
    return {flag for flag in context.flagged if flag[0] in ASKING_FOR_OWN_FLAG}


def has_damaged(history: RunHistory) -> bool:
    """Whether a checkpoint on disk is damaged."""
    return any(
        each.deleted_at is None and each.checkpoint.state is CheckpointState.DAMAGED for each in history.checkpoints
    )


@dataclass(slots=True)
class EvaluatedRuns:
    """All runs that decisions are about. Owned by the step `decide`."""

    by_run: dict[RunKey, EvaluatedRun] = field(default_factory=dict)
    left: dict[RunKey, RevisedRecord] = field(default_factory=dict)  # the records of the runs that were removed last
    unrecorded: set[RunKey] = field(default_factory=set)  # evaluated since flags were last recorded
    flagged: set[RunKey] = field(default_factory=set)  # flags that rules ask for changed since they were evaluated
    noted_flags: set[RunKey] = field(default_factory=set)  # others changed
    _tasks: dict[_Array, set[RunKey]] = field(default_factory=lambda: defaultdict(set))
    _changed_arrays: set[_Array] = field(default_factory=set)  # since flags were last recorded
    _ends: list[tuple[datetime, RunKey]] = field(default_factory=list)  # a heap; of some runs, earlier ones too

    def put(self, evaluated: EvaluatedRun) -> None:
        """Note a new evaluation of a run."""
        key = evaluated.history.key
        self._forget_tasks(key)
        self.left.pop(key, None)
        self.by_run[key] = evaluated
        self.unrecorded.add(key)
        self._forget_flags(key)
        if evaluated.until is not None:
            heapq.heappush(self._ends, (evaluated.until, key))
            if len(self._ends) > 2 * len(self.by_run) + FEW_ENDS:
                self._ends = [(each.until, name) for name, each in self.by_run.items() if each.until is not None]
                heapq.heapify(self._ends)
        for array in _arrays_of(evaluated.history):
            self._tasks[array].add(key)
            self._changed_arrays.add(array)

    def find_record(self, key: RunKey) -> RevisedRecord | None:
        """Return the record of a run at the revision at which it was last evaluated."""
        known = self.by_run.get(key)
        return self.left.get(key) if known is None else known.revised

    def take_ended(self, now: datetime) -> set[RunKey]:
        """Return the runs whose evaluation held until now; each evaluation is returned once."""
        ended: set[RunKey] = set()
        while self._ends and self._ends[0][0] <= now:
            until, key = heapq.heappop(self._ends)
            if key in self.by_run and self.by_run[key].until == until:
                ended.add(key)
        return ended

    def note_scan(self, key: RunKey, scan: Scan | Unknown | None) -> None:
        """Note a later scan of a run that need not be evaluated because of it."""
        known = self.by_run[key]
        if scan is not known.history.scan:
            self.by_run[key] = replace(known, history=replace(known.history, scan=scan))

    def note_flags(self, context: RunContext, key: RunKey) -> None:
        """Note which flags are open now of a run that need not be evaluated because of them."""
        known = self.by_run[key]
        mine = known.history.context
        if mine.flagged != context.flagged:
            noted = replace(mine, flagged=context.flagged, open_evidence=context.open_evidence)
            self.by_run[key] = replace(known, history=replace(known.history, context=noted))
        self._forget_flags(key)

    def keep(self, keys: Collection[RunKey]) -> None:
        """Remove all other runs."""
        for key in [key for key in self.by_run if key not in keys]:
            self.remove(key)

    def remove(self, key: RunKey) -> None:
        """Remove a run that is no longer recorded or watched; keep its record for a job that may follow soon."""
        self._forget_tasks(key)
        if (known := self.by_run.pop(key, None)) is not None:
            self.left[key] = known.revised
            if len(self.left) > LEFT_COUNT:
                del self.left[next(iter(self.left))]
        self.unrecorded.discard(key)
        self._forget_flags(key)

    def list_unrecorded(self) -> list[EvaluatedRun]:
        """Return the runs evaluated since, and those whose findings are folded with theirs, in the order of rows."""
        keys = set(self.unrecorded)
        for array in self._changed_arrays:
            keys.update(each for each in self._tasks.get(array, ()) if _is_folded(self.by_run[each].evaluation))
        return sorted((self.by_run[key] for key in keys), key=lambda each: each.row_id)

    def mark_recorded(self, changes: FlagChanges, before: Mapping[int | None, Flag]) -> None:
        """Note that the evaluations so far are recorded; rules ask for less to keep a flag open than to open it.

        `before` has the flags as they were, by number: what a rule said of a run is given back to it.
        """
        self.unrecorded.clear()
        self._changed_arrays.clear()
        transitions = (*changes.opened, *changes.worsened, *changes.resolved)
        reworded = [each for each in changes.updated if _words(each) != _words(before[each.flag_id])]
        for each in (*transitions, *reworded):
            if each.finding.run in self.by_run:
                runs = self.flagged if each.finding.rule in ASKING_FOR_OWN_FLAG else self.noted_flags
                runs.add(each.finding.run)

    def _forget_flags(self, key: RunKey) -> None:
        self.flagged.discard(key)
        self.noted_flags.discard(key)

    def _forget_tasks(self, key: RunKey) -> None:
        known = self.by_run.get(key)
        for array in _arrays_of(known.history) if known else ():
            self._changed_arrays.add(array)
            self._tasks[array].discard(key)
            if not self._tasks[array]:
                del self._tasks[array]


def _words(flag: Flag) -> dict[str, object]:
    """Return the evidence of a flag without its figures, which count the time on."""
    return {name: value for name, value in flag.finding.evidence.items() if not isinstance(value, int | float)}


def _arrays_of(history: RunHistory) -> Iterable[_Array]:
    return {(history.key.uid, job.array_job_id) for job in history.jobs if job.array_job_id is not None}


def _is_folded(evaluation: Evaluation) -> bool:
    """Whether an evaluation has a part in how the findings of its array are folded."""
    is_undecided = NoCheckpointYet.name in evaluation.undecided
    return is_undecided or any(each.rule == NoCheckpointYet.name for each in evaluation.findings)
