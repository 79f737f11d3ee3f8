"""Reads with plain SQL what pruning needs of runs: all checkpoints, the latest job, the settings of the user."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ckptd.core.model import Job, RunKey, RunRecord
from ckptd.core.model.records import PrunableRun
from ckptd.core.retention import plan_as_copy, sort_retention_settings
from ckptd.core.rows.text_escapes import encode_text
from ckptd.store.histories import HistoryCache
from ckptd.store.named_locations import read_primaries
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import JOB, RUN_KEY, Columns, list_numbers
from ckptd.store.read_parts import Readable, ReadPart, selecting
from ckptd.store.row_values import job_from_row, split
from ckptd.store.run_rows import IS_LOCATED, find_runs

_SETTINGS = Columns(("id", "retention_settings"))
_PLURAL = f"""
SELECT {RUN_KEY.of("r")} FROM runs r JOIN checkpoints c ON c.run_id = r.id
WHERE r.cluster = :cluster AND {IS_LOCATED} AND c.deleted_at IS NULL AND c.pruned_at IS NULL
GROUP BY r.id, {RUN_KEY.of("r")} HAVING count(*) > 1
"""  # noqa: S608 - the columns are this package's own


HELD_COUNT = 100_000  # checkpoints that pruning may keep in memory


class PrunableRunReader(ReadPart):
    """Data that pruning reads of runs."""

    def __init__(self, database: Readable) -> None:
        super().__init__(database)
        self._histories = HistoryCache(held_count=HELD_COUNT, is_whole=True)

    @selecting
    def read(self, select: Select, cluster: str, keys: Collection[RunKey] | None = None) -> list[PrunableRun]:
        """Return pruning's data of these runs; with `keys` None, of all runs with at least two checkpoints.

        Pruning never removes the only checkpoint of a run.
        """
        wanted = _list_plural(select, cluster) if keys is None else keys
        found = self._histories.read(select, cluster, wanted, is_active_only=False)
        primaries = read_primaries(select, cluster, [each.key for each in found])
        found = [replace(each, primaries=primaries.get(each.key, ())) for each in found]
        owners = {each.key: each.primaries[0] for each in found if each.is_only_copy and each.primaries}
        copied = self._histories.read(select, cluster, owners.values(), is_active_only=False) if owners else []
        by_key = {each.key: each for each in copied}
        found = [
            plan_as_copy(each, by_key[owners[each.key]]) if each.is_only_copy and len(each.primaries) == 1 else each
            for each in found
        ]
        return _add_facts(select, cluster, found, owners)


def _list_plural(select: Select, cluster: str) -> list[RunKey]:
    return [RunKey(*RUN_KEY.decode(row)) for row in select(_PLURAL, {"cluster": encode_text(cluster)})]


def _add_facts(
    select: Select, cluster: str, histories: Collection[RunRecord], owners: Mapping[RunKey, RunKey]
) -> list[PrunableRun]:
    """Add the latest job and the user settings to each history; to that of a copy, those of its run in `owners`."""
    found_runs = find_runs(select, [owners.get(history.key, history.key) for history in histories])
    numbers = {history.key: found_runs[owners.get(history.key, history.key)] for history in histories}
    jobs: dict[int, Job] = {}
    settings: dict[int, Mapping[str, Mapping[str, Any]]] = {}
    for chunk in split(numbers.values()):
        statement = f"""
            SELECT j.run_id, {JOB.of("j")} FROM jobs j
            WHERE j.id IN (SELECT max(id) FROM jobs WHERE run_id IN ({list_numbers(chunk)}) GROUP BY run_id)
                AND j.cluster = :cluster
        """  # noqa: S608 - row ids
        jobs |= {
            row[0]: job_from_row(JOB.decode(row[1:])) for row in select(statement, {"cluster": encode_text(cluster)})
        }
        settings |= _read_settings(select, chunk)
    return [
        PrunableRun(
            history=history,
            job=jobs.get(numbers[history.key]),
            retention_settings=settings.get(numbers[history.key], {}),
        )
        for history in histories
    ]


def _read_settings(select: Select, row_ids: Collection[int]) -> dict[int, Mapping[str, Mapping[str, Any]]]:
    statement = f"SELECT {_SETTINGS.of('r')} FROM runs r WHERE r.id IN ({list_numbers(row_ids)})"  # noqa: S608
    found = (_SETTINGS.decode(row) for row in select(statement, {}))
    return {row_id: sort_retention_settings(written or {}) for row_id, written in found}
