"""Plans runs from the record: the same for the daemon and for the commands, so that both come to the same id."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ckptd.core import retention
from ckptd.core.model import Checkpoint, Level, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.record import PrunableRun
from ckptd.core.retention import Choice, Mode, Plan, Policy
from ckptd.pruning import brake
from ckptd.pruning.brake import Brake
from ckptd.pruning.site import Site
from ckptd.store.store import Store

ANY_TIME = timedelta(days=36_500)
AUDIT_LIMIT = 100_000  # acts that the brake looks back on
LONGEST_ACT = timedelta(hours=1)  # from its intent to its outcome
ACTIVE_MODES = frozenset({Mode.PLAN, Mode.ENFORCE})


@dataclass(frozen=True, slots=True)
class Facts:
    """What is on record of the runs to plan, and the policy in force for each."""

    runs: tuple[PrunableRun, ...]
    choices: Mapping[RunKey, Choice]
    others: tuple[str, ...]  # the directories of all other runs


def read_facts(store: Store, cluster: str, site: Site, keys: Collection[RunKey] | None = None) -> Facts:
    """Read the runs with these keys: where None, all of which anything could go."""
    runs = tuple(store.read_prunable(cluster, keys))
    choices = {
        run.history.key: retention.choose_policy(site.matches, site.bounds, run.history, run.job, run.wishes)
        for run in runs
    }
    others = tuple(key.directory for key in store.list_run_keys() if key not in choices)
    return Facts(runs, choices, others)


def tell_refused(store: Store, site: Site, key: RunKey) -> tuple[str, ...]:
    """Say which wishes of its owner are not granted whole for a run."""
    found = (
        retention.choose_policy(site.matches, site.bounds, run.history, run.job, run.wishes)
        for run in store.read_prunable(key.cluster, [key])
    )
    return tuple(f"A wish of its owner is not granted whole: {why}" for choice in found for why in choice.refused)


def plan(facts: Facts, now: datetime, scans: Mapping[RunKey, Scan | Unknown] | None = None) -> Plan:
    """Plan the runs, by looks at the disk that are newer than the record's where there are any."""
    scans = scans or {}
    pairs = [
        (replace(run.history, scan=scans.get(run.history.key, run.history.scan)), facts.choices[run.history.key].policy)
        for run in facts.runs
    ]
    return retention.plan(pairs, now, directories=facts.others)


def judge_again(facts: Facts, scans: Mapping[RunKey, Scan | Unknown]) -> Facts:
    """Return the facts with each checkpoint whose files are as recorded, and that a look found otherwise, as it is."""
    return replace(facts, runs=tuple(_judge_again(run, scans.get(run.history.key)) for run in facts.runs))


def _judge_again(run: PrunableRun, scan: Scan | Unknown | None) -> PrunableRun:
    if not isinstance(scan, Scan):
        return run
    seen = {found.path: found for found in scan.checkpoints}
    checkpoints = tuple(_as_seen(record, seen.get(record.checkpoint.path)) for record in run.history.checkpoints)
    return replace(run, history=replace(run.history, checkpoints=checkpoints))


def _as_seen(record: RecordedCheckpoint, found: Checkpoint | None) -> RecordedCheckpoint:
    known = record.checkpoint
    if found is None or found.identities != known.identities or found.state is known.state:
        return record
    return replace(record, checkpoint=found)


def check_brake(store: Store, cluster: str, site: Site, now: datetime) -> Brake:
    """Look at the removals of late: at all that ended within the window, however many people's acts are among them."""
    since = now - site.caps.error_window - LONGEST_ACT
    return brake.check(store.read_audit(cluster, begun_since=since, limit=AUDIT_LIMIT), site.caps, now)


def plan_if_fresh(facts: Facts, now: datetime) -> Plan:
    """Plan as if every directory had just been read and verified: what may come of a closer look."""
    relaxed = {
        key: replace(choice, policy=_relax(choice.policy)) if choice.policy else choice
        for key, choice in facts.choices.items()
    }
    return plan(replace(facts, choices=relaxed), now)


def _relax(policy: Policy) -> Policy:
    return replace(policy, verify=Level.STRUCTURE, guards=replace(policy.guards, stale_after=ANY_TIME))
