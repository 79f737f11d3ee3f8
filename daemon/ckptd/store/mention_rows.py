"""Reads the paths that queued jobs and links refer to, with plain SQL."""

from collections.abc import Collection, Iterable
from typing import Any

from ckptd.core.discovery.path_mentions import JobMentions, Mention
from ckptd.core.model import RunKey, SeenLink
from ckptd.core.retention import SeenLinks
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import encode_text
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import RUN_KEY, Columns, list_numbers
from ckptd.store.read_parts import Readable, ReadPart, selecting
from ckptd.store.row_values import split

MENTION_FIELDS = ("job_id", "uid", "user", "is_waiting", "started_at", "work_dir", "is_script_awaited")
_LISTS = ("mentions", "script_mentions", "resolved", "links")
_MENTIONS = Columns(("cluster", *MENTION_FIELDS, *_LISTS))
_LINKS = Columns(("scanned_at", "links"))


class MentionReader(ReadPart):
    """Paths that queued jobs and links refer to. Rows that did not change are read from memory."""

    def __init__(self, database: Readable) -> None:
        super().__init__(database)
        self._held: dict[str, dict[int, tuple[str, JobMentions]]] = {}  # by condition and row, with its revision

    @selecting
    def read(self, select: Select, cluster: str) -> list[JobMentions]:
        """Return the paths that every job of a cluster names."""
        return self._read(select, "cluster = :cluster", cluster)

    @selecting
    def read_elsewhere(self, select: Select, cluster: str) -> list[JobMentions]:
        """Return the paths that every job of the other clusters names, as their daemons recorded them last."""
        return self._read(select, "cluster <> :cluster", cluster)

    def _read(self, select: Select, condition: str, cluster: str) -> list[JobMentions]:
        statement = f"SELECT id, revision FROM mentions WHERE {condition} ORDER BY cluster, job_id"  # noqa: S608
        rows = list(select(statement, {"cluster": encode_text(cluster)}))
        held = self._held.get(condition, {})
        fresh = _load(select, [row_id for row_id, revision in rows if held.get(row_id, ("",))[0] != revision])
        held = self._held[condition] = {row_id: fresh.get(row_id) or held[row_id] for row_id, _ in rows}
        return [mentions for _, mentions in held.values()]

    @selecting
    def read_unknown_reason(self, select: Select, cluster: str) -> str | None:
        """Return why the paths that jobs name now are unknown; None if they are known."""
        statement = "SELECT polled_at, mentions_at FROM clusters WHERE name = :cluster"
        rows = select(statement, {"cluster": encode_text(cluster)})
        polled_at, mentions_at = next((tuple(map(instant, row)) for row in rows), (None, None))
        if polled_at is not None and (mentions_at is None or mentions_at < polled_at):
            return "what the jobs in the queue name has not been read yet"
        return None

    @selecting
    def read_links(self, select: Select, uids: Collection[int]) -> dict[int, list[SeenLinks]]:
        """Return the links that the last scans of these owners' runs found, of all clusters, by owner."""
        found: dict[int, list[SeenLinks]] = {}
        for chunk in split(uids):
            statement = f"""
                SELECT {RUN_KEY.of("r")}, {_LINKS.of("r")} FROM runs r
                WHERE r.uid IN ({list_numbers(chunk)}) AND r.links IS NOT NULL ORDER BY r.id
            """  # noqa: S608 - uids
            for row in select(statement, {}):
                key = RunKey(*RUN_KEY.decode(row[:3]))
                scanned_at, links = _LINKS.decode(row[3:])
                found.setdefault(key.uid, []).append(SeenLinks(key, scanned_at, _decode_links(links)))
        return found


def _load(select: Select, row_ids: Collection[int]) -> dict[int, tuple[str, JobMentions]]:
    found: dict[int, tuple[str, JobMentions]] = {}
    for chunk in split(row_ids):
        statement = f"""
            SELECT m.id, m.revision, {_MENTIONS.of("m")} FROM mentions m WHERE m.id IN ({list_numbers(chunk)})
        """  # noqa: S608 - row ids
        for row_id, revision, *rest in select(statement, {}):
            values: dict[str, Any] = dict(zip(_MENTIONS.names, _MENTIONS.decode(rest), strict=True))
            script = values.pop("script_mentions")
            mentions = JobMentions(
                mentions=tuple(Mention(*each) for each in values.pop("mentions")),
                script_mentions=None if script is None else tuple(Mention(*each) for each in script),
                links=_decode_links(values.pop("links")),
                **values,
            )
            found[row_id] = (revision, mentions)
    return found


def _decode_links(links: Iterable[Any] | None) -> tuple[SeenLink, ...]:
    return tuple(SeenLink(*each) for each in links or ())
