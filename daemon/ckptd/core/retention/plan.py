"""The planner's result: a decision with reasons for every checkpoint, and an id of exactly these decisions."""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from ckptd.core.model import RecordedCheckpoint, RunKey
from ckptd.core.retention.policy import PolicyMode


class Decision(NamedTuple):
    """Whether one checkpoint, with all its member files, is kept, and every reason."""

    path: str
    record: RecordedCheckpoint
    is_kept: bool
    reasons: tuple[str, ...]
    save: int  # its place in the order of its run, the newest highest; -1: it was not judged


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """The decisions about one run, newest checkpoint first. A skipped run keeps everything."""

    run: RunKey
    user: str
    policy: str | None
    mode: PolicyMode
    decisions: tuple[Decision, ...]
    skipped: str | None = None

    @property
    def keep(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if decision.is_kept)

    @property
    def remove(self) -> tuple[Decision, ...]:
        """The removals, oldest checkpoint first: the order in which to carry them out."""
        return tuple(decision for decision in reversed(self.decisions) if not decision.is_kept)

    @property
    def remove_bytes(self) -> int:
        return sum(decision.record.checkpoint.size_bytes for decision in self.decisions if not decision.is_kept)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The decisions about many runs, in the order of their keys."""

    plan_id: str
    planned_at: datetime
    runs: tuple[RunPlan, ...]

    @property
    def remove_count(self) -> int:
        return sum(len(run.remove) for run in self.runs)

    @property
    def remove_bytes(self) -> int:
        return sum(run.remove_bytes for run in self.runs)


_PATH, _IS_KEPT, _CHECKPOINT = attrgetter("path"), attrgetter("is_kept"), attrgetter("record.checkpoint")
_IDENTITIES, _STATE = attrgetter("identities"), attrgetter("state")


def identify(runs: Sequence[RunPlan]) -> str:
    """Return the id of these decisions: 16 hex digits over runs, policies, paths, file identities and verdicts.

    It changes if a checkpoint appears, disappears, is rewritten or gets another decision; not with time alone.
    """
    digest = blake2b(digest_size=8)
    for run in runs:
        checkpoints = list(map(_CHECKPOINT, run.decisions))
        identities = list(map(_IDENTITIES, checkpoints))
        head = (run.run.cluster, run.run.uid, run.run.directory, run.policy, run.mode, run.skipped is None)
        digest.update(json.dumps((*head, len(identities))).encode())
        digest.update(_pack(list(map(len, identities))))
        digest.update("\0".join(map(_PATH, run.decisions)).encode(errors="surrogatepass"))
        digest.update(bytes(map(_IS_KEPT, run.decisions)))
        digest.update(",".join(map(_STATE, checkpoints)).encode())
        digest.update(_pack(list(chain.from_iterable(chain.from_iterable(identities)))))
    return digest.hexdigest()


def _pack(numbers: list[int]) -> bytes:
    try:
        return array("q", numbers).tobytes()
    except OverflowError:  # an inode of a file system that uses all 64 bits
        return json.dumps(numbers).encode()
