"""Carries out a plan, one run after another.

A user, or a file system, from which nothing was heard is left alone for the rest of the plan.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ckptd.checkpoints.trash import Result
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.record import AuditEntry
from ckptd.core.retention import Plan, RunPlan
from ckptd.pruning import acts, owners
from ckptd.pruning.removal import Removal
from ckptd.pruning.settle import Hands
from ckptd.pruning.settling import Settled

log = logging.getLogger("ckptd.pruning")


@dataclass(slots=True)
class Carried:
    """What came of it."""

    moved_count: int = 0
    moved_bytes: int = 0
    failed_count: int = 0
    runs: tuple[RunKey, ...] = ()

    def add(self, removal: Removal, run: RunKey) -> None:
        self.runs = (*self.runs, run)
        for outcome in removal.outcomes:
            if isinstance(outcome, Unknown) or outcome.result is not Result.MOVED:
                self.failed_count += 1
                log.warning("not removed in %s: %s", ascii(run.directory), ascii(outcome.reason))
            else:
                self.moved_count += 1
                self.moved_bytes += outcome.size_bytes


def carry_out(
    hands: Hands,
    settled: Settled,
    plan: Plan,
    enforced: Iterable[RunPlan],
    scans: Mapping[RunKey, Scan | Unknown],
    now: datetime,
) -> Carried:
    """Remove what goes from the runs that were looked at just now.

    Nothing more is removed of a user of whom nothing was heard, who may have ended the child, and nothing more on a
    file system on which several users were silent.
    """
    carried = Carried()
    silent: dict[int, set[int]] = defaultdict(set)  # users by file system
    unheard: set[int] = set()
    for run in enforced:
        scan = scans.get(run.run)
        devices = {each.record.checkpoint.identities[0].device for each in run.remove}
        if not isinstance(scan, Scan) or run.run not in settled.runs or run.run.uid in unheard:
            continue
        if any(len(silent[device]) >= owners.MAX_SILENT for device in devices):
            continue
        removal = Removal(hands, run, plan.plan_id, scan.markers, f"policy {run.policy}")
        if not removal.carry_out(now):
            settled.doubt(run.run, now)
            unheard.add(run.run.uid)
            for device in devices:
                silent[device].add(run.run.uid)
        carried.add(removal, run.run)
    if carried.moved_count:
        log.info("moved %d checkpoints of %d bytes to the trash", carried.moved_count, carried.moved_bytes)
    return carried


def record_plan(hands: Hands, plan: Plan, enforced: Iterable[RunPlan], now: datetime) -> None:
    """Write what is about to be removed from how many runs."""
    runs = list(enforced)
    hands.store.append_audit(
        AuditEntry(
            cluster=hands.cluster,
            actor="ckptd",
            action=acts.PLAN,
            target=f"{len(runs)} runs",
            plan_id=plan.plan_id,
            details={
                "remove": sum(len(run.remove) for run in runs),
                "remove_bytes": sum(run.remove_bytes for run in runs),
            },
            begun_at=now,
            finished_at=now,
            outcome="planned",
        )
    )
