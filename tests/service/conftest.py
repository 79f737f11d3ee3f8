import pytest

from core.histories import at
from support.migrated import open_record


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/record.db"


@pytest.fixture
def store(url):
    opened_store = open_record(url)
    opened_store.clusters.record_poll("c1", at(0))
    yield opened_store
    opened_store.close()
