"""The floor: what no policy can let go of, each with its reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ckptd.core.model import Level, RunHistory
from ckptd.core.retention import guards
from ckptd.core.retention.order import Order
from ckptd.core.retention.policy import Policy
from ckptd.core.retention.rules import Save

NEWEST = "the newest complete one"


@dataclass(frozen=True, slots=True)
class Judged:
    """The saves of a run in their order, and which of them are whole: at least one is."""

    history: RunHistory
    policy: Policy
    now: datetime
    order: Order
    whole: Sequence[int]

    @property
    def saves(self) -> Sequence[Save]:
        return self.order.saves


def hold_floor(run: Judged) -> Iterator[tuple[int, str]]:
    """Yield the index and the reason of each save that stays whatever the policy is; some more than once."""
    whole = run.whole
    written_at = [save.at for save in run.saves]
    last_written = max(reversed(whole), key=written_at.__getitem__)
    yield whole[-1], NEWEST
    if last_written != whole[-1]:
        yield last_written, "the complete one that was written last"
    for (_, _, pattern), index in run.order.newest_of_kind.items():
        yield index, f"the newest complete one of its kind ({pattern})"
    for index in run.order.unreplaced:
        yield index, "damaged, but no newer one of its kind is complete"
    for index in range(whole[-1] + 1, len(written_at)):
        yield index, "newer than the newest complete one"
    yield from _hold_special(run)
    yield from _hold_recent(run, written_at[last_written])


def _hold_special(run: Judged) -> Iterator[tuple[int, str]]:
    resumed = {attempt.resumed_from for attempt in run.history.attempts if attempt.ended_at is None} - {None}
    best = verified = None
    for index, save in enumerate(run.saves):
        for path, record, _ in save.parts:
            found = record.checkpoint
            if record.is_pinned:
                yield index, "pinned"
            if found.is_newest or found.is_listed:
                yield index, f"the format's {'marker names' if found.is_newest else 'index lists'} it"
            if resumed and path in resumed:
                yield index, "the running attempt resumed from it"
            if found.is_best:
                best = index
            if (record.verified_full_at or found.level is Level.FULL) and guards.is_verified_full(record):
                verified = index
    if best is not None:
        yield best, "the format's marker names it as the best"
    if verified is not None:
        yield verified, "the newest one whose every byte was verified"


def _hold_recent(run: Judged, newest_at: datetime) -> Iterator[tuple[int, str]]:
    young = run.now - run.policy.min_age
    recent = min(young, newest_at)
    for index, save in enumerate(run.saves):
        if save.at > recent or save.seen_at > young:
            if save.at > newest_at:
                yield index, "written after the newest complete one"
            if save.at > young or save.seen_at > young:
                yield index, f"younger than {run.policy.min_age}"
