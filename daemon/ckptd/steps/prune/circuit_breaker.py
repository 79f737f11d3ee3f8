"""Stops removals after failures: of one user after that user's failures, of all users after failures of the site."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ckptd.core import retention
from ckptd.core.model import RunKey
from ckptd.core.model.records import AuditEntry
from ckptd.core.retention import Caps, Plan, PolicyMode, RemovalAttempt, RunPlan
from ckptd.steps.prune.audit_entries import PRUNE, is_failure, is_refusal, is_site_failure


class BreakerState(NamedTuple):
    """The users whose removals are stopped, and why."""

    users: Mapping[int, str]  # by uid
    common: tuple[RemovalAttempt, ...]  # removals that count towards the circuit breaker that stops everybody's
    everyone: str | None
    refused: Mapping[tuple[RunKey, str], str]  # by run and path: what was refused of late, and is not tried again yet


def check(acts: Collection[AuditEntry], caps: Caps, now: datetime) -> BreakerState:
    """Evaluate the recent removals.

    Users can make their own removals fail, and a few who do so must not stop the others. So only failures that no user
    can cause count towards stopping all removals, once per user.
    """
    by_user: dict[int, list[RemovalAttempt]] = defaultdict(list)
    of_site: dict[int, list[RemovalAttempt]] = defaultdict(list)
    for act in acts:
        if act.action == PRUNE and act.run is not None and act.finished_at is not None:
            by_user[act.run.uid].append(RemovalAttempt(act.finished_at, is_failure(act)))
            of_site[act.run.uid].append(RemovalAttempt(act.finished_at, is_site_failure(act)))
    users = {uid: why for uid, tried in by_user.items() if (why := retention.check_circuit_breaker(tried, caps, now))}
    common = tuple(removal for tried in of_site.values() for removal in _once(tried))
    since = now - caps.error_window
    refused = {
        (act.run, act.target): act.outcome or ""
        for act in acts
        if act.action == PRUNE and act.run is not None and is_refusal(act) and (act.finished_at or since) > since
    }
    return BreakerState(users, common, retention.check_circuit_breaker(common, caps, now), refused)


def limit(
    plan: Plan,
    caps: Caps,
    brake: BreakerState,
    now: datetime,
    *,
    modes: frozenset[PolicyMode],
    elsewhere: Mapping[int, int] | None = None,
) -> Plan:
    """Return the plan in which checkpoints above a cap, or stopped by a circuit breaker, are kept for now."""
    runs = (_stop(skip_refused(run, brake.refused), brake.users) for run in plan.runs)
    plan = replace(plan, runs=tuple(runs))
    return retention.limit(plan, caps, brake.common, now, modes=modes, elsewhere=elsewhere or {})


def _stop(run: RunPlan, users: Mapping[int, str]) -> RunPlan:
    why = users.get(run.run.uid)
    return run if why is None else retention.defer_all(run, why)


def skip_refused(run: RunPlan, refused: Mapping[tuple[RunKey, str], str]) -> RunPlan:
    """Keep each recently refused checkpoint for now, so that it is not retried at every step."""
    found = {each.path: refused.get((run.run, each.path)) for each in run.remove} if refused else {}
    return retention.defer(run, {path: f"the last try was {why}" for path, why in found.items() if why})


def _once(tried: list[RemovalAttempt]) -> list[RemovalAttempt]:
    """Return a user's removals without the failures before the last one."""
    failures = [removal for removal in tried if removal.is_error]
    return [*(removal for removal in tried if not removal.is_error), *sorted(failures)[-1:]]
