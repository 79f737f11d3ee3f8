"""The outbox: notices, recorded in the transaction of their flags."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.notices import UNADDRESSED, DelayedNotices, Notice, NoticeKind, Recipient, TopicNotification
from ckptd.core.notices.delivery import NoticeState, Outbox
from ckptd.store import runs
from ckptd.store.row_values import hash_path
from ckptd.store.rows import RUN_KEY_COLUMNS, split, without_index
from ckptd.store.tables import NoticeTable, RunTable
from ckptd.store.transactions import StorePart, reading, writing, writing_if_any


def is_of(cluster: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Return the condition on notices of a cluster where few are wanted, those that wait, and not all past ones."""
    return without_index(NoticeTable.cluster) == cluster


_IS_WAITING = is_of(sa.bindparam("cluster")) & NoticeTable.state.in_(
    [NoticeState.WAITING.value, NoticeState.CLAIMED.value]
)
_WAITING_BY_CHANNEL = sa.select(NoticeTable.channel, sa.func.count()).where(_IS_WAITING).group_by(NoticeTable.channel)
_DUE = sa.select(sa.func.count(), sa.func.min(NoticeTable.due_at)).where(
    _IS_WAITING, NoticeTable.due_at <= sa.bindparam("now")
)
_TOLD_STATES = [NoticeState.WAITING.value, NoticeState.CLAIMED.value, NoticeState.SENT.value]
_IN_PAYLOAD = ("rule", "thread", "user", "meant_for", "work_dir", "job_name", "array_job_id", "job_count")


class SentMail(NamedTuple):
    """A mail that was sent, and the users whose jobs it was about."""

    recipient: str
    sent_at: datetime
    owners: frozenset[int]


class OutboxStore(StorePart):
    """Waiting and sent notices."""

    def read_notified(self, topics: Collection[str]) -> dict[tuple[Recipient, str], TopicNotification]:
        """Return, for each recipient and topic, the notices that were sent or wait."""
        if not topics:
            return {}
        with self.database.reading() as connection:
            return _read_notified(connection, topics)

    @writing_if_any
    def record(self, connection: sa.Connection, notices: Collection[Notice]) -> None:
        """Record notices that no change of a flag caused; skip those whose edge is already recorded."""
        insert_notices(connection, notices)

    @reading
    def list_unaddressed(self, connection: sa.Connection, cluster: str) -> tuple[Notice, ...]:
        """Return the notices that wait for their user's address, oldest first."""
        rows = connection.execute(
            sa.select(NoticeTable, *RUN_KEY_COLUMNS)
            .outerjoin(RunTable, NoticeTable.run_id == RunTable.id)
            .where(
                is_of(cluster),
                NoticeTable.channel == UNADDRESSED,
                NoticeTable.state == NoticeState.WAITING.value,
            )
            .order_by(NoticeTable.created_at, NoticeTable.id)
        )
        return tuple(notice_from_row(row) for row in rows)

    @writing
    def replace(self, connection: sa.Connection, old: Collection[Notice], new: Collection[Notice]) -> None:
        """Delete unclaimed notices and record others in their place."""
        for chunk in split(notice.notice_id for notice in old):
            connection.execute(sa.delete(NoticeTable).where(NoticeTable.id.in_(chunk)))
        insert_notices(connection, new)

    @reading
    def read_waiting(self, connection: sa.Connection, cluster: str, now: datetime) -> Outbox:
        """Count what waits to be sent."""
        counts = connection.execute(_WAITING_BY_CHANNEL, {"cluster": cluster}).all()
        due_count, oldest = connection.execute(_DUE, {"cluster": cluster, "now": now}).one()
        return Outbox(waiting={row[0]: row[1] for row in counts}, due_count=due_count, oldest_due_at=oldest)

    @reading
    def list_mailed(self, connection: sa.Connection, cluster: str, since: datetime) -> list[SentMail]:
        """Return the mails sent since then, oldest first."""
        rows = connection.execute(
            sa.select(NoticeTable.recipient, NoticeTable.sent_at, RunTable.uid)
            .outerjoin(RunTable, NoticeTable.run_id == RunTable.id)
            .where(
                NoticeTable.cluster == cluster,
                NoticeTable.channel == "mail",
                NoticeTable.sent_at >= since,
            )
            .distinct()
            .order_by(NoticeTable.sent_at)
        )
        owners: dict[tuple[str, datetime], set[int]] = {}
        for recipient, sent_at, uid in rows:
            if sent_at is not None:
                owners.setdefault((recipient, sent_at), set()).update([] if uid is None else [uid])
        return [SentMail(recipient, sent_at, frozenset(uids)) for (recipient, sent_at), uids in owners.items()]

    @reading
    def read_last_sent_at(self, connection: sa.Connection, cluster: str) -> datetime | None:
        """Return when the last message was sent through any channel."""
        statement = sa.select(sa.func.max(NoticeTable.sent_at)).where(NoticeTable.cluster == cluster)
        return connection.execute(statement).scalar_one_or_none()

    @reading
    def read_held(
        self, connection: sa.Connection, cluster: str, admins: Collection[str], now: datetime
    ) -> DelayedNotices:
        """Count the due mail to recipients other than administrators."""
        rows = connection.execute(
            sa.select(NoticeTable.recipient, NoticeTable.payload).where(
                is_of(cluster),
                NoticeTable.channel == "mail",
                NoticeTable.state == NoticeState.WAITING.value,
                NoticeTable.due_at <= now,
            )
        )
        held = [(recipient, payload["rule"]) for recipient, payload in rows if recipient not in admins]
        return DelayedNotices(
            notices_by_rule=Counter(rule for _, rule in held), people_count=len({each for each, _ in held})
        )


def insert_notices(connection: sa.Connection, notices: Collection[Notice]) -> None:
    """Record notices; skip those whose edge is already recorded."""
    rows = runs.find_runs(connection, {notice.run for notice in notices})
    known = _find_edges(connection, notices)
    values = [
        _to_row(notice) | {"run_id": rows.get(notice.run)}
        for notice in notices
        if (notice.recipient, notice.edge) not in known
    ]
    if values:
        connection.execute(sa.insert(NoticeTable), values)


def _read_notified(
    connection: sa.Connection, topics: Collection[str]
) -> dict[tuple[Recipient, str], TopicNotification]:
    result: dict[tuple[Recipient, str], TopicNotification] = {}
    for chunk in split(topics):
        rows = connection.execute(
            sa.select(
                NoticeTable.channel,
                NoticeTable.recipient,
                NoticeTable.topic,
                NoticeTable.kind,
                NoticeTable.severity,
                NoticeTable.created_at,
                NoticeTable.payload,
            )
            .where(NoticeTable.topic.in_(chunk), NoticeTable.state.in_(_TOLD_STATES))
            .order_by(NoticeTable.created_at, NoticeTable.id)
        )
        for channel, address, topic, kind, severity, created_at, payload in rows:
            assert topic is not None
            assert kind is not None
            assert severity is not None
            key = (Recipient(channel, address), topic)
            is_for_admin = payload.get("is_for_admin", False)
            after = TopicNotification.after(
                result.get(key), NoticeKind(kind), severity, created_at, is_for_admin=is_for_admin
            )
            if after is not None:
                result[key] = after
    return result


def _find_edges(connection: sa.Connection, notices: Collection[Notice]) -> set[tuple[Recipient, str]]:
    found: set[tuple[Recipient, str]] = set()
    keys = {(hash_path(each.recipient.address), each.recipient.channel, each.edge) for each in notices}
    unique = sa.tuple_(NoticeTable.recipient_hash, NoticeTable.channel, NoticeTable.edge)
    for chunk in split(keys):
        rows = connection.execute(
            sa.select(NoticeTable.channel, NoticeTable.recipient, NoticeTable.edge).where(unique.in_(chunk))
        )
        found |= {(Recipient(channel, address), edge) for channel, address, edge in rows}
    return found


def _to_row(notice: Notice) -> dict[str, Any]:
    payload = {name: getattr(notice, name) for name in _IN_PAYLOAD}
    payload |= {
        "job_ids": list(notice.job_ids),
        "evidence": dict(notice.evidence),
        "advice": notice.recorded_advice,
        "is_silent": notice.is_silent,
        "is_for_admin": notice.is_for_admin,
        "refused_address": notice.refused_address,
        "uid": notice.run.uid,
        "directory": notice.run.directory,
    }
    return {
        "cluster": notice.cluster,
        "recipient": notice.recipient.address,
        "recipient_hash": hash_path(notice.recipient.address),
        "channel": notice.recipient.channel,
        "edge": notice.edge,
        "kind": notice.kind.value,
        "severity": notice.severity,
        "topic": notice.topic,
        "state": NoticeState.WAITING.value,
        "payload": payload,
        "created_at": notice.created_at,
        "due_at": notice.due_at,
        "next_try_at": notice.due_at,
        "try_count": 0,
    }


def notice_from_row(row: Any) -> Notice:
    payload = row.payload
    directory = payload["directory"] if row.directory is None else row.directory
    return Notice(
        notice_id=row.id,
        cluster=row.cluster,
        recipient=Recipient(row.channel, row.recipient),
        kind=NoticeKind(row.kind),
        severity=row.severity,
        topic=row.topic,
        edge=row.edge,
        created_at=row.created_at,
        due_at=row.due_at,
        run=RunKey(row.cluster, payload["uid"], directory),
        job_ids=tuple(payload["job_ids"]),
        evidence=payload["evidence"],
        recorded_advice=payload["advice"],
        is_silent=payload["is_silent"],
        is_for_admin=payload.get("is_for_admin", False),
        refused_address=payload.get("refused_address"),  # earlier versions recorded none
        **{name: payload[name] for name in _IN_PAYLOAD},
    )
