"""Which directories are looked at before anything goes from them, and which newest checkpoints are read whole.

Both take turns: whoever makes their own runs want pruning in vain, again and again, keeps nobody else's waiting.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ckptd.checkpoints import disposal
from ckptd.core import progress, retention
from ckptd.core.model import Level, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.retention import Mode, RunPlan
from ckptd.cycle import Parts
from ckptd.pruning.planning import Facts
from ckptd.pruning.site import Site

MAX_LOOKS = 400  # directories of one step
VERIFY_SECONDS = 600.0  # of one step, after which no further checkpoint is begun to be read whole
VERIFY_AGAIN = timedelta(hours=1)  # after it could not be done

log = logging.getLogger("ckptd.pruning")
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Turns:
    """When each run had its last turn."""

    looked_at: dict[RunKey, datetime] = field(default_factory=dict)
    verified_at: dict[RunKey, datetime] = field(default_factory=dict)  # in vain

    def choose(self, facts: Facts, wanted: Iterable[RunPlan], now: datetime) -> Mapping[RunKey, frozenset[str]]:
        """Choose the directories to look at, and the paths to read anew there: of the newest ones.

        All that enforce have their turn, of the others those whose last look grows old.
        """
        histories = {run.history.key: run.history for run in facts.runs}
        looks: dict[RunKey, frozenset[str]] = {}
        for run in sorted(wanted, key=self._rank):
            scan, policy = histories[run.run].scan, facts.choices[run.run].policy
            is_old = not isinstance(scan, Scan) or (policy and scan.scanned_at < now - policy.guards.stale_after / 2)
            if (run.mode is Mode.ENFORCE or is_old) and len(looks) < MAX_LOOKS:
                looks[run.run] = list_newest(run)
        self.looked_at = {run: at for run, at in self.looked_at.items() if run in histories} | dict.fromkeys(looks, now)
        return looks

    def _rank(self, run: RunPlan) -> tuple[bool, datetime]:
        return run.mode is not Mode.ENFORCE, self.looked_at.get(run.run, _NEVER)

    def verify(self, parts: Parts, facts: Facts, wanted: Iterable[RunPlan], site: Site, now: datetime) -> None:
        """Read every byte of the newest checkpoints where the policy asks for that and it was not done."""
        until = time.monotonic() + VERIFY_SECONDS
        self.verified_at = {run: at for run, at in self.verified_at.items() if now - at < VERIFY_AGAIN}
        for run in wanted:
            policy = facts.choices[run.run].policy
            if policy is None or policy.verify is not Level.FULL or run.run in self.verified_at:
                continue
            todo = [
                each.record
                for each in run.decisions
                if retention.NEWEST in each.reasons and not retention.is_verified_full(each.record)
            ]
            if todo and time.monotonic() < until and not _verify(parts, run.run, todo, site, now):
                self.verified_at[run.run] = now


def list_newest(run: RunPlan) -> frozenset[str]:
    """Return the paths of the newest complete checkpoint's parts: all that goes goes because of them."""
    return frozenset(each.path for each in run.decisions if retention.NEWEST in each.reasons)


def _verify(parts: Parts, run: RunKey, todo: Iterable[RecordedCheckpoint], site: Site, now: datetime) -> bool:
    asked = [record.checkpoint for record in todo]
    found = disposal.verify(parts.agent, run, asked, parts.limits, now, site.verify_deadline)
    if isinstance(found, Unknown):
        log.warning("the newest of %s could not be verified: %s", ascii(run.directory), ascii(found.reason))
        return False
    parts.store.record_changes(run, progress.merge_verified(parts.store.read_recorded(run), found, now))
    return True
