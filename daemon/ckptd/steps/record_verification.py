"""Full verifications of recorded checkpoints: which need one, and how a result is recorded."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.executor import Executor, SkippedRequest, Ticket, VerificationRequest, Witness
from ckptd.core.model import CheckpointState, RecordedCheckpoint, RunKey, Unknown
from ckptd.core.runs import progress
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.store.store import Store

CHANGED = "its files have changed since the last scan, or could not be read to their end"
_READABLE = frozenset({CheckpointState.COMPLETE, CheckpointState.DAMAGED})  # finished, as far as the record says


class WantedVerification(NamedTuple):
    """A recorded checkpoint whose every byte is to be read."""

    run: RunKey
    record: RecordedCheckpoint


def list_wanted(store: Store, runs: Iterable[RunKey], *, is_again: bool) -> Iterator[WantedVerification]:
    """Yield the finished checkpoints of these runs, the newest of each first.

    Those that this node has verified in full are left out, unless `is_again`.
    """
    for run in runs:
        for record in reversed(store.checkpoints.read(run)):
            is_finished = record.deleted_at is None and record.checkpoint.state in _READABLE
            if is_finished and (is_again or record.verified_full_at is None):
                yield WantedVerification(run, record)


def verify_now(
    store: Store, executor: Executor, run: RunKey, records: Collection[RecordedCheckpoint], now: datetime
) -> CheckpointChanges | Unknown:
    """Have every byte of some checkpoints of one run read, wait for the result, and record it.

    For executors that read when a result is collected. The changes are empty if the files changed since the last scan.
    Then the next scan decides.
    """
    ticket = executor.submit(VerificationRequest(run, tuple(record.checkpoint for record in records), now))
    if isinstance(ticket, Unknown):
        return ticket
    if isinstance(ticket, SkippedRequest):
        return Unknown(what="verification", reason=str(ticket))
    try:
        return record_result(store, executor, run, ticket, now)
    finally:
        executor.release(ticket)


def record_result(
    store: Store, executor: Executor, run: RunKey, ticket: Ticket, now: datetime
) -> CheckpointChanges | Unknown:
    """Collect a result that is ready, and record as much of it as its witness is believed."""
    found = executor.collect(ticket)
    if isinstance(found, Unknown):
        return found
    merge = progress.merge_verified if executor.witness is Witness.NODE else progress.merge_owner_verified
    changes = merge(store.checkpoints.read(run), found, now)
    store.checkpoints.record_changes(run, changes)
    return changes
