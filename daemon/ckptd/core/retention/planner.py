"""Decides for every checkpoint of a run whether it stays, and says why. It removes nothing itself.

What is kept is the floor, which no policy can lower, and what a rule of the policy keeps; the rest may go. Parts of
one save stay or go together. `now` and all facts are arguments, so that the same facts give the same plan.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import CheckpointState, RecordedCheckpoint, RunHistory, Scan
from ckptd.core.retention import guards
from ckptd.core.retention.order import Order, Part, arrange, rank_attempts
from ckptd.core.retention.policy import Mode, Policy
from ckptd.core.retention.results import Decision, Plan, RunPlan, identify
from ckptd.core.retention.rules import Save

NEWEST = "the newest complete one"


def plan(runs: Iterable[tuple[RunHistory, Policy | None]], now: datetime, *, directories: Iterable[str] = ()) -> Plan:
    """Plan many runs. `directories` are those of all other known runs, whose checkpoints are not these runs' to judge.

    The plan's id is the same as long as nothing that matters has changed; `now` is no part of it.
    """
    pairs = list(runs)
    users = Counter(directories)
    users.update(history.key.directory for history, _ in pairs)
    known = sorted(users)
    planned = [
        plan_run(
            history,
            policy,
            now,
            nested=_below(history.key.directory, known),
            is_shared=users[history.key.directory] > 1,
        )
        for history, policy in pairs
    ]
    planned.sort(key=lambda run: run.run)
    return Plan(plan_id=identify(planned), planned_at=now, runs=tuple(planned))


def _below(directory: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the known directories below this one; `known` is sorted."""
    prefix = directory + "/"
    start = bisect_right(known, prefix)
    end = start
    while end < len(known) and known[end].startswith(prefix):
        end += 1
    return tuple(known[start:end])


def plan_run(
    history: RunHistory,
    policy: Policy | None,
    now: datetime,
    *,
    nested: tuple[str, ...] = (),
    is_shared: bool = False,
) -> RunPlan:
    """Decide about every checkpoint of one run that is there.

    `nested` are directories of other runs inside its own; `is_shared` says that another run has the very same one.
    """
    present = [
        (str(record.checkpoint.path), record)
        for record in history.checkpoints
        if record.gone_at is None and record.pruned_at is None
    ]
    present.sort(key=_path)
    reason = "another run has the same directory" if is_shared else guards.check_run(history, policy, now)
    if reason or policy is None or not isinstance(history.scan, Scan):
        return _leave_alone(history, policy, present, reason or "no policy applies to it")
    reason = guards.check_record(history.scan, present, policy.guards, now) or guards.check_states(
        present, policy.guards, now
    )
    if reason:
        return _leave_alone(history, policy, present, reason)
    ranks = rank_attempts(history.attempts)
    explain = _Outside(history, policy, now, frozenset(ranks), nested).explain
    whys = [explain(path, record) for path, record in present]
    countable = [part for part, why in zip(present, whys, strict=True) if why is None]
    order = arrange(countable, history.checkpoints, ranks)
    saves = order.saves
    whole = [index for index, save in enumerate(saves) if save.is_whole]
    if not whole:
        return _leave_alone(history, policy, present, "it has no complete checkpoint that a job of it was seen writing")
    reason = guards.check_newest(saves[whole[-1]], policy)
    if reason:
        return _leave_alone(history, policy, present, reason)
    decisions = _judge(_Judged(history, policy, now, order, whole))
    for (path, record), why in zip(present, whys, strict=True):
        if why is not None:
            decisions.append(Decision(path, record, True, (why,), -1))
    return _run_plan(history, policy, decisions, None)


def _path(part: Part) -> str:
    return part[0]


@dataclass(frozen=True, slots=True)
class _Outside:
    """Tells which checkpoints are not to be judged: neither removed, nor counted as a reason to remove others."""

    history: RunHistory
    policy: Policy
    now: datetime
    attempts: frozenset[tuple[object, int]]
    nested: tuple[str, ...]
    prefix: str = field(init=False)
    owner: frozenset[int] = field(init=False)
    future: datetime = field(init=False)
    tolerance: timedelta = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", self.history.key.directory.rstrip("/") + "/")
        object.__setattr__(self, "owner", frozenset({self.history.key.uid}))
        object.__setattr__(self, "tolerance", self.policy.guards.clock_tolerance)
        object.__setattr__(self, "future", self.now + self.policy.guards.clock_tolerance)

    def explain(self, path: str, record: RecordedCheckpoint) -> str | None:
        found = record.checkpoint
        completed_at = record.completed_at or found.modified_at
        if not path.startswith(self.prefix) or "/.." in path:
            return "it is not inside the run's directory"
        if self.nested and any(path == other or path.startswith(other + "/") for other in self.nested):
            return "it is in the directory of another run"
        if record.attempt is None:
            return "no job of this run was seen writing it"
        if record.attempt not in self.attempts:
            return "the attempt that wrote it is not in the record of this run"
        if found.owner_uids != self.owner:
            return "some of its files belong to someone else"
        if found.state is CheckpointState.WRITING:
            return "it is being written, or its save was interrupted"
        if not found.files or len(found.files) != len(found.identities):
            return "not all of its files were looked at"
        if found.modified_at > self.future or completed_at > self.future:
            return "it is dated in the future"
        if found.modified_at > completed_at + self.tolerance:
            return "it was changed after it was complete"
        return None


@dataclass(frozen=True, slots=True)
class _Judged:
    """The saves of a run in their order, and which of them are whole."""

    history: RunHistory
    policy: Policy
    now: datetime
    order: Order
    whole: Sequence[int]

    @property
    def saves(self) -> Sequence[Save]:
        return self.order.saves


def _judge(run: _Judged) -> list[Decision]:
    reasons: dict[int, list[str]] = defaultdict(list)
    for index, why in _floor(run):
        reasons[index].append(why)
    counted = [index for index in run.whole if run.saves[index].is_in_series]
    counted_saves = [run.saves[index] for index in counted]
    soft: dict[int, list[str]] = defaultdict(list)
    for rule in run.policy.rules:
        kept = soft if rule.is_soft else reasons
        for position, why in rule.keep(counted_saves, run.now):
            kept[counted[position]].append(why)
    let_go = _fit(run, reasons, soft)
    for index, whys in soft.items():
        if index not in let_go:
            reasons[index].extend(whys)
    for rule in run.policy.wishes:
        for position, why in rule.keep(counted_saves, run.now):
            reasons[counted[position]].append(f"{why}, as its owner wishes")
    newest = run.saves[run.whole[-1]].records[0].checkpoint.path
    because = (f"no rule keeps it, and {newest} is newer and complete",)
    too_much = (f"max_total_size is reached, and {newest} is newer and complete",)
    decisions = []
    for index in range(len(run.order.saves) - 1, -1, -1):
        kept_for = reasons.get(index)
        told = tuple(dict.fromkeys(kept_for)) if kept_for else too_much if index in let_go else because
        is_kept = kept_for is not None
        decisions += [
            Decision(str(record.checkpoint.path), record, is_kept, told, index)
            for record in run.order.saves[index].records
        ]
    return decisions


def _floor(run: _Judged) -> Iterator[tuple[int, str]]:
    """Yield what no policy can let go of."""
    saves, whole = run.saves, run.whole
    last_written = max(whole, key=lambda index: (saves[index].at, index))
    yield whole[-1], NEWEST
    if last_written != whole[-1]:
        yield last_written, "the complete one that was written last"
    for (_, _, pattern), index in run.order.newest_of_kind.items():
        yield index, f"the newest complete one of its kind ({pattern})"
    for index in run.order.unreplaced:
        yield index, "damaged, but no newer one of its kind is complete"
    for index in range(whole[-1] + 1, len(saves)):
        yield index, "newer than the newest complete one"
    yield from _special_ones(run)
    newest_at = saves[last_written].at
    young = run.now - run.policy.min_age
    for index, save in enumerate(saves):
        if save.at > newest_at:
            yield index, "written after the newest complete one"
        if save.at > young or save.seen_at > young:
            yield index, f"younger than {run.policy.min_age}"


def _special_ones(run: _Judged) -> Iterator[tuple[int, str]]:
    resumed = {attempt.resumed_from for attempt in run.history.attempts if attempt.ended_at is None}
    resumed.discard(None)
    best = verified = None
    for index, save in enumerate(run.saves):
        for record in save.records:
            found = record.checkpoint
            if record.is_pinned:
                yield index, "pinned"
            if found.is_newest:
                yield index, "the format's marker names it"
            if resumed and str(found.path) in resumed:
                yield index, "the running attempt resumed from it"
            if found.is_best:
                best = index
            if (record.verified_full_at or found.level == "full") and guards.is_verified_full(record):
                verified = index
    if best is not None:
        yield best, "the format's marker names it as the best"
    if verified is not None:
        yield verified, "the newest one whose every byte was verified"


def _fit(run: _Judged, hard: Mapping[int, list[str]], soft: Mapping[int, list[str]]) -> set[int]:
    """Return the saves that only soft rules keep and that must go, oldest first, for the rest to fit the size."""
    limit = run.policy.max_total_size_bytes
    if limit is None:
        return set()
    sizes = {index: _size(run.saves[index]) for index in {*hard, *soft}}
    total = sum(sizes.values())
    let_go: set[int] = set()
    for index in sorted(set(soft) - set(hard)):
        if total <= limit:
            break
        let_go.add(index)
        total -= sizes[index]
    return let_go


def _size(save: Save) -> int:
    return sum(record.checkpoint.size_bytes for record in save.records)


def _leave_alone(history: RunHistory, policy: Policy | None, present: Sequence[Part], reason: str) -> RunPlan:
    told = (f"the run is left alone: {reason}",)
    decisions = [Decision(path, record, True, told, -1) for path, record in present]
    return _run_plan(history, policy, decisions, reason)


def _run_plan(
    history: RunHistory, policy: Policy | None, decisions: Sequence[Decision], skipped: str | None
) -> RunPlan:
    return RunPlan(
        run=history.key,
        user=history.user,
        policy=policy.name if policy else None,
        mode=policy.mode if policy else Mode.OFF,
        decisions=tuple(decisions),
        skipped=skipped,
    )
