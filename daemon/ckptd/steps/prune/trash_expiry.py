"""Deletes entries of the trash whose hold, the longer one of the site's and the manifest's, has ended.

Users take turns: a few entries of each are deleted at a time, in parallel with other users', up to a limit per step. No
user's trash delays another one's.
"""

import time
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashDeletion, TrashLocation
from ckptd.checkpoints.trash import EntryState, ReleaseRule, TrashEntry, TrashOutcome, TrashResult, TurnLimits
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import CheckpointState, RunKey, RunRecord, Scan, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.core.retention import PolicyMode
from ckptd.steps.prune import audit_entries, owner_turns
from ckptd.steps.prune.planning import read_facts
from ckptd.steps.prune.recovery import PruneParts, finish
from ckptd.steps.prune.trash_retention import KnownTrash

AT_ONCE = 20  # entries of one user that are deleted before the next user's turn
USER_LIMIT = 200  # entries of one user in one step
TURN_SECONDS = 5.0  # of one user's turn, after which no further entry is begun
STEP_SECONDS = 120.0  # of one step, after which no further turn is begun
SHORT_BELOW = 2  # further checkpoints: with free space for fewer, space is short


class TrashExpiryResult(NamedTuple):
    """The number of deleted checkpoints, and the runs without an answer."""

    deleted_count: int = 0
    silent: frozenset[RunKey] = frozenset()

    def add(self, other: "TrashExpiryResult") -> "TrashExpiryResult":
        """Return both results together."""
        return TrashExpiryResult(self.deleted_count + other.deleted_count, self.silent | other.silent)


class _DueEntry(NamedTuple):
    run: RunKey
    place: TrashLocation
    release: ReleaseRule
    entry: TrashEntry


@dataclass(slots=True)
class _OwnerQueue:
    """The entries of one user that are left to delete."""

    uid: int
    due: deque[_DueEntry]

    def take(self) -> "_DeletionBatch | None":
        """Return the next entries in one trash with the same release."""
        if not self.due:
            return None
        run, place, release, _ = self.due[0]
        entries: list[TrashEntry] = []
        while self.due and len(entries) < AT_ONCE and self.due[0][:3] == (run, place, release):
            entries.append(self.due.popleft().entry)
        return _DeletionBatch(run, place, release, tuple(entries))


class _DeletionBatch(NamedTuple):
    run: RunKey
    place: TrashLocation
    release: ReleaseRule
    entries: tuple[TrashEntry, ...]


def empty_due(hands: PruneParts, trash: KnownTrash, settled: Container[RunKey], now: datetime) -> TrashExpiryResult:
    """Delete entries of recovered runs whose policy enforces and whose hold ended; stop if file systems hang.

    Users who lately did not answer have their turns after all others.
    """
    users, suspects = _queue_users(hands, trash, settled, now), hands.silent.list_suspects(now)
    trash.emptied_to = users[0].uid if users else None
    until = time.monotonic() + STEP_SECONDS
    result = TrashExpiryResult()
    for is_suspect in (False, True):
        turn = deque(queue for queue in users if (queue.uid in suspects) is is_suspect)
        result = result.add(_empty_in_turns(hands, trash, turn, until, now))
    return result


def _empty_in_turns(
    hands: PruneParts, trash: KnownTrash, queues: deque[_OwnerQueue], until: float, now: datetime
) -> TrashExpiryResult:
    deleted_count = silent_count = 0
    silent: set[RunKey] = set()
    while queues and silent_count < owner_turns.MAX_SILENT and time.monotonic() < until:
        turn = [queues.popleft() for _ in range(min(owner_turns.AT_ONCE, len(queues)))]
        asked = [(queue, batch) for queue in turn if (batch := queue.take())]
        results = _delete(hands, trash, [batch for _, batch in asked], now)
        for (queue, batch), result in zip(asked, results, strict=True):
            if result is None:
                silent.add(batch.run)
                continue
            deleted_count += result.deleted_count
            if result.is_whole:
                queues.append(queue)
        silent_count += None in results
        trash.emptied_to = turn[-1].uid
    return TrashExpiryResult(deleted_count, frozenset(silent))


def _queue_users(hands: PruneParts, trash: KnownTrash, settled: Container[RunKey], now: datetime) -> list[_OwnerQueue]:
    """Return the due entries of each user, starting after the last user of the previous step."""
    shortest = min(hands.site.hold, hands.site.no_room_hold or hands.site.hold)
    earliest = ReleaseRule(now - shortest, now, is_short_of_space=True)
    old = [run for run, held in trash.entries.items() if run in settled and any(_list_due(held, earliest))]
    if not old:
        return []
    facts = read_facts(hands.store, hands.cluster, hands.site, old)
    due: dict[int, list[_DueEntry]] = {}
    for known in facts.runs:
        run, policy = known.history.key, facts.choices[known.history.key].policy
        if policy is None or policy.mode is not PolicyMode.ENFORCE:
            continue
        release = _release(hands, known.history, now)
        found = [
            _DueEntry(run, place, release, entry)
            for place, entry in _list_due(trash.entries[run], release)
            if _may_try(hands, trash, entry, now)
        ]
        if found:
            due.setdefault(run.uid, []).extend(found)
    last = -1 if trash.emptied_to is None else trash.emptied_to
    users = sorted(due, key=lambda uid: (uid <= last, uid))
    return [_OwnerQueue(uid, deque(due[uid][:USER_LIMIT])) for uid in users]


def _list_due(
    held: Mapping[TrashLocation, tuple[TrashEntry, ...]], release: ReleaseRule
) -> Iterator[tuple[TrashLocation, TrashEntry]]:
    for place, entries in held.items():
        for entry in entries:
            if entry.state is EntryState.HELD and release.is_over(entry.moved_at, entry.origin):
                yield place, entry


def _may_try(hands: PruneParts, trash: KnownTrash, entry: TrashEntry, now: datetime) -> bool:
    """Whether a deletion has not failed recently."""
    tried_at = trash.tried_at.get(entry.act_id)
    return tried_at is None or now - tried_at > hands.site.caps.error_window


def _release(hands: PruneParts, history: RunRecord, now: datetime) -> ReleaseRule:
    """Return the release of a run's entries, with the shorter `no_room_hold` if free space is short.

    The longer one of the site's hold and the manifest's applies.
    """
    is_short = _is_short_of_space(history)
    hold = hands.site.hold
    if is_short and hands.site.no_room_hold is not None:
        hold = min(hold, hands.site.no_room_hold)
    return ReleaseRule(now - hold, now, is_short, hands.site.guards.clock_tolerance)


def _is_short_of_space(history: RunRecord) -> bool:
    """Whether the free space is too small for a few more checkpoints like the newest complete one."""
    if not isinstance(history.scan, Scan) or (available := history.scan.available_bytes) is None:
        return False
    complete = [
        record.checkpoint
        for record in history.checkpoints
        if record.deleted_at is None and record.checkpoint.state is CheckpointState.COMPLETE
    ]
    newest = max(complete, key=lambda found: found.modified_at, default=None)
    return newest is not None and available < SHORT_BELOW * newest.size_bytes


class _DeletionResult(NamedTuple):
    deleted_count: int
    is_whole: bool  # every entry had its turn


def _delete(
    hands: PruneParts, trash: KnownTrash, batches: Sequence[_DeletionBatch], now: datetime
) -> list[_DeletionResult | None]:
    """Delete a few entries of several users in parallel; None: no answer."""
    intents = [{each.act_id: _intend(hands, batch.run, each, now) for each in batch.entries} for batch in batches]
    turn = TurnLimits(seconds=TURN_SECONDS)
    asked = [
        TrashDeletion(batch.place, list(known), batch.release, turn)
        for batch, known in zip(batches, intents, strict=True)
    ]
    answers = trash_client.empty(hands.agent, asked, hands.site.deadline)
    return [
        None if isinstance(answer, Unknown) else _record_deletions(hands, trash, batch, known, answer, now)
        for batch, known, answer in zip(batches, intents, answers, strict=True)
    ]


def _record_deletions(
    hands: PruneParts,
    trash: KnownTrash,
    batch: _DeletionBatch,
    intents: dict[str, AuditEntry],
    outcomes: Sequence[TrashOutcome],
    now: datetime,
) -> _DeletionResult:
    deleted: list[str] = []
    for outcome in outcomes:
        if intent := intents.pop(outcome.act_id, None):
            finish(hands, intent, outcome, now)
            if outcome.result is TrashResult.DELETED:
                deleted.append(outcome.act_id)
            else:
                trash.tried_at[outcome.act_id] = now
    trash.forget(batch.run, batch.place, deleted)
    for act_id, intent in intents.items():
        finish(hands, intent, _put_off(act_id, intent), now)
    return _DeletionResult(len(deleted), not intents)


def _put_off(act_id: str, intent: AuditEntry) -> TrashOutcome:
    reason = "the turn of its owner was over"
    return TrashOutcome(
        act_id=act_id, result=TrashResult.UNDONE, path=intent.target, reason=reason, cause=FailureCause.BUSY
    )


def _intend(hands: PruneParts, run: RunKey, held: TrashEntry, now: datetime) -> AuditEntry:
    reasons = (f"held since {held.moved_at.isoformat()}",)
    entry = audit_entries.intend(
        audit_entries.EMPTY, run, held.path, act_id=held.act_id, actor="hold", reasons=reasons, now=now
    )
    return replace(entry, audit_id=hands.store.audit.record(entry))
