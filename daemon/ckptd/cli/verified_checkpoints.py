"""The result of `ckptd verify` for one checkpoint."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ckptd.cli.output import format_size
from ckptd.core.model import CheckpointState, RecordedCheckpoint, Unknown
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.steps.record_verification import CHANGED, WantedVerification

Result = Literal["complete", "damaged", "unknown"]
COMPLETE: Result = "complete"
DAMAGED: Result = "damaged"
UNKNOWN: Result = "unknown"


class VerifiedCheckpoint(NamedTuple):
    """What reading every byte of a checkpoint found."""

    wanted: WantedVerification
    result: Result
    reason: str | None

    @property
    def size_bytes(self) -> int:
        return self.wanted.record.checkpoint.size_bytes

    @property
    def cells(self) -> tuple[str, str, str, str | None]:
        found = self.wanted.record.checkpoint
        return self.result, str(found.path), format_size(found.size_bytes), self.reason


def list_verified(
    wanted: Iterable[WantedVerification], changes: CheckpointChanges | Unknown, *, is_by_owner: bool = False
) -> list[VerifiedCheckpoint]:
    """Return the result for each checkpoint that was requested from one run."""
    if isinstance(changes, Unknown):
        return [VerifiedCheckpoint(each, UNKNOWN, changes.reason) for each in wanted]
    judged = {(str(each.checkpoint.path), each.checkpoint.format): each for each in changes.changed}
    return [_judge(each, judged, is_by_owner=is_by_owner) for each in wanted]


def _judge(
    wanted: WantedVerification, judged: dict[tuple[str, str], RecordedCheckpoint], *, is_by_owner: bool
) -> VerifiedCheckpoint:
    known = wanted.record.checkpoint
    found = judged.get((str(known.path), known.format))
    if found is None:
        return VerifiedCheckpoint(wanted, UNKNOWN, CHANGED)
    if is_by_owner:
        is_complete, reason = found.owner_damage is None, found.owner_damage
    else:
        is_complete, reason = found.checkpoint.state is CheckpointState.COMPLETE, found.checkpoint.reason
    return VerifiedCheckpoint(wanted, COMPLETE if is_complete else DAMAGED, reason)
