import pytest
import sqlalchemy as sa

from ckptd.store import schema
from ckptd.store.all_tables import METADATA
from ckptd.store.columns import Instant
from ckptd.store.engine import create_engine
from ckptd.store.store import Store


@pytest.fixture
def empty_engine(empty_database_url):
    database = create_engine(empty_database_url)
    yield database
    database.dispose()


@pytest.fixture
def store(database_url):
    opened = Store.open(database_url)
    yield opened
    if opened.database.sqlite_path:
        assert list_instants_as_text(opened) == []
    opened.close()


def list_instants_as_text(store):
    """Return the columns of SQLite with an instant that is no number: a statement did not know its type."""
    found = []
    with store.database.reading() as connection:
        for table in METADATA.sorted_tables:
            for column in table.columns:
                is_text = sa.func.typeof(column) == "text"
                if isinstance(column.type, Instant) and connection.scalar(sa.select(sa.func.count()).where(is_text)):
                    found.append(str(column))
    return found


@pytest.fixture
def upgraded_engine(empty_engine):
    schema.upgrade(empty_engine)
    return empty_engine
