"""Messages in progress: claimed before they are sent, with their outcome recorded afterwards.

A claim older than its lease was interrupted. It is claimed again, with the same notices and message id.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import Severity
from ckptd.core.notices import UNADDRESSED, Notice, digest_key
from ckptd.core.notices.delivery import MailRestriction, MessageClaim, NoticeState, SendOutcome, SendResult, next_try_at
from ckptd.store import outbox
from ckptd.store.row_values import hash_path
from ckptd.store.rows import RUN_KEY_COLUMNS, split, without_index
from ckptd.store.tables import NoticeTable, RunTable
from ckptd.store.transactions import StorePart, writing

MAX_CLAIMED = 10_000  # notices in one message
GIVE_UP_AFTER = timedelta(days=5)  # as mail servers do


class ClaimStore(StorePart):
    """Claims of messages, and their outcomes."""

    @writing
    def take(
        self,
        connection: sa.Connection,
        cluster: str,
        channels: Collection[str],
        now: datetime,
        lease: timedelta,
        restriction: MailRestriction | None = None,
    ) -> MessageClaim | None:
        """Claim the notices of the message that is due next; a claim older than `lease` is void.

        One about a critical flag comes first, then one that was never tried, because each try may take minutes, then
        the one that has been due for longest.
        """
        ours = [outbox.is_of(cluster), NoticeTable.channel.in_(channels)]
        allowed = [] if restriction is None else [_allow(restriction)]
        is_cut_off = (NoticeTable.state == NoticeState.CLAIMED.value) & (NoticeTable.claimed_at <= now - lease)
        is_due = (NoticeTable.state == NoticeState.WAITING.value) & (NoticeTable.next_try_at <= now)
        first = connection.execute(
            sa.select(NoticeTable.message_id, NoticeTable.channel, NoticeTable.recipient_hash)
            .outerjoin(RunTable, NoticeTable.run_id == RunTable.id)
            .where(*ours, *allowed, is_cut_off | is_due)
            .order_by(
                sa.case((NoticeTable.severity == Severity.CRITICAL, 0), else_=1),
                NoticeTable.try_count > 0,
                NoticeTable.next_try_at,
                NoticeTable.id,
            )
            .limit(1)
            .with_for_update(skip_locked=True, of=NoticeTable)
        ).first()
        if first is None:
            return None
        message_id, channel, recipient_hash = first
        same = [*ours, NoticeTable.channel == channel, without_index(NoticeTable.recipient_hash) == recipient_hash]
        if message_id is None:
            same += [NoticeTable.state == NoticeState.WAITING.value, NoticeTable.message_id.is_(None)]
        else:
            open_states = [NoticeState.WAITING.value, NoticeState.CLAIMED.value]
            same += [NoticeTable.message_id == message_id, NoticeTable.state.in_(open_states)]
        rows = connection.execute(
            sa.select(NoticeTable, *RUN_KEY_COLUMNS)
            .outerjoin(RunTable, NoticeTable.run_id == RunTable.id)
            .where(*same)
            .order_by(NoticeTable.created_at, NoticeTable.id)
            .limit(MAX_CLAIMED)
        ).all()
        return _take(connection, rows, message_id, now)

    @writing
    def finish(
        self,
        connection: sa.Connection,
        claim: MessageClaim,
        outcome: SendOutcome,
        now: datetime,
        left_out: Mapping[int, NoticeState] | None = None,
        instead: Collection[Notice] = (),
    ) -> None:
        """Record the outcome of a claimed message; do nothing if another sender has claimed it since.

        `left_out` are those of its notices, by number, that were not sent. `instead` are recorded in place of notices
        that were refused or left out.
        """
        is_over = outcome.result in {SendResult.SENT, SendResult.REFUSED}
        ids = [notice.notice_id for notice in claim.notices]
        changes: dict[str, Any] = {"last_error": outcome.reason, "claimed_at": None}
        if is_over:
            changes |= {"state": outcome.result.value, "sent_at": now if outcome.result is SendResult.SENT else None}
        else:
            is_uncertain = outcome.result is SendResult.UNCERTAIN
            next_try = next_try_at(claim.try_count, now, is_uncertain=is_uncertain)
            changes |= {"state": NoticeState.WAITING.value, "next_try_at": next_try}
            if not is_uncertain and not claim.may_have_arrived:
                changes["message_id"] = None  # nobody has it: what came up meanwhile may go with it
        held = [NoticeTable.claimed_at == claim.claimed_at, NoticeTable.message_id == claim.message_key]
        states, is_ours = left_out or {}, False
        for state in set(states.values()) if is_over else ():
            some = [number for number, each in states.items() if each is state]
            for numbers in split(some):
                done = connection.execute(
                    sa.update(NoticeTable)
                    .where(*held, NoticeTable.id.in_(numbers))
                    .values(state=state.value, claimed_at=None, message_id=None)
                )
                is_ours |= done.rowcount > 0
        for chunk in split(ids):
            done = connection.execute(
                sa.update(NoticeTable)
                .where(*held, NoticeTable.id.in_(chunk), NoticeTable.state == NoticeState.CLAIMED.value)
                .values(**changes)
            )
            is_ours |= done.rowcount > 0
        if is_ours:
            outbox.insert_notices(connection, instead)

    @writing
    def drop_undelivered(
        self, connection: sa.Connection, cluster: str, channels: Collection[str], now: datetime, lease: timedelta
    ) -> int:
        """Drop notices whose retries failed for days or whose channel the site removed; return how many.

        Notices that were never tried stay, as do those that wait for an address. A claim that was interrupted, which
        may be because of the message itself, is tried once more in any case.
        """
        is_waiting = NoticeTable.state == NoticeState.WAITING.value
        is_tried = (NoticeTable.try_count > 0) | NoticeTable.channel.not_in([*channels, UNADDRESSED])
        is_cut_off_again = (NoticeTable.claimed_at <= now - lease) & (NoticeTable.try_count > 1)
        done = connection.execute(
            sa.update(NoticeTable)
            .where(
                outbox.is_of(cluster),
                NoticeTable.state.in_([NoticeState.WAITING.value, NoticeState.CLAIMED.value]),
                NoticeTable.next_try_at <= now,
                NoticeTable.due_at < now - GIVE_UP_AFTER,
                (is_waiting & is_tried) | is_cut_off_again,
            )
            .values(state=NoticeState.GIVEN_UP.value, claimed_at=None)
        )
        return int(done.rowcount)


def _allow(restriction: MailRestriction) -> sa.ColumnElement[bool]:
    """Return the condition on notices that may be sent."""
    is_exempt = (NoticeTable.channel != "mail") | NoticeTable.recipient_hash.in_(map(hash_path, restriction.exempt))
    if restriction.is_full:
        return is_exempt
    is_within: sa.ColumnElement[bool] = sa.true()
    if restriction.is_for_critical:
        is_within &= NoticeTable.severity == Severity.CRITICAL
    if restriction.full_owners:
        is_within &= RunTable.uid.is_(None) | RunTable.uid.not_in(restriction.full_owners)
    return is_exempt | is_within


def _take(connection: sa.Connection, rows: Sequence[Any], message_id: str | None, now: datetime) -> MessageClaim:
    notices = tuple(outbox.notice_from_row(row) for row in rows)
    key = message_id or digest_key(notices[0].recipient, notices)
    for chunk in split(row.id for row in rows):
        connection.execute(
            sa.update(NoticeTable)
            .where(NoticeTable.id.in_(chunk))
            .values(
                state=NoticeState.CLAIMED.value,
                claimed_at=now,
                message_id=key,
                try_count=NoticeTable.try_count + 1,
            )
        )
    try_count = 1 + max(row.try_count for row in rows)
    return MessageClaim(
        recipient=notices[0].recipient,
        message_key=key,
        claimed_at=now,
        try_count=try_count,
        notices=notices,
        may_have_arrived=message_id is not None,
    )
