"""Comparisons of copies with their originals: which are wanted, and how their results are recorded."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.executor import (
    CollectedDigests,
    Executor,
    SkippedRequest,
    Ticket,
    VerificationRequest,
    Witness,
    name_piece,
)
from ckptd.core.model import Checkpoint, ContentComparison, RunKey, Unknown
from ckptd.core.runs import copies_to_compare
from ckptd.core.runs.compared_content import identify_files
from ckptd.core.runs.copies_to_compare import CopiedCheckpoint, PlacedCopy
from ckptd.core.verification.file_digests import CHANGED, Digests, are_of, find_difference
from ckptd.store.store import Store

RUN_COUNT = 200  # whose records are read at once


class WantedComparison(NamedTuple):
    """The newest complete checkpoint of a run that has copies, with those that are to be compared with it."""

    run: RunKey
    copied: CopiedCheckpoint

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        return (self.copied.original.checkpoint, *(each.record.checkpoint for each in self.copied.copies))

    def leave_out_same(self, *, is_owner_believed: bool) -> "WantedComparison":
        return self._replace(copied=self.copied.leave_out_same(is_owner_believed=is_owner_believed))


class ComparedCopy(NamedTuple):
    """What a comparison says about one copy; Unknown: why it could not be compared."""

    copy: PlacedCopy
    result: ContentComparison | Unknown


def list_wanted(store: Store, cluster: str, runs: Sequence[RunKey]) -> Iterator[WantedComparison]:
    """Yield the newest complete checkpoint that has copies on record, of each of these runs that has one."""
    for start in range(0, len(runs), RUN_COUNT):
        for history in store.histories.read(cluster, runs[start : start + RUN_COUNT]):
            copied = next(copies_to_compare.list_copied(history), None)
            if copied is not None:
                yield WantedComparison(history.key, copied)


def make_request(run: RunKey, wanted: Sequence[WantedComparison], now: datetime) -> VerificationRequest:
    checkpoints = tuple(found for each in wanted for found in each.checkpoints)
    return VerificationRequest(run, checkpoints, now, is_comparison=True)


def compare_now(
    store: Store, executor: Executor, wanted: WantedComparison, now: datetime
) -> list[ComparedCopy] | Unknown:
    """Have every byte of a checkpoint and its copies read, wait for the result, and record it."""
    ticket = executor.submit(make_request(wanted.run, [wanted], now))
    if isinstance(ticket, Unknown):
        return ticket
    if isinstance(ticket, SkippedRequest):
        return Unknown(what="comparison", reason=str(ticket))
    try:
        return record_comparison(store, executor, wanted.run, ticket, now)
    finally:
        executor.release(ticket)


def record_comparison(
    store: Store, executor: Executor, run: RunKey, ticket: Ticket, now: datetime
) -> list[ComparedCopy] | Unknown:
    """Collect the digests of a ticket, and record what they say of each copy that is still there as it was read."""
    digests = executor.collect_digests(ticket)
    if isinstance(digests, Unknown):
        return digests
    found: list[ComparedCopy] = []
    for history in store.histories.read(run.cluster, [run]):
        for original, copies in copies_to_compare.list_copied(history):
            if name_piece(original.checkpoint) not in digests:
                continue
            for copy in copies:
                if name_piece(copy.record.checkpoint) in digests:
                    result = _compare(original.checkpoint, copy.record.checkpoint, digests, now, executor.witness)
                    found.append(ComparedCopy(copy, result))
    for copy, result in found:
        if isinstance(result, ContentComparison):
            place = run._replace(directory=copy.directory)
            store.comparisons.add(place, copy.record, result)
    return found


def _compare(
    original: Checkpoint, copy: Checkpoint, digests: CollectedDigests, now: datetime, witness: Witness
) -> ContentComparison | Unknown:
    read, copied = (_select(each, digests) for each in (original, copy))
    if isinstance(read, Unknown):
        return Unknown(what=read.what, reason=f"its original {original.path}: {read.reason}")
    if isinstance(copied, Unknown):
        return copied
    return ContentComparison(
        compared_at=now,
        original=str(original.path),
        original_files=identify_files(original),
        copy_files=identify_files(copy),
        differing_file=find_difference(original, read, copy, copied),
        is_by_owner=witness is Witness.OWNER,
    )


def _select(found: Checkpoint, digests: CollectedDigests) -> Digests | Unknown:
    read = digests[name_piece(found)]
    if isinstance(read, Unknown) or are_of(read, found):
        return read
    return Unknown(what=str(found.path), reason=CHANGED)
