"""Reads what the database has about the runs that a command names, without SQLAlchemy and pydantic."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ckptd.cli.cluster_choice import ClusterChoice, choose_clusters
from ckptd.cli.listing_record import load_margins, load_settings, open_record
from ckptd.cli.run_names import find_runs
from ckptd.core.forecast.limit_margins import FindMargins
from ckptd.core.model import RunKey
from ckptd.core.runs.observations import TALLY_AGE
from ckptd.errors import CkptdError
from ckptd.present import models, summaries
from ckptd.store.store_reader import StoreReader, read_snapshot

if TYPE_CHECKING:
    from ckptd.present.responses.run_documents import ShownRunDocument


class RunNotFoundError(CkptdError):
    """The database has no such job or run."""


def read_named(context: click.Context, name: str, asked: str | None) -> "list[ShownRunDocument]":
    """Return the records of the runs named by a job id or a path, on this host's cluster or the one asked for.

    Raises:
        RunNotFoundError: there are none.

    """
    now = datetime.now(UTC)
    settings, find_margins = load_settings(context), load_margins(context)
    with open_record(settings) as record, read_snapshot(record) as store:
        chosen = choose_clusters(asked, settings.cluster, store.clusters.read_status())
        keys = store.runs.join_parts(find_runs(store.runs, name, chosen.name))
        elsewhere = () if keys else find_runs(store.runs, name)
        found = [view for key in keys for view in _read_view(store, key, now, find_margins)]
        for view in found:
            view["setting_warnings"] += _read_refused(context, store, RunKey(view["cluster"], view["uid"], view["run"]))
    if elsewhere:
        raise RunNotFoundError(_describe_elsewhere(name, chosen, elsewhere))
    if not found:
        raise RunNotFoundError(f"no job or run {name!r} is on record; `ckptd jobs` lists the jobs that have started")
    return found


def _describe_elsewhere(name: str, chosen: ClusterChoice, keys: Iterable[RunKey]) -> str:
    clusters = list(dict.fromkeys(key.cluster for key in keys))
    return (
        f"no job or run {name!r} is on record on {chosen.name}, but one is on {', '.join(clusters)}: "
        f"add `--cluster {clusters[0]}`"
    )


def _read_view(store: StoreReader, key: RunKey, now: datetime, find_margins: FindMargins) -> "list[ShownRunDocument]":
    flags = store.flags.read(include_resolved=True, run=key)
    losses, ends = store.lost_work.list_lines(key), store.restart_state.read_ends(key.cluster, now - TALLY_AGE)
    actions = models.action_rows(store.audit.list_newest(key.cluster, run=key))
    histories = store.histories.read(key.cluster, [key])
    refused = [summaries.describe_refused_address(*each) for each in store.notices.list_refused_addresses(key)]
    views: list[ShownRunDocument] = [
        {
            **models.run_view(history, flags, now, losses, ends, find_margins(history)),
            "actions": actions,
            "is_truncated": history.is_truncated,
        }
        for history in histories
    ]
    for view in views:
        view["setting_warnings"] += refused
    return views


def _read_refused(context: click.Context, store: StoreReader, key: RunKey) -> tuple[str, ...]:
    """Return the user settings about retention that the site limits; read the site's only if there are any."""
    if not store.runs.has_retention_settings(key):
        return ()
    from ckptd.cli.retention_scope import build_site, load_retention_settings  # noqa: PLC0415 - takes half of the time
    from ckptd.steps.prune import planning  # noqa: PLC0415

    return planning.list_limited_settings(store, build_site(load_retention_settings(context)), key)
