import pytest

from ckptd.store.all_tables import METADATA
from ckptd.store.columns import Instant
from ckptd.store.engine import create_engine
from ckptd.store.store import Store
from support.filled_records import fill_once


@pytest.fixture
def empty_engine(empty_database_url):
    database = create_engine(empty_database_url)
    yield database
    database.dispose()


@pytest.fixture
def store(database_url, request):
    """A store of each kind: empty, or with what the function records that `filled_by` names."""
    marker = request.node.get_closest_marker("filled_by")
    if marker and (record := marker.kwargs["record"]):
        fill_once(database_url, record)
    opened = Store.open(database_url)
    yield opened
    if opened.database.sqlite_path:
        assert list_instants_as_text(opened) == []
    opened.close()


INSTANTS_AS_TEXT = " UNION ALL ".join(
    f"SELECT '{column}' WHERE EXISTS (SELECT 1 FROM {table.name} WHERE typeof({column.name}) = 'text')"
    for table in METADATA.sorted_tables
    for column in table.columns
    if isinstance(column.type, Instant)
)


def list_instants_as_text(store):
    """Return the columns of SQLite with an instant that is no number: a statement did not know its type."""
    with store.database.reading() as connection:
        return list(connection.exec_driver_sql(INSTANTS_AS_TEXT).scalars())


@pytest.fixture
def upgraded_engine(database_url):
    engine = create_engine(database_url)
    yield engine
    engine.dispose()
