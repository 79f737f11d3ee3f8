"""Open the database for pruning's commands, with the site's settings and the runs that the user may see."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

import click

from ckptd.cli.listing_record import open_record_at
from ckptd.cli.run_names import RetentionError, find_cluster, find_runs
from ckptd.cli.whole_config import load_config
from ckptd.config import Config
from ckptd.core.model import RunKey
from ckptd.service.build_retention import build_retention
from ckptd.steps.site_policy import SitePolicy
from ckptd.store.store_reader import StoreReader, read_snapshot

StoreT = TypeVar("StoreT", bound=StoreReader)


class RetentionScope(NamedTuple, Generic[StoreT]):
    """The database, the site's settings and the runs that these commands work on."""

    config: Config
    store: StoreT
    site: SitePolicy
    cluster: str
    keys: tuple[RunKey, ...] | None  # None: every run that the user may see


@contextmanager
def read_scope(context: click.Context, names: Collection[str] = ()) -> Iterator[RetentionScope[StoreReader]]:
    """Read the database as it is now, without SQLAlchemy, and find the runs that a command names."""
    config = load_config(context)
    with open_record_at(config.database_url, config.store.password_file) as record, read_snapshot(record) as store:
        yield find_scope(config, store, names)


def find_scope(config: Config, store: StoreT, names: Collection[str]) -> RetentionScope[StoreT]:
    """Find the runs that a command names; ordinary users see only their own."""
    cluster = find_cluster(config.slurm.cluster, store.clusters.read_status())
    keys = tuple(key for name in names for key in _find_own_runs(store, name, cluster)) if names else None
    if keys is None and os.geteuid() != 0:
        keys = tuple(key for key in store.runs.list_keys() if key.uid == os.geteuid())
    return RetentionScope(config, store, build_retention(config), cluster, keys)


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
