"""Plans runs from the database, in the same way for the daemon and commands, so that both get the same plan id."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.core import retention
from ckptd.core.model import Checkpoint, Level, RecordedCheckpoint, RunKey, RunRecord, Scan, Unknown
from ckptd.core.model.records import PrunableRun
from ckptd.core.retention import (
    Plan,
    Policy,
    PolicyChoice,
    PolicyMode,
    Reference,
    References,
    ReferenceSources,
    RunPlan,
)
from ckptd.core.runs import progress
from ckptd.steps.prune import circuit_breaker
from ckptd.steps.prune.circuit_breaker import BreakerState
from ckptd.steps.site_policy import SitePolicy
from ckptd.store.store_reader import StoreReader

ANY_TIME = timedelta(days=36_500)
AUDIT_LIMIT = 100_000  # operations that the circuit breaker considers
LONGEST_ACT = timedelta(hours=1)  # from its intent to its outcome
ACTIVE_MODES = frozenset({PolicyMode.PLAN, PolicyMode.ENFORCE})


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The recorded data of the runs to plan, and the policy that applies to each."""

    runs: tuple[PrunableRun, ...]
    choices: Mapping[RunKey, PolicyChoice]
    others: Mapping[RunKey, bool]  # all other runs, and whether a job of each was seen writing in its directory
    named: ReferenceSources = field(default_factory=ReferenceSources)  # what links, jobs and users name


def read_facts(store: StoreReader, cluster: str, site: SitePolicy, keys: Collection[RunKey] | None = None) -> PlanFacts:
    """Read the data of these runs; None: of all runs from which something could be removed."""
    runs = tuple(store.prune_records.read(cluster, keys))
    choices = {
        run.history.key: retention.choose_policy(
            site.matches, site.bounds, run.history, run.job, run.retention_settings
        )
        for run in runs
    }
    known = store.runs.read_writing()
    others = {key: is_written for key, is_written in known.items() if key not in choices}
    runs = tuple(replace(run, history=_without_strangers(run.history, known)) for run in runs)
    return PlanFacts(runs, choices, others, read_named(store, cluster, {key.uid for key in choices}))


def _without_strangers(history: RunRecord, known: Mapping[RunKey, bool]) -> RunRecord:
    """Remove the jobs of other users that only name the run's directory: only jobs that write there are its writers."""
    key = history.key
    if not history.other_writers:
        return history
    writers = tuple(
        (job, user)
        for job, user in history.other_writers
        if job.uid == key.uid or known.get(key._replace(uid=job.uid), False)
    )
    return replace(history, other_writers=writers)


def read_named(store: StoreReader, cluster: str, uids: Collection[int]) -> ReferenceSources:
    """Read the references of links, jobs and users to these owners' checkpoints, and possible ones of others' jobs."""
    if not uids:
        return ReferenceSources()
    return ReferenceSources(
        links=store.mentions.read_links(uids),
        jobs=store.mentions.read(cluster),
        jobs_elsewhere=store.mentions.read_elsewhere(cluster),
        directories=store.jobs.read_directories(cluster),
        doubt=store.mentions.read_unknown_reason(cluster),
    )


def list_limited_settings(store: StoreReader, site: SitePolicy, key: RunKey) -> tuple[str, ...]:
    """Return the user settings of a run that the site limits."""
    found = (
        retention.choose_policy(site.matches, site.bounds, run.history, run.job, run.retention_settings)
        for run in store.prune_records.read(key.cluster, [key])
    )
    return tuple(f"User setting limited by the site: {why}" for choice in found for why in choice.refused)


def plan(
    facts: PlanFacts, now: datetime, scans: Mapping[RunKey, Scan | Unknown] | None = None, *, is_hopeful: bool = False
) -> Plan:
    """Plan the runs, from newer scans than the recorded ones if given.

    `is_hopeful` ignores reasons to keep that only apply until something has been read.
    """
    scans = scans or {}
    pairs = [
        (replace(run.history, scan=scans.get(run.history.key, run.history.scan)), facts.choices[run.history.key].policy)
        for run in facts.runs
    ]
    found = References(facts.named, now, is_hopeful=is_hopeful)
    named: dict[RunKey, Sequence[Reference]] = {
        history.key: found.find(history, policy.guards.restart_grace) for history, policy in pairs if policy
    }
    return retention.plan(pairs, now, others=facts.others, references=named)


def find_named(facts: PlanFacts, plan: RunPlan, now: datetime) -> str | None:
    """Return why a checkpoint to remove is needed, from the current references; None if nothing names it."""
    run = next(run for run in facts.runs if run.history.key == plan.run)
    policy = facts.choices[plan.run].policy
    grace = policy.guards.restart_grace if policy else ANY_TIME
    paths = [
        [each.path, *(str(each.record.checkpoint.path.parent / file) for file in each.record.checkpoint.files)]
        for each in plan.remove
    ]
    found = References(facts.named, now).find(run.history, grace)
    return next((f"{paths[place][0]} is still needed: {why}" for place, why in retention.match(found, paths)), None)


def prefer_newer(facts: PlanFacts, scans: Mapping[RunKey, Scan | Unknown]) -> dict[RunKey, Scan | Unknown]:
    """Return the scans, with the recorded one in place of each that is older than it.

    The recorded checkpoints are those of the newest recorded scan. Compared with an earlier scan, disk and record would
    seem to disagree about checkpoints saved in between.
    """
    newer: dict[RunKey, Scan | Unknown] = {}
    for run in facts.runs:
        recorded, ours = run.history.scan, scans.get(run.history.key)
        if isinstance(recorded, Scan) and isinstance(ours, Scan) and recorded.scanned_at > ours.scanned_at:
            newer[run.history.key] = replace(recorded, markers=ours.markers)
    return {**scans, **newer}


def judge_again(facts: PlanFacts, scans: Mapping[RunKey, Scan | Unknown]) -> PlanFacts:
    """Return the facts, updated with the new result of each checkpoint whose files are unchanged."""
    return replace(facts, runs=tuple(_judge_again(run, scans.get(run.history.key)) for run in facts.runs))


def _judge_again(run: PrunableRun, scan: Scan | Unknown | None) -> PrunableRun:
    if not isinstance(scan, Scan):
        return run
    seen = {found.path: found for found in scan.checkpoints}
    checkpoints = tuple(_as_seen(record, seen.get(record.checkpoint.path)) for record in run.history.checkpoints)
    return replace(run, history=replace(run.history, checkpoints=checkpoints))


def _as_seen(record: RecordedCheckpoint, found: Checkpoint | None) -> RecordedCheckpoint:
    known = record.checkpoint
    if found is None or found.identities != known.identities:
        return record
    found = progress.keep_complete(known, found)
    if found.state is known.state:
        return record
    return replace(record, checkpoint=found)


def check_circuit_breaker(store: StoreReader, cluster: str, site: SitePolicy, now: datetime) -> BreakerState:
    """Evaluate the circuit breakers over all removals that ended within the window."""
    since = now - site.caps.error_window - LONGEST_ACT
    return circuit_breaker.check(store.audit.list_newest(cluster, begun_since=since, limit=AUDIT_LIMIT), site.caps, now)


def plan_if_fresh(facts: PlanFacts, now: datetime) -> Plan:
    """Plan as if every directory had just been scanned and verified, to see what a new scan could allow."""
    relaxed = {
        key: replace(choice, policy=_relax(choice.policy)) if choice.policy else choice
        for key, choice in facts.choices.items()
    }
    scans = {
        run.history.key: replace(scan, scanned_at=now)
        for run in facts.runs
        if isinstance(scan := run.history.scan, Scan)
    }
    return plan(replace(facts, choices=relaxed), now, scans, is_hopeful=True)


def _relax(policy: Policy) -> Policy:
    return replace(policy, verify=Level.STRUCTURE, guards=replace(policy.guards, stale_after=ANY_TIME))
