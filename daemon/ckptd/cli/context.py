"""Helpers of the commands that read the database through SQLAlchemy."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ckptd.service.open_database import open_store, open_store_at
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.config import Config
    from ckptd.config.listing_settings import ListingSettings


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
