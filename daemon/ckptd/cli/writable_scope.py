"""Open the database for those of pruning's commands that change it."""

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager

import click

from ckptd.cli.retention_scope import RetentionScope, find_scope
from ckptd.cli.whole_config import load_config
from ckptd.config.retention_settings import list_retention_settings
from ckptd.service.open_database import open_store
from ckptd.store.store import Store


@contextmanager
def open_scope(context: click.Context, names: Collection[str] = ()) -> Iterator[RetentionScope[Store]]:
    """Check the whole configuration, open the database, and find the runs that a command names."""
    config = load_config(context)
    with closing(open_store(config, is_upgraded=False)) as store:
        yield find_scope(list_retention_settings(config), store, names)
