"""Reads what the database has about the runs that a command names, without pydantic."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ckptd.cli.context import find_runs, open_listed_store
from ckptd.cli.listing_record import load_settings
from ckptd.core.model import RunKey
from ckptd.core.runs.observations import TALLY_AGE
from ckptd.errors import CkptdError
from ckptd.present import models
from ckptd.store.database_errors import UnknownRunError
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.present.responses.run_documents import ShownRunDocument

_MOST_RENAMES = 3  # of runs while they are read


class RunNotFoundError(CkptdError):
    """The database has no such job or run."""


def read_named(context: click.Context, name: str) -> "list[ShownRunDocument]":
    """Return the records of the runs named by a job id or a path.

    Raises:
        RunNotFoundError: there are none.

    """
    now = datetime.now(UTC)
    with open_listed_store(load_settings(context)) as store:
        found = _read_views(store, name, now)
        for view in found:
            view["setting_warnings"] += _read_refused(context, store, RunKey(view["cluster"], view["uid"], view["run"]))
    if not found:
        raise RunNotFoundError(f"no job or run {name!r} is on record; `ckptd jobs` lists the jobs that have started")
    return found


def _read_views(store: Store, name: str, now: datetime) -> "list[ShownRunDocument]":
    """Return the records of the runs; find them again if meanwhile the directory of one was found, which renames it."""
    for _ in range(_MOST_RENAMES):
        with suppress(UnknownRunError):
            return [view for key in find_runs(store, name) for view in _read_view(store, key, now)]
    return [view for key in find_runs(store, name) for view in _read_view(store, key, now)]


def _read_view(store: Store, key: RunKey, now: datetime) -> "list[ShownRunDocument]":
    flags = store.flags.read(include_resolved=True, run=key)
    losses, ends = store.lost_work.list_lines(key), store.restart_state.read_ends(key.cluster, now - TALLY_AGE)
    actions = models.action_rows(store.audit.list_newest(key.cluster, run=key))
    histories = store.histories.read(key.cluster, [key])
    return [
        {**models.run_view(history, flags, now, losses, ends), "actions": actions, "is_truncated": history.is_truncated}
        for history in histories
    ]


def _read_refused(context: click.Context, store: Store, key: RunKey) -> tuple[str, ...]:
    """Return the user settings about retention that the site limits; load the configuration only if there are any."""
    if not any(run.retention_settings for run in store.prune_records.read(key.cluster, [key])):
        return ()
    from ckptd.cli.whole_config import load_config  # noqa: PLC0415 - takes half as long as all else
    from ckptd.service.build_retention import build_retention  # noqa: PLC0415
    from ckptd.steps.prune import planning  # noqa: PLC0415

    return planning.list_limited_settings(store, build_retention(load_config(context)), key)
