"""Paths that queued jobs and links refer to: written by polls and scans, read by pruning."""

import hashlib
import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from ckptd.core.discovery.path_mentions import JobMentions
from ckptd.store import runs
from ckptd.store.mention_rows import MENTION_FIELDS, MentionReader
from ckptd.store.rows import split
from ckptd.store.tables import MentionTable
from ckptd.store.transactions import StorePart

ROWS_AT_ONCE = 1000  # in memory for one statement: each job of a large queue may name paths


class MentionStore(StorePart, MentionReader):
    """Paths that queued jobs and links refer to. Rows that did not change are read from memory."""

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
            naming = [each for each in changed if not each.is_empty]
            for start in range(0, len(naming), ROWS_AT_ONCE):
                rows = [_to_row(each) for each in naming[start : start + ROWS_AT_ONCE]]
                connection.execute(sa.insert(MentionTable), rows)


def _to_row(each: JobMentions) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(each, name) for name in ("cluster", *MENTION_FIELDS)}
    script = each.script_mentions
    row["mentions"] = [list(mention) for mention in each.mentions]
    row["script_mentions"] = None if script is None else [list(mention) for mention in script]
    row["resolved"] = dict(each.resolved)
    row["links"] = [list(link) for link in each.links]
    content = json.dumps({name: str(value) for name, value in row.items()}, sort_keys=True)
    return row | {"revision": hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}
