"""Moves aside what a plan lets go, one save after another: all parts of a save, or none."""

from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import PurePosixPath

from ckptd.checkpoints import disposal
from ckptd.checkpoints.disposal import Place
from ckptd.checkpoints.trash import Outcome, Request, Result, list_places
from ckptd.core.model import Unknown
from ckptd.core.record import AuditEntry
from ckptd.core.retention import Decision, RunPlan
from ckptd.pruning import acts
from ckptd.pruning.settle import Hands, finish

NOT_ALL = "another part of its save could not be moved"


class Removal:
    """Carries out the plan of one run."""

    def __init__(self, hands: Hands, run: RunPlan, plan_id: str, markers: tuple[str, ...], actor: str) -> None:
        self._hands = hands
        self._run = run
        self._plan_id = plan_id
        self._markers = markers
        self._actor = actor
        self._moved: dict[int, AuditEntry] = {}  # by the place of their outcomes
        self.outcomes: list[Outcome | Unknown] = []

    def carry_out(self, now: datetime) -> bool:
        """Remove what goes, oldest save first; return whether every act's end is known.

        What may not be moved as it is stays, and younger ones go; at an error nothing more is tried.
        """
        for _, parts in groupby(self._run.remove, key=_save):
            outcomes = self._remove_save(list(parts), now)
            self.outcomes += outcomes
            if any(isinstance(outcome, Unknown) for outcome in outcomes):
                return False
            if not all(isinstance(outcome, Outcome) and _is_no_obstacle(outcome) for outcome in outcomes):
                return True
        return True

    def _remove_save(self, parts: list[Decision], now: datetime) -> list[Outcome | Unknown]:
        entries = [self._intend(part, now) for part in parts]
        requests = [self._request(part, entry) for part, entry in zip(parts, entries, strict=True)]
        outcomes = disposal.move_aside(self._hands.agent, requests, now, self._hands.site.deadline)
        for entry, outcome in zip(entries, outcomes, strict=True):
            if not isinstance(outcome, Unknown):
                finish(self._hands, entry, outcome, now)
        if all(_is_moved(outcome) for outcome in outcomes):
            self._moved |= dict(enumerate(entries, start=len(self.outcomes)))
            return outcomes
        return [self._undo(entry, outcome, NOT_ALL, now) for entry, outcome in zip(entries, outcomes, strict=True)]

    @property
    def is_any_moved(self) -> bool:
        return bool(self._moved)

    def take_back(self, why: str, now: datetime) -> bool:
        """Put back all that was moved; return whether all of it came back."""
        for place, entry in self._moved.items():
            self.outcomes[place] = self._undo(entry, self.outcomes[place], why, now)
        return not any(isinstance(self.outcomes[place], Unknown) for place in self._moved)

    def _undo(self, entry: AuditEntry, outcome: Outcome | Unknown, why: str, now: datetime) -> Outcome | Unknown:
        if not isinstance(outcome, Outcome) or not _is_moved(outcome):
            return outcome
        if not self._bring_back(entry, why, now):
            return Unknown(what=outcome.path, reason=f"it was moved, but {why}, and it did not come back yet")
        return replace(outcome, result=Result.UNDONE, reason=why, size_bytes=0)

    def _intend(self, part: Decision, now: datetime) -> AuditEntry:
        entry = acts.intend(
            acts.PRUNE,
            self._run.run,
            part.path,
            act_id=acts.new_act_id(),
            actor=self._actor,
            plan_id=self._plan_id,
            reasons=part.reasons,
            details={
                "first_seen_at": part.record.first_seen_at.isoformat(),
                "size_bytes": part.record.checkpoint.size_bytes,
                "policy": self._run.policy,
            },
            now=now,
        )
        return replace(entry, audit_id=self._hands.store.append_audit(entry))

    def _request(self, part: Decision, entry: AuditEntry) -> Request:
        found = part.record.checkpoint
        return Request(
            act_id=str(entry.details["act_id"]),
            directory=PurePosixPath(self._run.run.directory),
            path=found.path,
            files=found.files,
            identities=found.identities,
            uid=self._run.run.uid,
            reasons=part.reasons,
            allowed_roots=self._hands.site.allowed_roots,
            markers=self._markers,
        )

    def _bring_back(self, moved: AuditEntry, why: str, now: datetime) -> bool:
        """Put back what was moved. Where that fails it is settled before the next act."""
        act_id = str(moved.details["act_id"])
        entry = acts.intend(
            acts.RESTORE,
            self._run.run,
            moved.target,
            act_id=act_id,
            actor=self._actor,
            reasons=(why,),
            details={"first_seen_at": moved.details["first_seen_at"]},
            now=now,
        )
        entry = replace(entry, audit_id=self._hands.store.append_audit(entry))
        for path in list_places(PurePosixPath(self._run.run.directory)):
            outcome = disposal.restore(
                self._hands.agent, Place(self._run.run.uid, path), act_id, self._hands.site.deadline
            )
            if isinstance(outcome, Outcome) and outcome.result is Result.RESTORED:
                finish(self._hands, entry, outcome, now)
                return True
        return False


def _is_no_obstacle(outcome: Outcome) -> bool:
    """Whether the next save may be tried: not where the disk is full, or the trash in use."""
    if outcome.result is Result.REFUSED:
        return outcome.cause in acts.ORDINARY - acts.PASSING
    return outcome.result in {Result.MOVED, Result.UNDONE}


def _save(decision: Decision) -> int:
    return decision.save


def _is_moved(outcome: Outcome | Unknown) -> bool:
    return isinstance(outcome, Outcome) and outcome.result is Result.MOVED
