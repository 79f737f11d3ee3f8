"""Paths that queued jobs and links refer to: written by polls and scans, read by pruning."""

import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any

import sqlalchemy as sa

from ckptd.core.discovery.path_mentions import JobMentions, Mention
from ckptd.core.model import SeenLink
from ckptd.core.retention import SeenLinks
from ckptd.store import runs
from ckptd.store.rows import RUN_KEY_COLUMNS, run_key, split
from ckptd.store.tables import ClusterTable, MentionTable, RunTable
from ckptd.store.transactions import Database, StorePart, reading

_FIELDS = ("job_id", "uid", "user", "is_waiting", "started_at", "work_dir", "is_script_awaited")
_LISTS = ("mentions", "script_mentions", "resolved", "links")


class MentionStore(StorePart):
    """Paths that queued jobs and links refer to. Rows that did not change are read from memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._held: dict[tuple[str, int], tuple[str, JobMentions]] = {}  # by cluster and row, with its revision

    @reading
    def read(self, connection: sa.Connection, cluster: str) -> list[JobMentions]:
        """Return the paths that every job of a cluster names."""
        columns: list[Any] = [MentionTable.id, MentionTable.revision]
        rows = connection.execute(
            sa.select(*columns).where(MentionTable.cluster == cluster).order_by(MentionTable.job_id)
        ).all()
        changed = [row_id for row_id, revision in rows if self._held.get((cluster, row_id), ("",))[0] != revision]
        fresh = {(cluster, row_id): held for row_id, held in _load(connection, changed, cluster).items()}
        keys = [(cluster, row_id) for row_id, _ in rows]
        self._held = {key: fresh.get(key) or self._held[key] for key in keys}
        return [mentions for _, mentions in self._held.values()]

    def record(self, cluster: str, changed: Collection[JobMentions], gone: Collection[int] = ()) -> None:
        """Record the paths that jobs name now; delete those of the jobs in `gone`, which left the queue.

        A job that names no path has no row.
        """
        if not changed and not gone:
            return
        with self.database.writing() as connection:
            runs.ensure_cluster(connection, cluster)
            for chunk in split([*gone, *(each.job_id for each in changed)]):
                is_old = (MentionTable.cluster == cluster) & MentionTable.job_id.in_(chunk)
                connection.execute(sa.delete(MentionTable).where(is_old))
            values = [_to_row(each) for each in changed if not each.is_empty]
            if values:
                connection.execute(sa.insert(MentionTable), values)

    @reading
    def read_unknown_reason(self, connection: sa.Connection, cluster: str) -> str | None:
        """Return why the paths that jobs name now are unknown; None if they are known."""
        columns = sa.select(ClusterTable.polled_at, ClusterTable.mentions_at).where(ClusterTable.name == cluster)
        polled_at, mentions_at = connection.execute(columns).one_or_none() or (None, None)
        if polled_at is not None and (mentions_at is None or mentions_at < polled_at):
            return "what the jobs in the queue name has not been read yet"
        return None

    @reading
    def read_links(self, connection: sa.Connection, uids: Collection[int]) -> dict[int, list[SeenLinks]]:
        """Return the links that the last scans of these owners' runs found, of all clusters, by owner."""
        found: dict[int, list[SeenLinks]] = {}
        columns: list[Any] = [*RUN_KEY_COLUMNS, RunTable.scanned_at, RunTable.links]
        for chunk in split(uids):
            statement = sa.select(*columns).where(RunTable.uid.in_(chunk), RunTable.links.is_not(None))
            for row in connection.execute(statement.order_by(RunTable.id)):
                key = run_key(row)
                found.setdefault(key.uid, []).append(SeenLinks(key, row[3], decode_links(row[4])))
        return found


def _load(connection: sa.Connection, row_ids: Collection[int], cluster: str) -> dict[int, tuple[str, JobMentions]]:
    found: dict[int, tuple[str, JobMentions]] = {}
    columns: list[Any] = [getattr(MentionTable, name) for name in ("id", "revision", *_FIELDS, *_LISTS)]
    for chunk in split(row_ids):
        for row_id, revision, *rest in connection.execute(sa.select(*columns).where(MentionTable.id.in_(chunk))):
            values = dict(zip((*_FIELDS, *_LISTS), rest, strict=True))
            script = values.pop("script_mentions")
            mentions = JobMentions(
                cluster=cluster,
                mentions=tuple(Mention(*each) for each in values.pop("mentions")),
                script_mentions=None if script is None else tuple(Mention(*each) for each in script),
                links=decode_links(values.pop("links")),
                **values,
            )
            found[row_id] = (revision, mentions)
    return found


def decode_links(links: Iterable[Any] | None) -> tuple[SeenLink, ...]:
    return tuple(SeenLink(*each) for each in links or ())


def _to_row(each: JobMentions) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(each, name) for name in ("cluster", *_FIELDS)}
    script = each.script_mentions
    row["mentions"] = [list(mention) for mention in each.mentions]
    row["script_mentions"] = None if script is None else [list(mention) for mention in script]
    row["resolved"] = dict(each.resolved)
    row["links"] = [list(link) for link in each.links]
    told = json.dumps({name: str(value) for name, value in row.items()}, sort_keys=True)
    return row | {"revision": hashlib.blake2b(told.encode(), digest_size=16).hexdigest()}
