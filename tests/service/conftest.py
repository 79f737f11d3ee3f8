import pytest

from ckptd.store.store import Store
from core.histories import at


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/record.db"


@pytest.fixture
def store(url):
    opened_store = Store.open(url, upgrade=True)
    opened_store.record_poll("c1", at(0))
    yield opened_store
    opened_store.close()
