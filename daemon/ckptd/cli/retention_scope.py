"""Open the database for pruning's commands, with the site's settings and the runs that the user may see."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

import click

from ckptd.cli.cluster_choice import find_cluster
from ckptd.cli.listing_record import open_record, read_named_file
from ckptd.cli.run_names import RetentionError, find_runs
from ckptd.config.retention_settings import RetentionSettings, read_retention_settings
from ckptd.core.model import RunKey
from ckptd.service.build_retention import build_site_policy
from ckptd.steps.site_policy import SitePolicy
from ckptd.store.store_reader import StoreReader, read_snapshot

StoreT = TypeVar("StoreT", bound=StoreReader)


class RetentionScope(NamedTuple, Generic[StoreT]):
    """The database, the site's settings and the runs that these commands work on."""

    store: StoreT
    site: SitePolicy
    cluster: str
    keys: tuple[RunKey, ...] | None  # None: every run that the user may see


@contextmanager
def read_scope(
    context: click.Context, names: Collection[str], asked: str | None
) -> Iterator[RetentionScope[StoreReader]]:
    """Read the database as it is now, without SQLAlchemy, and find the runs that a command names on a cluster."""
    settings = load_retention_settings(context)
    with open_record(settings.common.listing) as record, read_snapshot(record) as store:
        yield find_scope(settings, store, names, asked)


def load_retention_settings(context: click.Context) -> RetentionSettings:
    """Read the configuration named by --config; exit with its errors if it is invalid."""
    return read_named_file(context, read_retention_settings)


def build_site(settings: RetentionSettings) -> SitePolicy:
    """Return the site's retention policies and limits."""
    return build_site_policy(settings.retention, settings.scan_deadline, settings.common.allowed_roots)


def find_scope(
    settings: RetentionSettings, store: StoreT, names: Collection[str], asked: str | None = None
) -> RetentionScope[StoreT]:
    """Find the runs that a command names on a cluster, by default this host's; ordinary users see only their own."""
    cluster = find_cluster(asked, settings.common.listing.cluster, store.clusters.read_status())
    keys = tuple(key for name in names for key in _find_own_runs(store, name, cluster)) if names else None
    if keys is None and os.geteuid() != 0:
        keys = tuple(key for key in store.runs.list_keys() if key.uid == os.geteuid())
    return RetentionScope(store, build_site(settings), cluster, keys)


def _find_own_runs(store: StoreReader, name: str, cluster: str) -> tuple[RunKey, ...]:
    found = find_known_runs(store, name, cluster)
    own = tuple(key for key in found if os.geteuid() in {0, key.uid})
    if not own:
        raise RetentionError(f"{name} belongs to another user: only that user and root may plan and prune it")
    return own


def find_known_runs(store: StoreReader, name: str, cluster: str) -> tuple[RunKey, ...]:
    """Return the runs of a job id or directory.

    Raises:
        RetentionError: the database has none.

    """
    found = find_runs(store.runs, name, cluster)
    if not found:
        raise RetentionError(f"no job or run {name!r} is on record; `ckptd jobs` lists the jobs that have started")
    return found
