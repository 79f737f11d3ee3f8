"""Helpers of the commands that read the database through SQLAlchemy."""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ckptd.core.model import RunKey
from ckptd.service.open_database import open_store, open_store_at
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.config import Config
    from ckptd.config.listing_settings import ListingSettings

_JOB = re.compile("(?P<job>[0-9]{1,18})(_(?P<task>[0-9]{1,18})|[+][0-9]{1,4})?")  # 18 digits fit a database integer


def find_runs(store: Store, name: str, cluster: str | None = None) -> tuple[RunKey, ...]:
    """Return the runs named by JOB|PATH: a job id, an array task (`12_3`) or a directory.

    A component of a heterogeneous job (`12+1`) names the whole job, because components are recorded together.
    """
    if found := _JOB.fullmatch(name):
        task = found["task"]
        return store.runs.find_of_job(int(found["job"]), cluster, None if task is None else int(task))
    return store.runs.find_at(os.path.realpath(name), cluster)


@contextmanager
def open_existing_store(config: "Config") -> Iterator[Store]:
    """Open the daemon's database without upgrading its tables."""
    with closing(open_store(config, is_upgraded=False)) as store:
        yield store


@contextmanager
def open_listed_store(settings: "ListingSettings") -> Iterator[Store]:
    """Open the daemon's database without upgrading its tables, and without the whole configuration."""
    with closing(open_store_at(settings.database_url, settings.password_file, is_upgraded=False)) as store:
        yield store
