"""Caches which runs have nothing to remove, so that a step reads and plans only runs that may have changed.

The result also depends on the clock, so every run is planned again after a while. A candidate is only a preselection:
before a removal, its run is scanned, read and planned again.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import RunKey
from ckptd.core.retention import RunPlan
from ckptd.steps.site_policy import SitePolicy

AGAIN = 6  # steps, half of them more or less, so that not all have their turn at once


class _LastPlan(NamedTuple):
    revision: int
    planned_at: datetime
    may_lose: bool
    there: tuple[tuple[int, int], ...]  # by file system: how many checkpoints


@dataclass(slots=True)
class PruneCandidates:
    """The result of each run's last plan."""

    _known: dict[RunKey, _LastPlan] = field(default_factory=dict)
    _site: SitePolicy | None = None

    def list_due(self, revisions: Mapping[RunKey, int], site: SitePolicy, now: datetime) -> list[RunKey]:
        """Return the runs that changed, those with something to remove, and those that are due again."""
        if site != self._site:
            self._known, self._site = {}, site
        self._known = {run: known for run, known in self._known.items() if run in revisions}
        return [run for run, revision in revisions.items() if self._is_due(run, revision, site.interval, now)]

    def _is_due(self, run: RunKey, revision: int, interval: timedelta, now: datetime) -> bool:
        known = self._known.get(run)
        if known is None or known.may_lose or known.revision != revision:
            return True
        share = zlib.crc32(run.directory.encode(errors="surrogateescape")) % 1000 / 1000
        return not timedelta(0) <= now - known.planned_at < interval * AGAIN * (0.5 + share)

    def record_plans(self, planned: Iterable[RunPlan], revisions: Mapping[RunKey, int], now: datetime) -> None:
        """Store the results of plans that were made from these revisions or later ones."""
        for run in planned:
            files = (each.record.checkpoint.identities for each in run.decisions if each.record.checkpoint.files)
            there = Counter(identities[0].device for identities in files)
            self._known[run.run] = _LastPlan(revisions[run.run], now, bool(run.remove), tuple(there.items()))

    def count_elsewhere(self, runs: Iterable[RunKey]) -> Counter[int]:
        """Return the number of checkpoints of all other runs, by file system."""
        found: Counter[int] = Counter()
        left_out = set(runs)
        for run, known in self._known.items():
            if run not in left_out:
                found.update(dict(known.there))
        return found
