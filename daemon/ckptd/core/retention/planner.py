"""Decides for every checkpoint of a run whether it stays, with the reason. It removes nothing itself.

A checkpoint is an indivisible set of files: it stays or goes as a whole. Checkpoints that may not be pruned stay, and
no rule counts them. Of the candidates stay those of the floor, which no policy can lower, and those that a rule of the
policy keeps. `now` and all facts are arguments, so the same facts give the same plan.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from types import MappingProxyType

from ckptd.core.model import RunKey, RunRecord, Scan
from ckptd.core.retention import copied_in, eligibility, run_guards, shared_directories, user_kept
from ckptd.core.retention.checkpoint_order import Ranks, arrange, rank_attempts
from ckptd.core.retention.floor import JudgedRun, list_floor
from ckptd.core.retention.not_judged import RunBoundary
from ckptd.core.retention.plan import Decision, Plan, RunPlan, identify
from ckptd.core.retention.policy import Policy, PolicyMode
from ckptd.core.retention.references import Reference
from ckptd.core.retention.rules import KeepEverything, KeepRule, Placed

_NO_OTHERS: Mapping[RunKey, bool] = MappingProxyType({})
_NO_REFERENCES: Mapping[RunKey, Sequence[Reference]] = MappingProxyType({})
_NONE_MAY_GO = "no complete checkpoint of this run may be pruned"


def plan(
    runs: Iterable[tuple[RunRecord, Policy | None]],
    now: datetime,
    *,
    others: Mapping[RunKey, bool] = _NO_OTHERS,
    references: Mapping[RunKey, Sequence[Reference]] = _NO_REFERENCES,
) -> Plan:
    """Plan many runs. `others` are all other known runs, and whether a job of each was seen writing in its directory.

    The plan's id is the same as long as nothing that matters has changed; `now` is no part of it.
    """
    pairs = list(runs)
    shared = shared_directories.SharedDirectories(
        {**others, **{history.key: shared_directories.is_writing(history) for history, _ in pairs}}
    )
    planned = [
        plan_run(
            history,
            policy,
            now,
            nested=shared.list_nested(history.key),
            is_shared=shared.is_shared(history.key),
            references=references.get(history.key, ()),
        )
        for history, policy in pairs
    ]
    planned.sort(key=lambda run: run.run)
    return Plan(plan_id=identify(planned), planned_at=now, runs=tuple(planned))


def plan_run(
    history: RunRecord,
    policy: Policy | None,
    now: datetime,
    *,
    nested: tuple[str, ...] = (),
    is_shared: bool = False,
    references: Sequence[Reference] = (),
) -> RunPlan:
    """Decide about every checkpoint of one run that is there.

    `nested` are directories of other runs inside its own; `is_shared` says that another run has the very same one;
    `references` are the paths that jobs, links and users name.
    """
    present: list[Placed] = [
        (str(record.checkpoint.path), record)
        for record in history.checkpoints
        if record.deleted_at is None and record.pruned_at is None
    ]
    reason = "another run has the same directory" if is_shared else run_guards.check_run(history, policy, now)
    if reason or policy is None or not isinstance(history.scan, Scan):
        return _keep_all(history, policy, present, reason or "no policy applies to it")
    reason = run_guards.check_record(history.scan, present, policy.guards, now) or run_guards.check_states(
        present, policy.guards, now
    )
    if reason:
        return _keep_all(history, policy, present, reason)
    ranks = rank_attempts(history.attempts)
    kept_by_people = user_kept.find_kept(
        present, history.checkpoints, ranks, policy.guards.clock_tolerance, is_copied=bool(history.primaries)
    )
    others = {} if history.primaries else dict(copied_in.find_copied_in(history.checkpoints, history.attempts))
    boundary = RunBoundary(history, policy, now, nested, kept_by_people, others)
    named, outside = _divide(boundary, present, ranks)
    order = arrange(named, history.checkpoints, ranks)
    if not order.complete:
        left = [(path, record) for path, record in present if path in named]
        reason = f"{_NONE_MAY_GO}: all {len(left)} candidates are damaged" if left else _NONE_MAY_GO
        return _keep_all(history, policy, left, reason, outside)
    reason = run_guards.check_newest(order.sets[order.newest].record, history.scan.scanned_at, policy, now)
    if reason:
        left = [(path, record) for path, record in present if path in named]
        return _keep_all(history, policy, left, reason, outside)
    judged = JudgedRun(history, policy, now, order, ranks, references, {*kept_by_people, *others})
    return _run_plan(history, policy, [*_judge(judged), *outside], None)


def _divide(run: RunBoundary, present: Iterable[Placed], ranks: Ranks) -> tuple[dict[str, bool], list[Decision]]:
    """Return the paths to judge, and whether only `prune_files` allows it, and the decisions to keep all others."""
    judged: dict[str, bool] = {}
    outside: list[Decision] = []
    directory = run.history.key.directory
    for path, record in present:
        allowed = eligibility.check(record.checkpoint, run.policy, directory)
        why = run.explain(path, record, None if record.attempt is None else ranks.get(record.attempt))
        if allowed.reason is None and why is None:
            judged[path] = allowed.is_named
        else:
            reasons = tuple(reason for reason in (allowed.reason, why) if reason is not None)
            outside.append(Decision(path, record, True, reasons, -1))
    outside.sort(key=itemgetter(0))
    return judged, outside


def _judge(run: JudgedRun) -> list[Decision]:
    """Decide about every checkpoint, the newest first."""
    hard, soft = _reasons(run)
    dropped = _fit(run, hard, soft)
    for index, whys in soft.items():
        if index not in dropped:
            hard[index].extend(whys)
    for rule, index, why in _apply(run, run.policy.user_rules):
        is_user_rule = not (isinstance(rule, KeepEverything) and rule.because)
        hard[index].append(f"{why} (user setting)" if is_user_rule else why)
    decisions = []
    for index in range(len(run.sets) - 1, -1, -1):
        _, _, _, path, record, *_ = run.sets[index]
        is_kept = index in hard
        reasons = tuple(dict.fromkeys(hard[index])) if is_kept else _explain_removal(run, index, index in dropped)
        decisions.append(Decision(path, record, is_kept, reasons, index))
    return decisions


def _explain_removal(run: JudgedRun, index: int, is_too_much: bool) -> tuple[str, ...]:
    each = run.sets[index]
    newer = run.sets[run.order.complete_of_series[each.series][-1]].path
    because = "max_total_size is reached" if is_too_much else "no rule keeps it"
    allowed = ("a prune_files pattern names all of its files",) if each.is_named else ()
    return (f"{because}, and {newer} is newer and complete", *allowed)


Reasons = dict[int, list[str]]  # by the index of the checkpoint that they keep


def _reasons(run: JudgedRun) -> tuple[Reasons, Reasons]:
    """Return what the floor and the policy keep, and what only soft rules of it do."""
    hard: Reasons = defaultdict(list)
    soft: Reasons = defaultdict(list)
    for index, why in list_floor(run):
        hard[index].append(why)
    for rule, index, why in _apply(run, run.policy.rules):
        (soft if rule.is_soft else hard)[index].append(why)
    return hard, soft


def _apply(run: JudgedRun, rules: Sequence[KeepRule]) -> Iterator[tuple[KeepRule, int, str]]:
    """Yield each rule with the index and the reason of each checkpoint that it keeps, counting in each series."""
    if not rules:
        return
    for indexes in run.order.complete_of_series.values():
        if len(indexes) == 1:  # it stays in any case, as the newest of its series
            continue
        series = [run.sets[index] for index in indexes]
        for rule in rules:
            for position, why in rule.keep(series, run.now):
                yield rule, indexes[position], why


def _fit(run: JudgedRun, hard: Mapping[int, list[str]], soft: Mapping[int, list[str]]) -> set[int]:
    """Return the checkpoints that only soft rules keep and that must go, oldest first, for the rest to fit the size."""
    limit = run.policy.max_total_size_bytes
    if limit is None:
        return set()
    sizes = {index: run.sets[index].record.checkpoint.size_bytes for index in {*hard, *soft}}
    total = sum(sizes.values())
    dropped: set[int] = set()
    for index in sorted(set(soft) - set(hard)):
        if total <= limit:
            break
        dropped.add(index)
        total -= sizes[index]
    return dropped


def _keep_all(
    history: RunRecord,
    policy: Policy | None,
    present: Sequence[Placed],
    reason: str,
    outside: Sequence[Decision] = (),
) -> RunPlan:
    reasons = (f"the run is skipped: {reason}",)
    decisions = [Decision(path, record, True, reasons, -1) for path, record in sorted(present, key=itemgetter(0))]
    return _run_plan(history, policy, [*decisions, *outside], reason)


def _run_plan(history: RunRecord, policy: Policy | None, decisions: Sequence[Decision], skipped: str | None) -> RunPlan:
    return RunPlan(
        run=history.key,
        user=history.user,
        policy=policy.name if policy else None,
        mode=policy.mode if policy else PolicyMode.OFF,
        decisions=tuple(decisions),
        skipped=skipped,
    )
