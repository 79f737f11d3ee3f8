"""Reads what owners say in `.ckptd.toml` about keeping, before anything is removed.

A search for a run's directory reads the same file, but only once for each job; its owner may write it later.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.agent.scan_client import locate_jobs
from ckptd.core.discovery.nearby_candidates import DirectorySearch
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import LocationRecord, PrunableRun
from ckptd.steps.parts import Parts
from ckptd.store.database_errors import StoreError

log = logging.getLogger("ckptd.steps.prune")

MAX_RUNS = 400  # of one step, beside those from which something is removed


class _FileToRead(NamedTuple):
    run: PrunableRun
    search: DirectorySearch


def renew(parts: Parts, runs: Collection[PrunableRun], now: datetime) -> set[RunKey]:
    """Read and record the files of these runs' owners; return the runs of which a file was not read or recorded."""
    asked = [each for run in runs for each in _list_files(run, now)]
    answers = locate_jobs(parts.agent, [each.search for each in asked], (), parts.limits) if asked else []
    found, silent = [], set()
    for (run, search), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Unknown):
            silent.add(run.history.key)
            continue
        found.append(
            LocationRecord(
                jobs=(),
                run=run.history.key,
                user=run.history.user,
                located_by=None,
                user_settings=answer.user_settings,
                settings_directory=str(search.job.work_dir),
            )
        )
    return silent | _record(parts, found, now)


def _record(parts: Parts, found: Sequence[LocationRecord], now: datetime) -> set[RunKey]:
    """Record what the files say; return the runs of users whose settings could not be recorded.

    Raises:
        StoreError: the database fails, for whomever.

    """
    try:
        parts.store.located_runs.record(found, now)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - the settings of one user must not stop the removals of others
        owners = {each.run.uid for each in found}
        if len(owners) == 1:
            log.warning("the settings of uid %d could not be recorded: %s", *owners, type(error).__name__)
            return {each.run for each in found}
        return set().union(*(_record(parts, [each for each in found if each.run.uid == uid], now) for uid in owners))
    return set()


def _list_files(run: PrunableRun, now: datetime) -> Iterator[_FileToRead]:
    """Yield a search for each directory with such a file; that of the latest job comes last, because it counts most."""
    job = run.job
    if job is None or job.work_dir is None:
        return
    known = {PurePosixPath(where) for where in run.retention_settings if where.startswith("/")} - {job.work_dir}
    for work_dir in (*sorted(known), job.work_dir):
        sought = replace(job, work_dir=work_dir, comment="", admin_comment="")
        yield _FileToRead(run, DirectorySearch(job=sought, since=now, began_at=now, is_declared_only=True))
