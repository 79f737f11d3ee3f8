"""Decides for every checkpoint of a run whether it stays, and says why. It removes nothing itself.

What is kept is the floor, which no policy can lower, and what a rule of the policy keeps; the rest may go. Parts of
one save stay or go together. `now` and all facts are arguments, so that the same facts give the same plan.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from ckptd.core.model import RunHistory, Scan
from ckptd.core.retention import guards
from ckptd.core.retention.floor import Judged, hold_floor
from ckptd.core.retention.order import Ranks, arrange, rank_attempts
from ckptd.core.retention.outside import NOT_SEEN, Outside
from ckptd.core.retention.policy import Mode, Policy
from ckptd.core.retention.results import Decision, Plan, RunPlan, identify
from ckptd.core.retention.rules import Placed, Save


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
    present: list[Placed] = [
        (str(record.checkpoint.path), record)
        for record in history.checkpoints
        if record.gone_at is None and record.pruned_at is None
    ]
    reason = "another run has the same directory" if is_shared else guards.check_run(history, policy, now)
    if reason or policy is None or not isinstance(history.scan, Scan):
        return _leave_alone(history, policy, present, reason or "no policy applies to it")
    reason = guards.check_record(history.scan, present, policy.guards, now) or guards.check_states(
        present, policy.guards, now
    )
    if reason:
        return _leave_alone(history, policy, present, reason)
    ranks = rank_attempts(history.attempts)
    countable, outside = _divide(Outside(history, policy, now, nested), present, ranks)
    order = arrange(countable, history.checkpoints, ranks)
    whole = [index for index, save in enumerate(order.saves) if save.is_whole]
    if not whole:
        return _leave_alone(history, policy, present, "it has no complete checkpoint that a job of it was seen writing")
    reason = guards.check_newest(order.saves[whole[-1]], policy)
    if reason:
        return _leave_alone(history, policy, present, reason)
    return _run_plan(history, policy, [*_judge(Judged(history, policy, now, order, whole)), *outside], None)


def _divide(run: Outside, present: Iterable[Placed], ranks: Ranks) -> tuple[Mapping[int, list[Placed]], list[Decision]]:
    """Return the checkpoints to judge, by the rank of their attempts, and the decisions to keep all others."""
    countable: dict[int, list[Placed]] = {rank: [] for rank in ranks.values()}
    outside: list[Decision] = []
    for placed in present:
        path, record = placed
        rank = None if record.attempt is None else ranks.get(record.attempt)
        why = run.explain(path, record, rank)
        if why is not None or rank is None:
            outside.append(Decision(path, record, True, (why or NOT_SEEN,), -1))
        else:
            countable[rank].append(placed)
    outside.sort(key=itemgetter(0))
    return countable, outside


def _judge(run: Judged) -> list[Decision]:
    """Decide about every save, the newest first."""
    hard, soft = _reasons(run)
    let_go = _fit(run, hard, soft)
    for index, whys in soft.items():
        if index not in let_go:
            hard[index].extend(whys)
    for index, why in _wished(run):
        hard[index].append(why)
    newest = run.saves[run.whole[-1]].path
    because = (f"no rule keeps it, and {newest} is newer and complete",)
    too_much = (f"max_total_size is reached, and {newest} is newer and complete",)
    decisions = []
    for index, save in reversed(list(enumerate(run.saves))):
        is_kept = index in hard
        told = tuple(dict.fromkeys(hard[index])) if is_kept else too_much if index in let_go else because
        for path, record, _ in save.parts:
            decisions.append(Decision(path, record, is_kept, told, index))
    return decisions


Reasons = dict[int, list[str]]  # by the index of the save that they keep


def _reasons(run: Judged) -> tuple[Reasons, Reasons]:
    """Return what the floor and the policy keep, and what only soft rules of it do."""
    hard: Reasons = defaultdict(list)
    soft: Reasons = defaultdict(list)
    for index, why in hold_floor(run):
        hard[index].append(why)
    counted, saves = _counted(run)
    for rule in run.policy.rules:
        kept = soft if rule.is_soft else hard
        for position, why in rule.keep(saves, run.now):
            kept[counted[position]].append(why)
    return hard, soft


def _wished(run: Judged) -> Iterator[tuple[int, str]]:
    if run.policy.wishes:
        counted, saves = _counted(run)
        for rule in run.policy.wishes:
            for position, why in rule.keep(saves, run.now):
                yield counted[position], f"{why}, as its owner wishes"


def _counted(run: Judged) -> tuple[list[int], list[Save]]:
    """Return the saves that rules count, and which they are."""
    saves = run.saves
    counted = [index for index in run.whole if saves[index].is_in_series]
    return counted, [saves[index] for index in counted]


def _fit(run: Judged, hard: Mapping[int, list[str]], soft: Mapping[int, list[str]]) -> set[int]:
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
    return sum(record.checkpoint.size_bytes for _, record, _ in save.parts)


def _leave_alone(history: RunHistory, policy: Policy | None, present: Sequence[Placed], reason: str) -> RunPlan:
    told = (f"the run is left alone: {reason}",)
    decisions = [Decision(path, record, True, told, -1) for path, record in sorted(present, key=itemgetter(0))]
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
