"""Carries out a plan, one run after another.

A user, or a file system, from which nothing was heard is left alone for the rest of the plan.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ckptd.checkpoints.trash import Result
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.record import AuditEntry
from ckptd.core.retention import Mode, Plan, RunPlan
from ckptd.pruning import acts, owners
from ckptd.pruning.arrivals import Arrivals
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


def list_enforced(plan: Plan) -> list[RunPlan]:
    """Return the runs from which something goes."""
    return [run for run in plan.runs if run.mode is Mode.ENFORCE and run.remove]


def carry_out(
    hands: Hands,
    settled: Settled,
    plan: Plan,
    scans: Mapping[RunKey, Scan | Unknown],
    arrivals: Arrivals,
    now: datetime,
) -> Carried:
    """Remove what goes from the runs that were looked at just now.

    Nothing is removed from a run of which a job that has just begun may be loading, and what was is put back where
    one is found to have begun meanwhile. Nothing more is removed of a user of whom nothing was heard, who may have
    ended the child, and nothing more on a file system on which several users were silent.
    """
    carried = Carried()
    removals: dict[RunKey, Removal] = {}
    silent: dict[int, set[int]] = defaultdict(set)  # users by file system
    unheard: set[int] = set()
    for run in list_enforced(plan):
        scan = scans.get(run.run)
        devices = {each.record.checkpoint.identities[0].device for each in run.remove}
        if not isinstance(scan, Scan) or run.run not in settled.runs or run.run.uid in unheard:
            continue
        if any(len(silent[device]) >= owners.MAX_SILENT for device in devices):
            continue
        if why := arrivals.find_reason(run.run, now):
            log.info("nothing is removed in %s for now: %s", ascii(run.run.directory), why)
            continue
        removal = removals[run.run] = Removal(hands, run, plan.plan_id, scan.markers, f"policy {run.policy}")
        if not removal.carry_out(now):
            settled.doubt(run.run, now)
            unheard.add(run.run.uid)
            for device in devices:
                silent[device].add(run.run.uid)
    _take_back(settled, removals, arrivals, now)
    for key, removal in removals.items():
        carried.add(removal, key)
    if carried.moved_count:
        log.info("moved %d checkpoints of %d bytes to the trash", carried.moved_count, carried.moved_bytes)
    return carried


def _take_back(settled: Settled, removals: Mapping[RunKey, Removal], arrivals: Arrivals, now: datetime) -> None:
    """Look at the queue once more, and put back what a job may need that began before its checkpoint was moved."""
    moved = {run: removal for run, removal in removals.items() if removal.is_any_moved}
    if not moved:
        return
    arrivals.look({run.uid for run in moved}, now)
    for run, removal in moved.items():
        why = arrivals.find_reason(run, now)
        if why and not removal.take_back(why, now):
            settled.doubt(run, now)


def record_plan(hands: Hands, plan: Plan, now: datetime) -> None:
    """Write what is about to be removed from how many runs."""
    runs = list_enforced(plan)
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
