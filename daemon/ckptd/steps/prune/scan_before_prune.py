"""Selects the directories to scan before removals, and the newest checkpoints to verify again.

Both use turns, so that users whose runs always need another scan do not delay the runs of others.
"""

import logging
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ckptd.checkpoints.executor import Executor, LocalExecutor
from ckptd.core import retention
from ckptd.core.model import Level, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.retention import Policy, PolicyMode, RunPlan
from ckptd.steps.parts import Parts
from ckptd.steps.prune.planning import PlanFacts
from ckptd.steps.prune.recovery import PruneParts
from ckptd.steps.prune.verify_requests import RequestedVerifications
from ckptd.steps.record_verification import verify_now

MAX_SCANS = 400  # directories of one step
VERIFY_SECONDS = 600.0  # of one step, after which no further checkpoint is begun to be read whole
VERIFY_AGAIN = timedelta(hours=1)  # after it could not be done

log = logging.getLogger("ckptd.steps.prune")
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class ScanTurns:
    """The last turn of each run."""

    scanned_at: dict[RunKey, datetime] = field(default_factory=dict)
    verified_at: dict[RunKey, datetime] = field(default_factory=dict)  # in vain

    def choose(self, facts: PlanFacts, wanted: Iterable[RunPlan], now: datetime) -> list[RunPlan]:
        """Choose the runs whose directories are scanned in this step.

        These are all runs whose policy enforces, in turns, and of the others those whose last scan is getting old.
        """
        histories = {run.history.key: run.history for run in facts.runs}
        chosen: list[RunPlan] = []
        for run in sorted(wanted, key=self._rank):
            scan, policy = histories[run.run].scan, facts.choices[run.run].policy
            is_old = not isinstance(scan, Scan) or (policy and scan.scanned_at < now - policy.guards.stale_after / 2)
            if (run.mode is PolicyMode.ENFORCE or is_old) and len(chosen) < MAX_SCANS:
                chosen.append(run)
        self.scanned_at = {run: at for run, at in self.scanned_at.items() if run in histories}
        self.scanned_at |= {run.run: now for run in chosen}
        return chosen

    def _rank(self, run: RunPlan) -> tuple[bool, datetime]:
        return run.mode is not PolicyMode.ENFORCE, self.scanned_at.get(run.run, _NEVER)

    def renew_verdicts(
        self, parts: Parts, hands: PruneParts, facts: PlanFacts, wanted: Collection[RunPlan], now: datetime
    ) -> None:
        """Read every byte of the newest checkpoints whose verification is too shallow or too old for their policy."""
        until = time.monotonic() + VERIFY_SECONDS
        executor = LocalExecutor(parts.agent, hands.site.verify_deadline)
        self.verified_at = {run: at for run, at in self.verified_at.items() if now - at < VERIFY_AGAIN}
        by_jobs = RequestedVerifications(parts)
        reported: list[tuple[RunPlan, list[RecordedCheckpoint]]] = []
        stale: list[tuple[RunPlan, list[RecordedCheckpoint]]] = []
        for run in wanted:
            policy = facts.choices[run.run].policy
            if policy is None or run.run in self.verified_at:
                continue
            reported.append((run, list_reported(run)))
            if (todo := find_stale(run, policy, now)) and not by_jobs.submit(run.run, todo, now):
                stale.append((run, todo))
        self.verified_at |= dict.fromkeys(by_jobs.skipped, now)
        for run, todo in (*stale, *reported):  # what owners report comes last: it must not delay others
            is_left_out = hands.silent.is_left_out(run.run.uid, now)
            if not todo or is_left_out or hands.should_stop() or time.monotonic() >= until:
                continue
            if not _verify(parts, executor, run.run, todo, now):
                self.verified_at[run.run] = now


def list_newest(run: RunPlan) -> frozenset[str]:
    """Return the path of the newest complete checkpoint, which must be verified before others are removed."""
    return frozenset(each.path for each in run.decisions if retention.NEWEST in each.reasons)


def find_stale(run: RunPlan, policy: Policy, now: datetime) -> list[RecordedCheckpoint]:
    """Return the newest checkpoint if its full verification is missing or too old for the policy.

    At level `structure`, the scan before each removal verifies it.
    """
    if policy.verify is not Level.FULL:
        return []
    newest = [each.record for each in run.decisions if retention.NEWEST in each.reasons]
    return [record for record in newest if not retention.is_verified_enough(record, policy.verify_age, now)]


def list_reported(run: RunPlan) -> list[RecordedCheckpoint]:
    """Return the checkpoints that a job of the owner called damaged, and this node has not verified since."""
    return [each.record for each in run.decisions if each.record.owner_damage is not None]


def _verify(parts: Parts, executor: Executor, run: RunKey, todo: Collection[RecordedCheckpoint], now: datetime) -> bool:
    changes = verify_now(parts.store, executor, run, todo, now)
    if isinstance(changes, Unknown):
        log.warning(
            "verification failed for the newest checkpoint in %s: %s", ascii(run.directory), ascii(changes.reason)
        )
        return False
    return not changes.is_empty
