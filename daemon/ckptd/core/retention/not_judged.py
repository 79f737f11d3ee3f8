"""Decides which checkpoints are no candidates, because they may not be the run's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import CheckpointState, RecordedCheckpoint, RunRecord
from ckptd.core.retention.policy import Policy
from ckptd.core.runs import added_files

NOT_SEEN = "no job of this run was seen writing it"


@dataclass(frozen=True, slots=True)
class RunBoundary:
    """One run, as far as it says which checkpoints are its own."""

    history: RunRecord
    policy: Policy
    now: datetime
    nested: tuple[str, ...]
    kept_by_people: Mapping[str, str]  # reasons by path
    copied_in: Mapping[str, str]  # the same of those that a person copied into the run's directory
    prefix: str = field(init=False)
    owner: frozenset[int] = field(init=False)
    future: datetime = field(init=False)
    tolerance: timedelta = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", self.history.key.directory.rstrip("/") + "/")
        object.__setattr__(self, "owner", frozenset({self.history.key.uid}))
        object.__setattr__(self, "tolerance", self.policy.guards.clock_tolerance)
        object.__setattr__(self, "future", self.now + self.policy.guards.clock_tolerance)

    def explain(self, path: str, record: RecordedCheckpoint, rank: int | None) -> str | None:
        """Return why a checkpoint is not a candidate, or None. `rank` is the order of its attempt in the run."""
        found = record.checkpoint
        completed_at = record.completed_at or found.modified_at
        if not path.startswith(self.prefix) or "/.." in path:
            return "it is not inside the run's directory"
        if self.nested and any(path == other or path.startswith(other + "/") for other in self.nested):
            return "it is in the directory of another run"
        if rank is None:
            return "the attempt that wrote it is not in the record of this run" if record.attempt else NOT_SEEN
        if path in self.kept_by_people:
            return self.kept_by_people[path]
        if found.owner_uids != self.owner:
            return "some of its files belong to someone else"
        return self._explain_files(record, completed_at) or self.copied_in.get(path)

    def _explain_files(self, record: RecordedCheckpoint, completed_at: datetime) -> str | None:
        found = record.checkpoint
        if found.state is CheckpointState.WRITING:
            return "it is being written, or its save was interrupted"
        if not found.files or len(found.files) != len(found.identities):
            return "not all of its files were read"
        if found.modified_at > self.future or completed_at > self.future:
            return "it is dated in the future"
        if added := added_files.explain(found, self.tolerance):
            return added
        if found.modified_at > completed_at + self.tolerance:
            return "it was changed after it was complete"
        return None
