"""Moves what a plan removes from one run to the trash, one checkpoint after another.

A checkpoint is one indivisible set of files: it has one intent, one request, one manifest and one outcome.
"""

from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashLocation
from ckptd.checkpoints.trash import MoveRequest, Origin, TrashOutcome, TrashResult, list_places
from ckptd.core.model import Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.core.retention import Decision, RunPlan
from ckptd.steps.prune import audit_entries
from ckptd.steps.prune.recovery import PruneParts, finish
from ckptd.steps.prune.silent_users import is_unanswered

STOPPED = "removals were stopped while it was moved"


class Removal:
    """Carries out the plan of one run."""

    def __init__(self, hands: PruneParts, run: RunPlan, plan_id: str, markers: tuple[str, ...], actor: str) -> None:
        self._hands = hands
        self._run = run
        self._plan_id = plan_id
        self._markers = markers
        self._actor = actor
        self._moved: dict[int, AuditEntry] = {}  # by the place of their outcomes
        self._is_silent = False  # a request to put something back was not answered: no further one waits as long
        self.outcomes: list[TrashOutcome | Unknown] = []  # of what was tried, in the order of the plan

    def move_all(self, now: datetime) -> bool:
        """Move the planned checkpoints, oldest first; return whether every outcome is known.

        A refused checkpoint stays, and the next one is tried; after an error, nothing more is tried. Once removals are
        stopped, no further one starts, and the one in progress is put back.
        """
        for decision in self._run.remove:
            if self._hands.should_stop():
                return True
            outcome = self._move(decision, now)
            if isinstance(outcome, Unknown):
                return False
            if not _is_no_obstacle(outcome):
                return True
        return True

    def _move(self, decision: Decision, now: datetime) -> TrashOutcome | Unknown:
        entry = self._intend(decision, now)
        request = self._request(decision, entry)
        (outcome,) = trash_client.move_aside(self._hands.agent, [request], now, self._hands.site.deadline)
        if isinstance(outcome, TrashOutcome):
            finish(self._hands, entry, outcome, now)
        if _is_moved(outcome) and self._hands.should_stop():
            outcome = self._undo(entry, outcome, STOPPED, now)
        elif _is_moved(outcome):
            self._moved[len(self.outcomes)] = entry
        self.outcomes.append(outcome)
        return outcome

    @property
    def is_any_moved(self) -> bool:
        return bool(self._moved)

    def put_back(self, why: str, now: datetime) -> bool:
        """Put back everything that was moved; return whether that succeeded."""
        for place, entry in self._moved.items():
            self.outcomes[place] = self._undo(entry, self.outcomes[place], why, now)
        return not any(isinstance(self.outcomes[place], Unknown) for place in self._moved)

    def _undo(
        self, entry: AuditEntry, outcome: TrashOutcome | Unknown, why: str, now: datetime
    ) -> TrashOutcome | Unknown:
        if not isinstance(outcome, TrashOutcome) or not _is_moved(outcome):
            return outcome
        if not self._bring_back(entry, why, now):
            return Unknown(what=outcome.path, reason=f"it was moved, but {why}, and it did not come back yet")
        return replace(outcome, result=TrashResult.UNDONE, reason=why, size_bytes=0)

    def _intend(self, decision: Decision, now: datetime) -> AuditEntry:
        entry = audit_entries.intend(
            audit_entries.PRUNE,
            self._run.run,
            decision.path,
            act_id=audit_entries.new_act_id(),
            actor=self._actor,
            plan_id=self._plan_id,
            reasons=decision.reasons,
            details={
                "first_seen_at": decision.record.first_seen_at.isoformat(),
                "size_bytes": decision.record.checkpoint.size_bytes,
                "policy": self._run.policy,
            },
            now=now,
        )
        entry = replace(entry, once_key=f"{audit_entries.PRUNE} {self._run.run.uid} {decision.path}")
        return replace(entry, audit_id=self._hands.store.audit.record(entry))

    def _request(self, decision: Decision, entry: AuditEntry) -> MoveRequest:
        found = decision.record.checkpoint
        site = self._hands.site
        return MoveRequest(
            act_id=str(entry.details["act_id"]),
            directory=PurePosixPath(self._run.run.directory),
            path=found.path,
            files=found.files,
            identities=found.identities,
            is_directory=found.grouping.is_directory,
            uid=self._run.run.uid,
            reasons=decision.reasons,
            markers=self._markers,
            origin=Origin(
                cluster=self._run.run.cluster,
                policy=self._run.policy or "",
                actor=audit_entries.name_mover(self._actor),
                lease_epoch=self._hands.store.database.lease_epoch or 0,
                format=found.format,
                role=found.role.value,
                hold=site.hold,
                no_room_hold=site.no_room_hold,
            ),
        )

    def _bring_back(self, moved: AuditEntry, why: str, now: datetime) -> bool:
        """Put back one moved checkpoint. If that fails, it is recovered before the next operation."""
        act_id = str(moved.details["act_id"])
        entry = audit_entries.intend(
            audit_entries.RESTORE,
            self._run.run,
            moved.target,
            act_id=act_id,
            actor=self._actor,
            reasons=(why,),
            details={"first_seen_at": moved.details["first_seen_at"]},
            now=now,
        )
        entry = replace(entry, audit_id=self._hands.store.audit.record(entry))
        for path in list_places(PurePosixPath(self._run.run.directory)):
            if self._is_silent:
                return False
            outcome = trash_client.restore(
                self._hands.agent, TrashLocation(self._run.run.uid, path), act_id, self._hands.site.deadline
            )
            if isinstance(outcome, TrashOutcome) and outcome.result is TrashResult.RESTORED:
                finish(self._hands, entry, outcome, now)
                return True
            self._is_silent = is_unanswered(outcome)
        return False


def _is_no_obstacle(outcome: TrashOutcome) -> bool:
    """Whether the next checkpoint may be tried: not if the disk is full or the trash is in use."""
    if outcome.result is TrashResult.REFUSED:
        return outcome.cause in audit_entries.ORDINARY - audit_entries.PASSING
    return outcome.result in {TrashResult.MOVED, TrashResult.UNDONE}


def _is_moved(outcome: TrashOutcome | Unknown) -> bool:
    return isinstance(outcome, TrashOutcome) and outcome.result is TrashResult.MOVED
