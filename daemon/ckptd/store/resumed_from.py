"""Records what attempts resumed from, as far as the recorded checkpoints show it.

It is inferred again with every change of a run's checkpoints, until the attempt has completed enough checkpoints, or
its directory was read after its end.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core.model import Attempt, CheckpointRead, DeclaredResume, JobKey, Resume, ResumeReason
from ckptd.core.runs import candidate_reads
from ckptd.core.runs.declared_resume import find_of_attempt
from ckptd.core.runs.resumed_from import SURE_COUNT, find_resume, list_own_states
from ckptd.core.runs.rotated_copies import date_by_original
from ckptd.core.runs.saved_state import SavedState
from ckptd.store import lost_work, runs, saved_states
from ckptd.store.engine import select_through
from ckptd.store.rows import ATTEMPT_COLUMNS, ROW_IDS, attempt_from_row, resume_to_row, split, table_of
from ckptd.store.run_parts import add_parts, find_parts
from ckptd.store.saved_states import FurtherRow
from ckptd.store.tables import AttemptTable, JobTable, RunTable

PENDING_COUNT = 20  # latest attempts of one run that are asked about at once
ATTEMPT_COUNT = 100  # latest ones of a run
RUNS_AT_ONCE = 20  # each with up to a thousand states in memory


class _RecordedAttempt(NamedTuple):
    """One attempt on record."""

    row_id: int
    attempt: Attempt
    is_final: bool
    declared: str | None
    is_own: bool = True  # False: of another part of the run, whose daemon records what it resumed from


class _DirectoryScan(NamedTuple):
    """When a run's directory was last read, and whether completely."""

    scanned_at: datetime | None
    is_whole: bool


def record_resumes(connection: sa.Connection, run_ids: Collection[int]) -> list[int]:
    """Infer again what attempts of these runs resumed from, and record it; return the changed runs."""
    changed: list[int] = []
    for chunk in split(run_ids):
        wanted = connection.scalars(_PENDING, {"row_ids": chunk}).all()
        for start in range(0, len(wanted), RUNS_AT_ONCE):
            changed += _record_runs(connection, _read_scans(connection, wanted[start : start + RUNS_AT_ONCE]))
    if changed:
        runs.touch_runs(connection, changed)
        lost_work.write_redone(connection, changed)
    return changed


def list_unasked(connection: sa.Connection, run_ids: Collection[int]) -> list[int]:
    """Return those of these runs with an attempt for which it was never inferred what it resumed from."""
    found: list[int] = []
    for chunk in split(run_ids):
        found += connection.scalars(_UNASKED, {"row_ids": chunk})
    return found


_PENDING = (
    sa.select(AttemptTable.run_id)
    .where(AttemptTable.run_id.in_(ROW_IDS), AttemptTable.is_resume_final.is_not(True))
    .distinct()
)
_UNASKED = _PENDING.where(AttemptTable.resume.is_(None))


def record_declared(connection: sa.Connection, by_run: Mapping[int, Sequence[DeclaredResume]]) -> list[int]:
    """Record what attempts of these runs say that they loaded; return the runs where one says something new."""
    changed: list[int] = []
    values: list[dict[str, Any]] = []
    declaring = {run_id: declared for run_id, declared in by_run.items() if declared}
    for chunk in split(declaring):
        places = sa.select(RunTable.id, RunTable.directory).where(RunTable.id.in_(chunk))
        known = _read_attempts(connection, chunk)
        for run_id, directory in connection.execute(places).all():
            attempts = [each.attempt for each in known[run_id]]
            pending = [each for each in known[run_id] if not each.is_final and each.is_own][:PENDING_COUNT]
            for each in pending:
                said = find_of_attempt(declaring[run_id], each.attempt, attempts, directory)
                path = None if said is None else said.real_path or said.path
                if path is not None and path != each.declared:
                    values.append({"key_id": each.row_id, "declared_resume": path})
                    changed.append(run_id)
    if values:
        table = table_of(AttemptTable)
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)
    return list(dict.fromkeys(changed))


def record_reads(connection: sa.Connection, by_run: Mapping[int, Sequence[CheckpointRead]]) -> list[int]:
    """Record which candidates the newest attempt of each run has read; return the runs where one was, as news."""
    changed: list[int] = []
    values: list[dict[str, Any]] = []
    attempts = _read_attempts(connection, by_run)
    for run_id, seen in by_run.items():
        known = next((each for each in attempts[run_id] if not each.is_final and each.is_own), None)
        resume = None if known is None else known.attempt.resumed_from
        asked = () if resume is None else candidate_reads.list_asked(resume)
        if known is None or resume is None or not asked:
            continue
        merged = candidate_reads.merge(resume.reads, [each for each in seen if each.path in asked])
        if merged != resume.reads:
            values.append({"key_id": known.row_id, **resume_to_row(replace(resume, reads=merged))})
            changed.append(run_id)
    if values:
        table = table_of(AttemptTable)
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)
    return changed


def _read_scans(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, _DirectoryScan]:
    """Return the last scan of each of these runs that has a directory."""
    rows = connection.execute(_LAST_SCANS, {"row_ids": list(run_ids)})
    return {run_id: _DirectoryScan(scanned_at, bool(whole)) for run_id, scanned_at, whole in rows}


_LAST_SCANS = sa.select(
    RunTable.id, RunTable.scanned_at, RunTable.unknown_what.is_(None) & RunTable.problems.is_(None)
).where(RunTable.id.in_(ROW_IDS), RunTable.directory.like("/%"))


def _record_runs(connection: sa.Connection, scans: Mapping[int, _DirectoryScan]) -> list[int]:
    known = _read_attempts(connection, scans)
    saved = saved_states.read_saved_states(connection, scans)
    copies = saved_states.find_copy_rows(connection, scans)
    values: list[dict[str, Any]] = []
    changed: list[int] = []
    for run_id, directory in scans.items():
        further = copies.get(run_id, [])
        copied = saved_states.read_copied_states(connection, further, saved[run_id])
        states = date_by_original([*saved[run_id], *copied])
        found = _infer(known[run_id], states, _with_copies(connection, directory, further))
        values += [
            {"key_id": each.row_id, "is_resume_final": is_final, **resume_to_row(resume)}
            for each, resume, is_final in found
        ]
        if any(resume != each.attempt.resumed_from for each, resume, _ in found):
            changed.append(run_id)
    if values:
        table = table_of(AttemptTable)
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)
    return changed


def _infer(
    known: Sequence[_RecordedAttempt], states: Sequence[SavedState], directory: _DirectoryScan
) -> list[tuple[_RecordedAttempt, Resume, bool]]:
    """Return what attempts of one run resumed from, where this is news, and whether it is final."""
    attempts = [each.attempt for each in known]
    found: list[tuple[_RecordedAttempt, Resume, bool]] = []
    for each in [each for each in known if not each.is_final and each.is_own][:PENDING_COUNT]:
        attempt = each.attempt
        is_read = directory.is_whole and directory.scanned_at is not None and directory.scanned_at >= attempt.started_at
        reads = attempt.resumed_from.reads if attempt.resumed_from else ()
        resume = find_resume(attempt, attempts, states, is_read=is_read, declared=each.declared, reads=reads)
        is_final = _is_final(attempt, attempts, states, directory)
        if resume == attempt.resumed_from and not is_final:
            continue
        if resume.reason is ResumeReason.NOT_READ and attempt.resumed_from is None:
            continue  # left unasked, so that the next scan asks, also one that finds nothing new
        found.append((each, resume, is_final))
    return found


def _with_copies(
    connection: sa.Connection, directory: _DirectoryScan, copies: Collection[FurtherRow]
) -> _DirectoryScan:
    """Return since when a run's locations are known: that of which the least is known counts."""
    is_whole = RunTable.unknown_what.is_(None) & RunTable.problems.is_(None)
    rows = (
        connection.execute(
            sa.select(RunTable.scanned_at, is_whole).where(RunTable.id.in_([each.row_id for each in copies]))
        )
        if copies
        else ()
    )
    for scanned_at, whole in rows:
        known = [at for at in (directory.scanned_at, scanned_at) if at is not None]
        oldest = min(known) if len(known) > 1 else None
        directory = _DirectoryScan(oldest, directory.is_whole and bool(whole))
    return directory


def _is_final(
    attempt: Attempt, attempts: Iterable[Attempt], states: Iterable[SavedState], directory: _DirectoryScan
) -> bool:
    """Whether nothing more will be learned: it has saved enough, or its directory was read after its end.

    What the job says is read by the first scan after the attempt was recorded.
    """
    is_heard = directory.scanned_at is not None and directory.scanned_at > attempt.first_seen_at
    if is_heard and len(list_own_states(attempt, attempts, states)) >= SURE_COUNT:
        return True
    scanned_at = directory.scanned_at if directory.is_whole else None
    return attempt.ended_at is not None and scanned_at is not None and scanned_at >= attempt.ended_at


def _read_attempts(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, list[_RecordedAttempt]]:
    """Return the latest attempts of each run, newest first; those of its other parts are joined."""
    parts = find_parts(select_through(connection), run_ids)
    found = _read_own_attempts(connection, add_parts(run_ids, parts))
    for run_id, others in {run_id: [found[each] for each in parts[run_id]] for run_id in parts}.items():
        theirs = [each._replace(is_own=False) for attempts in others for each in attempts]
        newest_first = sorted([*found[run_id], *theirs], key=lambda each: each.attempt.started_at, reverse=True)
        found[run_id] = newest_first[:ATTEMPT_COUNT]
    return found


def _read_own_attempts(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, list[_RecordedAttempt]]:
    found: dict[int, list[_RecordedAttempt]] = {run_id: [] for run_id in run_ids}
    for chunk in split(found):
        for run_id, row_id, is_final, declared, *rest in connection.execute(_OWN_ATTEMPTS, {"row_ids": chunk}):
            attempt = attempt_from_row(JobKey(*rest[:3]), rest[3:])
            found[run_id].append(_RecordedAttempt(row_id, attempt, bool(is_final), declared))
    return found


def _select_own_attempts() -> sa.Select[Any]:
    newest_first: list[sa.ColumnElement[Any]] = [AttemptTable.started_at.desc(), AttemptTable.id.desc()]
    place = sa.func.row_number().over(partition_by=AttemptTable.run_id, order_by=newest_first).label("place")
    ranked = sa.select(AttemptTable.id, place).where(AttemptTable.run_id.in_(ROW_IDS)).subquery()
    columns: list[Any] = [AttemptTable.run_id, AttemptTable.id, AttemptTable.is_resume_final]
    columns += [AttemptTable.declared_resume, JobTable.cluster, JobTable.job_id, JobTable.first_seen_at]
    return (
        sa.select(*columns, *ATTEMPT_COLUMNS)
        .join(ranked, ranked.c.id == AttemptTable.id)
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .where(ranked.c.place <= ATTEMPT_COUNT)
        .order_by(*newest_first)
    )


_OWN_ATTEMPTS = _select_own_attempts()
