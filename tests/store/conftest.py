import pytest

from ckptd.store import schema
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
    opened.close()


@pytest.fixture
def upgraded_engine(empty_engine):
    schema.upgrade(empty_engine)
    return empty_engine
