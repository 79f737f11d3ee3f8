"""Remembers of which runs nothing may go, so that a step reads and plans only what may have changed since.

Whether something may go depends on the clock, too; so every run has its turn again after a while. What is found here
is only a hope: before anything goes its run is looked at, read and planned anew.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import RunKey
from ckptd.core.retention import RunPlan
from ckptd.steps.site_policy import Site

AGAIN = 6  # steps, half of them more or less, so that not all have their turn at once


class _Known(NamedTuple):
    revision: int
    planned_at: datetime
    may_lose: bool
    there: tuple[tuple[int, int], ...]  # by file system: how many checkpoints


@dataclass(slots=True)
class Hopes:
    """What the last plan of each run came to."""

    _known: dict[RunKey, _Known] = field(default_factory=dict)
    _site: Site | None = None

    def list_due(self, revisions: Mapping[RunKey, int], site: Site, now: datetime) -> list[RunKey]:
        """Return the runs that changed, those from which something may go, and those whose turn it is."""
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

    def note(self, planned: Iterable[RunPlan], revisions: Mapping[RunKey, int], now: datetime) -> None:
        """Remember what was just planned from the record of these revisions or a later one."""
        for run in planned:
            files = (each.record.checkpoint.identities for each in run.decisions if each.record.checkpoint.files)
            there = Counter(identities[0].device for identities in files)
            self._known[run.run] = _Known(revisions[run.run], now, bool(run.remove), tuple(there.items()))

    def count_elsewhere(self, runs: Iterable[RunKey]) -> Counter[int]:
        """Return how many checkpoints all other runs have, by file system."""
        found: Counter[int] = Counter()
        left_out = set(runs)
        for run, known in self._known.items():
            if run not in left_out:
                found.update(dict(known.there))
        return found
