"""Tracks which runs are recovered: the outcome of every operation on them is known. Only these are pruned."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints.agent.trash_client import TrashLocation
from ckptd.core.model import RunKey
from ckptd.steps.prune import audit_entries, owner_turns
from ckptd.steps.prune.recovery import PruneParts, recover_turn
from ckptd.steps.prune.trash_retention import KnownTrash

FIRST_PAUSE = timedelta(minutes=10)  # before a run with an unconfirmed removal is tried again; doubled each time
LAST_PAUSE = timedelta(hours=6)

log = logging.getLogger("ckptd.steps.prune")


class RetryPause(NamedTuple):
    """When a run is retried, and the last waiting time."""

    until: datetime
    pause: timedelta


@dataclass(slots=True)
class RecoveredRuns:
    """Recovers each run's trash once, and again after an interrupted operation; failures are retried ever later."""

    runs: set[RunKey] = field(default_factory=set)
    doubts: dict[RunKey, RetryPause] = field(default_factory=dict)
    # how far a trash was gone through that takes several turns
    reached: dict[TrashLocation, str] = field(default_factory=dict)

    def doubt(self, run: RunKey, now: datetime) -> None:
        """Note that the outcome of an operation on a run is unknown."""
        before = self.doubts.get(run)
        pause = min(before.pause * 2, LAST_PAUSE) if before else FIRST_PAUSE
        self.doubts[run] = RetryPause(now + pause, pause)
        self.runs.discard(run)
        if before is None:
            log.warning("prune skips %s: the outcome of an earlier removal there is unknown", ascii(run.directory))

    def list_ready(self, hands: PruneParts, now: datetime) -> set[RunKey]:
        """Return the recovered runs of the users who are not left out now."""
        return {run for run in self.runs if not hands.silent.is_left_out(run.uid, now)}

    def recover(self, hands: PruneParts, trash: KnownTrash, now: datetime, *, of_suspects: bool = False) -> None:
        """Recover new runs, interrupted ones and due retries, and list their trash.

        This happens in every mode and without any policy: an interrupted checkpoint must not stay in two places. With
        `of_suspects`, it is the turn of users who lately did not answer, else of all others.
        """
        known = {key for key in hands.store.runs.list_keys() if key.cluster == hands.cluster}
        unfinished = hands.store.audit.list_newest(hands.cluster, unfinished_only=True, limit=audit_entries.LIMIT)
        cut_off = {entry.run for entry in unfinished if entry.action in audit_entries.ON_TRASH and entry.run in known}
        todo = {run for run in (known - self.runs) | cut_off if run is not None and not self._is_waiting(run, now)}
        self.runs -= todo
        self.doubts = {run: doubt for run, doubt in self.doubts.items() if run in known}
        silent_count = 0
        suspects = hands.silent.list_suspects(now)
        turn = [
            run for run in todo if (run.uid in suspects) is of_suspects and not hands.silent.is_left_out(run.uid, now)
        ]
        for group in owner_turns.group_by_owners(turn, ()):
            doubtful, halfway = recover_turn(hands, group, now, self.reached)
            asked_runs = [run for run in group if run not in doubtful and not hands.silent.is_left_out(run.uid, now)]
            doubtful |= trash.read(hands, asked_runs, now)
            for run in group:
                if run in doubtful:
                    self.doubt(run, now)
                elif run in asked_runs and run not in halfway:
                    self.runs.add(run)
                    self.doubts.pop(run, None)
            silent_count += hands.silent.is_any_left_out(group, now)
            if silent_count == owner_turns.MAX_SILENT:
                return

    def list_again(self, hands: PruneParts, trash: KnownTrash, changed: Iterable[RunKey], now: datetime) -> None:
        """List the trashes of these runs and of those whose turn it is, except runs with an unknown outcome."""
        runs = {*changed, *trash.next_runs()}
        asked = [run for run in runs if run not in self.doubts and not hands.silent.is_left_out(run.uid, now)]
        for run in trash.read(hands, asked, now):
            self.doubt(run, now)

    def _is_waiting(self, run: RunKey, now: datetime) -> bool:
        return run in self.doubts and now < self.doubts[run].until
