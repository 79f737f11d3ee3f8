"""Reads attempts of runs with plain SQL."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from ckptd.core.model import Attempt, JobKey
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import ATTEMPT, JOB_KEY, decode_any, list_numbers
from ckptd.store.row_values import attempt_from_row, split
from ckptd.store.run_parts import NO_PARTS, add_parts, find_parts, join_lists

ATTEMPT_COUNT = 500  # latest ones of a run that are read: rules compare each with those before it

_LATEST = f"""
SELECT a.run_id, {JOB_KEY.of("j")}, {ATTEMPT.of("a")}
FROM attempts a JOIN jobs j ON a.job_row = j.id
WHERE a.run_id IN ({{runs}}) AND a.id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER (
            PARTITION BY run_id ORDER BY (CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END), started_at DESC, id DESC
        ) AS place
        FROM attempts WHERE run_id IN ({{runs}})
    ) places WHERE place <= :count
)
ORDER BY a.started_at, a.id
"""  # noqa: S608 - the columns are this package's own


_NAMES = """
SELECT a.run_id, {key}, j.name FROM attempts a JOIN jobs j ON a.job_row = j.id
WHERE a.run_id IN (
    SELECT b.run_id FROM attempts b JOIN jobs k ON b.job_row = k.id
    WHERE b.run_id IN ({runs}) GROUP BY b.run_id HAVING min(k.name) <> max(k.name)
)
ORDER BY a.started_at DESC
"""


_NAMES_OF_PARTS = """
SELECT a.run_id, {key}, j.name FROM attempts a JOIN jobs j ON a.job_row = j.id
WHERE a.run_id IN ({runs}) ORDER BY a.started_at DESC
"""


def read_job_names(
    select: Select, run_ids: Collection[int], parts: Mapping[int, tuple[int, ...]] = NO_PARTS
) -> dict[int, dict[JobKey, str]]:
    """Return the names of the jobs of those runs whose jobs, with those of their other parts, have different names."""
    result: dict[int, dict[JobKey, str]] = defaultdict(dict)
    for chunk in split(run_id for run_id in run_ids if run_id not in parts):
        for run_id, key, name in _select_names(select, _NAMES, chunk):
            result[run_id][key] = name
    for run_id in run_ids:
        if run_id in parts:
            names = {key: name for _, key, name in _select_names(select, _NAMES_OF_PARTS, (run_id, *parts[run_id]))}
            if len(set(names.values())) > 1:
                result[run_id] = names
    return result


def _select_names(select: Select, statement: str, run_ids: Collection[int]) -> Iterator[tuple[int, JobKey, str]]:
    for row in select(statement.format(runs=list_numbers(run_ids), key=JOB_KEY.of("j")), {}):
        yield row[0], JobKey(*JOB_KEY.decode(row[1:4])), decode_any(row[4])


def read_attempts(
    select: Select, run_ids: Collection[int], parts: Mapping[int, tuple[int, ...]] | None = None
) -> dict[int, list[Attempt]]:
    """Return the latest attempts of runs by the run's row id, oldest first; attempts that have not ended come first.

    Those of a run with other parts are joined. `parts` has them, if they are known.
    """
    parts = find_parts(select, run_ids) if parts is None else parts
    result = _read_own(select, add_parts(run_ids, parts) if parts else run_ids)
    if parts:
        joined = join_lists(result, parts, parts)
        for run_id, attempts in joined.items():
            result[run_id] = sorted(attempts, key=lambda each: each.started_at)[-ATTEMPT_COUNT:]
    return result


def _read_own(select: Select, run_ids: Collection[int]) -> dict[int, list[Attempt]]:
    result: dict[int, list[Attempt]] = defaultdict(list)
    for chunk in split(run_ids):
        for row in select(_LATEST.format(runs=list_numbers(chunk)), {"count": ATTEMPT_COUNT}):
            key = JobKey(*JOB_KEY.decode(row[1:4]))
            result[row[0]].append(attempt_from_row(key, ATTEMPT.decode(row[4:])))
    return result
