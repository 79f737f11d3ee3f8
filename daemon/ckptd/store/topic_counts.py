"""Counts the jobs that a topic of the outbox affects, from the recorded flags when its message is made."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.notices import Notice, NoticeKind, TopicCount
from ckptd.store import runs
from ckptd.store.rows import split
from ckptd.store.tables import FlagTable, JobTable, RunTable
from ckptd.store.transactions import StorePart, reading

_JOB = sa.func.coalesce(FlagTable.job_id, 0)
_COUNTS: tuple[sa.ColumnElement[Any], ...] = (
    sa.func.count(sa.distinct(_JOB)),
    sa.func.count(sa.distinct(sa.case((FlagTable.resolved_at.is_(None), _JOB)))),
)


class TopicCountStore(StorePart):
    """Numbers of affected jobs by topic."""

    @reading
    def read(self, connection: sa.Connection, notices: Collection[Notice]) -> dict[str, TopicCount]:
        """Return, by topic, how many jobs are flagged now or have been since the first of these notices.

        Notices of resolved flags need no count.
        """
        asked = [notice for notice in notices if notice.kind is not NoticeKind.RESOLVED]
        if not asked:
            return {}
        since = min(notice.created_at for notice in asked)
        of_arrays = _count_by_array(connection, [each for each in asked if each.array_job_id is not None], since)
        of_runs = _count_by_run(connection, [each for each in asked if each.array_job_id is None], since)
        result: dict[str, TopicCount] = {}
        for notice in asked:
            if notice.array_job_id is not None:
                found = of_arrays.get((notice.rule, notice.run.uid, notice.array_job_id))
            else:
                found = of_runs.get((notice.rule, notice.run))
            if found is not None:
                result[notice.topic] = found
        return result


def _count_by_array(
    connection: sa.Connection, notices: Collection[Notice], since: datetime
) -> dict[tuple[str, int, int], TopicCount]:
    """Count by joining flags to their jobs, because no index supports the other direction."""
    if not notices:
        return {}
    clusters = {notice.cluster for notice in notices}
    flags = connection.execute(
        sa.select(FlagTable.rule, RunTable.uid, FlagTable.job_id, FlagTable.resolved_at.is_(None))
        .join(RunTable, FlagTable.run_id == RunTable.id)
        .where(
            RunTable.cluster.in_(clusters),
            FlagTable.rule.in_({notice.rule for notice in notices}),
            _is_recent(since),
        )
    ).all()
    arrays = _find_arrays(connection, clusters, {job_id for _, _, job_id, _ in flags if job_id is not None})
    seen: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    still: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for rule, uid, job_id, is_open in flags:
        array = None if job_id is None else arrays.get((uid, job_id))
        if job_id is not None and array is not None:
            seen[rule, uid, array].add(job_id)
            if is_open:
                still[rule, uid, array].add(job_id)
    return {key: TopicCount(len(job_ids), len(still[key])) for key, job_ids in seen.items()}


def _find_arrays(
    connection: sa.Connection, clusters: Collection[str], job_ids: Collection[int]
) -> dict[tuple[int, int], int | None]:
    """Return the array of each job, by owner and job id; of several jobs with the same id, the latest counts."""
    result: dict[tuple[int, int], int | None] = {}
    for chunk in split(job_ids):
        rows = connection.execute(
            sa.select(JobTable.uid, JobTable.job_id, JobTable.array_job_id)
            .where(JobTable.cluster.in_(clusters), JobTable.job_id.in_(chunk))
            .order_by(JobTable.first_seen_at)
        )
        result |= {(uid, job_id): array for uid, job_id, array in rows}
    return result


def _count_by_run(
    connection: sa.Connection, notices: Collection[Notice], since: datetime
) -> dict[tuple[str, RunKey], TopicCount]:
    result: dict[tuple[str, RunKey], TopicCount] = {}
    keys = {number: key for key, number in runs.find_runs(connection, {notice.run for notice in notices}).items()}
    for chunk in split(keys):
        rows = connection.execute(
            sa.select(FlagTable.rule, FlagTable.run_id, *_COUNTS)
            .where(FlagTable.run_id.in_(chunk), _is_recent(since))
            .group_by(FlagTable.rule, FlagTable.run_id)
        )
        result |= {(rule, keys[number]): TopicCount(*counts) for rule, number, *counts in rows}
    return result


def _is_recent(since: datetime) -> sa.ColumnElement[bool]:
    return (FlagTable.opened_at >= since) | FlagTable.resolved_at.is_(None)
