"""Reads the records of runs with plain SQL: open jobs, attempts, checkpoints, the last scan."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, cast

from ckptd.core.discovery.generic_job_names import is_generic
from ckptd.core.model import (
    NOTHING,
    Attempt,
    AttemptProgress,
    Job,
    RecordedCheckpoint,
    RunKey,
    RunRecord,
    Scan,
    Totals,
    Unknown,
    UserSettings,
)
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.stored_unrecognised import decode_unrecognised
from ckptd.core.rows.text_escapes import encode_text
from ckptd.core.rows.word_codes import COMPLETE, DAMAGED, STATE, WRITING
from ckptd.core.runs.attempt_progress import SavedProgress, measure_reaches
from ckptd.core.runs.cadence import with_rhythm
from ckptd.core.runs.user_settings import parse_user_settings
from ckptd.store.attempt_rows import read_attempts, read_job_names
from ckptd.store.checkpoint_rows import REMEMBERED_COUNT, age_order, read_where
from ckptd.store.fresh_checkpoints import SelectedCheckpoints, add_reaches
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import JOB, RUN_KEY, Columns, decode_any, decode_number, list_numbers
from ckptd.store.row_values import decode_free_space, decode_summed, job_from_row, split
from ckptd.store.run_parts import find_parts
from ckptd.store.run_rows import IS_LOCATED

# newest ones in a history, and newest ones that were complete once: enough for medians of intervals, and failed saves
# hide none that a restart can load; pruning reads all of them
CHECKPOINT_LIMIT = 64
NAMESAKES = 1000  # latest jobs of one name that tell whether jobs like a new one save
NAMES_AT_ONCE = 100  # in one statement
MEASURED_COUNT = 50_000  # checkpoints whose progress is in memory at once, or those of one run

_RUN = Columns(
    (
        "id", "revision", "scanned_at", "user_settings", "free_space_samples", "cluster", "uid", "directory", "user",
        "located_by", "recorded_since", "problems", "leftovers", "unrecognised_file", "free_bytes", "total_bytes",
        "quota_left_bytes", "quota_error", "filesystem_type", "unknown_what", "unknown_reason", "summed_checkpoints",
    )
)  # fmt: skip
_NO_SETTINGS = UserSettings()
Others = dict[tuple[str, str], list[tuple[RunKey, Job, str]]]


def load_records(
    select: Select,
    row_ids: Collection[int],
    *,
    is_whole: bool,
    selected: Mapping[int, SelectedCheckpoints] = MappingProxyType({}),
) -> dict[int, tuple[int, RunRecord]]:
    """Return the revision and record of these runs, by row id.

    `is_whole` reads all checkpoints that are there and the latest deleted ones, as pruning needs them. The checkpoints
    of runs in `selected` are not read. Those that are the same as before stay packed: their scan lists none, and their
    rhythm is measured by whoever unpacks them.
    """
    result: dict[int, tuple[int, RunRecord]] = {}
    for chunk in split(row_ids):
        runs = list_numbers(chunk)
        open_jobs, suspended = _load_jobs(select, runs)
        parts = find_parts(select, chunk)
        attempts = read_attempts(select, chunk, parts)
        names = read_job_names(select, [row_id for row_id in chunk if len(attempts[row_id]) > 1], parts)
        unread = [row_id for row_id in chunk if row_id not in selected]
        found: dict[int, Sequence[RecordedCheckpoint]] = defaultdict(list)
        found |= _load_checkpoints(select, list_numbers(unread), is_whole=is_whole) if unread else {}
        truncated = [row_id for row_id in unread if len(found[row_id]) >= CHECKPOINT_LIMIT]
        totals = _load_totals(select, truncated)
        kept = {row_id: selected[row_id] for row_id in chunk if row_id in selected}
        for row_id, each in kept.items():
            found[row_id] = each.checkpoints if each.is_same else sorted(each.checkpoints, key=age_order)
            totals |= {} if each.totals is None else {row_id: each.totals}
        reaches = _measure_reaches(select, attempts, truncated, kept, totals)
        savers = _find_savers(select, runs)
        for row in select(f"SELECT {_RUN.of('r')} FROM runs r WHERE r.id IN ({runs})", {}):  # noqa: S608
            row_id, revision, scanned_at, user_settings, free_space, cluster, uid, directory, *rest = _RUN.decode(row)
            key, (user, located_by, since, *scanned, summed) = RunKey(cluster, uid, directory), rest
            is_same = row_id in kept and kept[row_id].is_same
            record = RunRecord(
                key=key,
                user=user,
                located_by=located_by,
                jobs=tuple(open_jobs[row_id]),
                suspended_until=suspended.get(row_id, NOTHING),
                attempts=tuple(attempts[row_id]),
                checkpoints=cast("tuple[RecordedCheckpoint, ...]", found[row_id]) if is_same else tuple(found[row_id]),
                polled_at=None,
                scan=_scan(key, scanned_at, scanned, () if is_same else found[row_id]),
                recorded_since=since,
                user_settings=parse_user_settings(user_settings) if user_settings else _NO_SETTINGS,
                free_space_samples=decode_free_space(free_space),
                job_names=names.get(row_id, NOTHING),
                has_saved_before=row_id in savers,
                is_truncated=row_id in reaches,
                totals=totals.get(row_id),
                summed=decode_summed(summed),
                reaches=reaches.get(row_id),
            )
            result[row_id] = (revision, record if is_whole or is_same else with_rhythm(record))  # pruning asks for none
    return result


def _load_jobs(select: Select, runs: str) -> tuple[dict[int, list[Job]], dict[int, dict[int, datetime]]]:
    """Return the open jobs of each run, and the end of the last suspension of those that were suspended."""
    result: dict[int, list[Job]] = defaultdict(list)
    suspended: dict[int, dict[int, datetime]] = defaultdict(dict)
    rows = select(
        f"""
        SELECT j.run_id, j.suspended_until, {JOB.of("j")} FROM jobs j
        WHERE j.run_id IN ({runs}) AND j.ended_at IS NULL ORDER BY j.id
        """,  # noqa: S608 - row ids
        {},
    )
    for row_id, until, *rest in rows:
        job = job_from_row(JOB.decode(rest))
        result[row_id].append(job)
        if (last := instant(until)) is not None:
            suspended[row_id][job.job_id] = last
    return result, suspended


def _measure_reaches(
    select: Select,
    attempts: Mapping[int, Sequence[Attempt]],
    truncated: Iterable[int],
    kept: Mapping[int, SelectedCheckpoints],
    totals: Mapping[int, Totals],
) -> dict[int, tuple[AttemptProgress, ...]]:
    """Return how far each attempt got, of runs whose histories leave out checkpoints."""
    known = {row_id: each.earlier for row_id, each in kept.items() if each.earlier is not None}
    counted = {
        row_id for row_id, record in known.items() if _list_spans(record.attempts) == _list_spans(attempts[row_id])
    }
    reaches = {
        row_id: measure_reaches(attempts[row_id], each.saved) for row_id, each in kept.items() if each.saved is not None
    }
    for some in _split_by_total([*truncated, *(known.keys() - counted)], totals):
        saved = _load_saved(select, some)
        reaches |= {row_id: measure_reaches(attempts[row_id], each) for row_id, each in saved.items()}
    return reaches | {row_id: add_reaches(known[row_id], reaches[row_id]) for row_id in counted}


def _split_by_total(row_ids: Iterable[int], totals: Mapping[int, Totals]) -> Iterator[list[int]]:
    """Yield runs in portions with a bounded number of checkpoints, or of one run."""
    portion: list[int] = []
    count = 0
    for row_id in row_ids:
        count += totals[row_id].checkpoint_count
        if portion and count > MEASURED_COUNT:
            yield portion
            portion, count = [], totals[row_id].checkpoint_count
        portion.append(row_id)
    if portion:
        yield portion


def _list_spans(attempts: Iterable[Attempt]) -> list[tuple[datetime, datetime | None]]:
    return [(each.started_at, each.ended_at) for each in attempts]


_WAS_COMPLETE = "c.completed_at IS NOT NULL"
_WAS_STATE = f"({_WAS_COMPLETE} AND c.role = {STATE})"
_IS_USABLE = f"(c.deleted_at IS NULL AND c.state = {COMPLETE})"
_BY_PROGRESS = "coalesce(c.step, -1) DESC, coalesce(c.epoch, -1.0) DESC, c.first_seen_at DESC, c.id DESC"


def _rank(is_one: str, order: str) -> str:
    """Number the checkpoints of each run that fulfil a condition, in an order; the others come behind them."""
    return f"row_number() OVER (PARTITION BY c.run_id ORDER BY CASE WHEN {is_one} THEN 0 ELSE 1 END, {order})"


# include the furthest one, however old: rules compare a restart's progress with it.
# any number of `data` checkpoints beside them must not hide the states
_NEWEST = f"""
SELECT id FROM (
    SELECT c.id AS id,
        row_number() OVER (PARTITION BY c.run_id ORDER BY c.first_seen_at DESC, c.modified_at DESC, c.id) AS place,
        CASE WHEN {_WAS_COMPLETE} THEN 1 ELSE 0 END AS was_complete,
        {_rank(_WAS_COMPLETE, "c.completed_at DESC, c.id")} AS completed,
        {_rank(_WAS_COMPLETE, _BY_PROGRESS)} AS reach,
        CASE WHEN {_WAS_STATE} THEN 1 ELSE 0 END AS was_state,
        {_rank(_WAS_STATE, "c.completed_at DESC, c.id")} AS states,
        {_rank(_WAS_STATE, _BY_PROGRESS)} AS state_reach,
        CASE WHEN {_IS_USABLE} THEN 1 ELSE 0 END AS is_usable,
        {_rank(_IS_USABLE, "c.modified_at DESC, c.id")} AS usable,
        {_rank(_IS_USABLE, _BY_PROGRESS)} AS usable_reach
    FROM checkpoints c WHERE c.run_id IN ({{runs}})
) ranked
WHERE place <= :count
    OR was_complete = 1 AND (completed <= :count OR reach = 1)
    OR was_state = 1 AND (states <= :count OR state_reach = 1)
    OR is_usable = 1 AND (usable = 1 OR usable_reach = 1)
"""  # noqa: S608 - the conditions are this module's own
_IS_ODD = f"(c.unsafe IS NOT NULL OR c.owner_uids <> '[]' OR c.state = {WRITING})"
# present checkpoints that can open a flag at any age: unsafe, of another owner, or unfinished; and those compared with
# an original, which must not hide them. The limit of each kind is that of the newest checkpoints; if there are more,
# those selected suffice for the flag
_ODD = f"""
SELECT id FROM (
    SELECT c.id AS id, row_number() OVER (
        PARTITION BY c.run_id, CASE WHEN {_IS_ODD} THEN 1 ELSE 0 END ORDER BY c.first_seen_at DESC, c.id
    ) AS place
    FROM checkpoints c
    WHERE c.run_id IN ({{runs}}) AND c.deleted_at IS NULL AND ({_IS_ODD} OR c.comparisons IS NOT NULL)
) odd WHERE place <= :odd_count
"""  # noqa: S608 - the codes are this package's own


def _load_checkpoints(select: Select, runs: str, *, is_whole: bool) -> dict[int, list[RecordedCheckpoint]]:
    wanted = f"c.id IN ({_NEWEST.format(runs=runs)}) OR c.id IN ({_ODD.format(runs=runs)})"
    if is_whole:
        wanted += " OR c.deleted_at IS NULL"
    wanted = f"c.run_id IN ({runs}) AND ({wanted})"  # otherwise PostgreSQL checks every checkpoint on record
    limit = REMEMBERED_COUNT if is_whole else CHECKPOINT_LIMIT
    return read_where(select, wanted, values={"count": limit, "odd_count": CHECKPOINT_LIMIT})


_UNLOCATED_JOBS = """
SELECT j.run_id, r.cluster, r.uid, j.name, j.work_dir FROM jobs j JOIN runs r ON r.id = j.run_id
WHERE j.run_id IN ({runs}) AND j.ended_at IS NULL AND NOT ({is_located}) AND j.work_dir IS NOT NULL
"""
# the latest ones alone, because a user may have a million jobs of one name
_HAS_SAVED = f"""
SELECT {{place}} WHERE EXISTS (
    SELECT 1 FROM (
        SELECT run_id, work_dir FROM jobs WHERE uid = {{uid}} AND name = :n{{place}} ORDER BY id DESC LIMIT :count
    ) j JOIN runs r ON r.id = j.run_id
    WHERE r.cluster = :c{{place}} AND j.work_dir = :w{{place}} AND {IS_LOCATED}
        AND EXISTS (SELECT 1 FROM checkpoints c WHERE c.run_id = r.id AND c.completed_at IS NOT NULL)
)
"""  # noqa: S608 - row ids


def _find_savers(select: Select, runs: str) -> set[int]:
    """Return the runs without a directory whose users have other jobs of equal name and working directory that saved.

    Only the latest NAMESAKES of each name count. Generic names, such as `bash`, prove nothing and are skipped.
    """
    wanted: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row_id, *job in select(_UNLOCATED_JOBS.format(runs=runs, is_located=IS_LOCATED), {}):
        if not is_generic(decode_any(job[2])):
            wanted[tuple(job)].append(row_id)
    found: set[int] = set()
    for start in range(0, len(wanted), NAMES_AT_ONCE):
        jobs = list(wanted)[start : start + NAMES_AT_ONCE]
        values: dict[str, object] = {"count": NAMESAKES}
        for place, (cluster, _, name, work_dir) in enumerate(jobs):
            values |= {f"c{place}": cluster, f"n{place}": name, f"w{place}": work_dir}
        asked = (_HAS_SAVED.format(place=place, uid=int(job[1])) for place, job in enumerate(jobs))
        for (place,) in select(" UNION ALL ".join(asked), values):
            found.update(wanted[jobs[place]])
    return found


# sparse files may claim more than a whole number holds
_TOTALS = f"""
SELECT c.run_id, count(*), sum(CAST(c.size_bytes AS FLOAT)),
    sum(CASE WHEN c.state = {DAMAGED} AND (good.modified_at IS NULL OR c.modified_at > good.modified_at)
        THEN 1 ELSE 0 END)
FROM checkpoints c LEFT JOIN (
    SELECT run_id, max(modified_at) AS modified_at FROM checkpoints
    WHERE run_id IN ({{runs}}) AND deleted_at IS NULL AND state = {COMPLETE} GROUP BY run_id
) good ON good.run_id = c.run_id
WHERE c.run_id IN ({{runs}}) AND c.deleted_at IS NULL
GROUP BY c.run_id
"""  # noqa: S608 - the codes are this package's own


def _load_totals(select: Select, row_ids: list[int]) -> dict[int, Totals]:
    """Return what all checkpoints that are there add up to, of each run."""
    rows = select(_TOTALS.format(runs=list_numbers(row_ids)), {}) if row_ids else ()
    found = {row_id: Totals(int(count), int(size), int(damaged)) for row_id, count, size, damaged in rows}
    return {row_id: found.get(row_id, Totals(0, 0, 0)) for row_id in row_ids}


def _load_saved(select: Select, row_ids: list[int]) -> dict[int, list[SavedProgress]]:
    """Return the completion time and progress of every checkpoint of these runs, without a limit."""
    result: dict[int, list[SavedProgress]] = {row_id: [] for row_id in row_ids}
    statement = f"""
        SELECT run_id, completed_at, step, epoch, role FROM checkpoints
        WHERE run_id IN ({list_numbers(row_ids)}) AND completed_at IS NOT NULL
    """  # noqa: S608 - row ids
    for row_id, at, step, epoch, role in select(statement, {}) if row_ids else ():
        if (completed_at := instant(at)) is not None:
            number = None if epoch is None else decode_number(epoch)
            result[row_id].append(SavedProgress(completed_at, step, number, is_state=role == STATE))
    return result


def _scan(
    key: RunKey, scanned_at: datetime | None, scanned: list[Any], found: Iterable[RecordedCheckpoint]
) -> Scan | Unknown | None:
    problems, leftovers, unrecognised, *space, quota_error, kind, what, reason = scanned
    if what is not None:
        return Unknown(what=what, reason=reason)
    if scanned_at is None:
        return None
    return Scan(
        directory=PurePosixPath(key.directory),
        scanned_at=scanned_at,
        checkpoints=tuple(known.checkpoint for known in found if known.deleted_at is None),
        problems=tuple(Unknown(what=problem[0], reason=problem[1]) for problem in problems or ()),
        leftovers=tuple(leftovers or ()),
        free_bytes=space[0],
        total_bytes=space[1],
        quota_left_bytes=space[2],
        quota_error=quota_error,
        filesystem_type=kind,
        unrecognised=decode_unrecognised(unrecognised),
    )


_SHARED = f"""
SELECT {RUN_KEY.of("r")}, r."user", {JOB.of("j")} FROM runs r JOIN jobs j ON j.run_id = r.id
WHERE j.cluster = :cluster AND j.ended_at IS NULL AND j.state = 'RUNNING' AND {IS_LOCATED} AND EXISTS (
    SELECT 1 FROM runs o WHERE o.cluster = :cluster AND o.directory_hash = r.directory_hash AND o.id <> r.id
)
"""  # noqa: S608 - the columns are this package's own


def read_other_writers(select: Select, cluster: str) -> Others:
    """Return the running jobs of the directories that several users' runs share, by directory."""
    result: Others = defaultdict(list)
    for row in select(_SHARED, {"cluster": encode_text(cluster)}):
        key = RunKey(*RUN_KEY.decode(row[:3]))
        result[key.cluster, key.directory].append((key, job_from_row(JOB.decode(row[4:])), decode_any(row[3])))
    return result
