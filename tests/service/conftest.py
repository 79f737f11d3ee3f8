import shutil

import pytest

from ckptd.checkpoints.trash import TRASH
from core.histories import at
from service.subverted_main import Attacker, make_place
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


@pytest.fixture
def place():
    """A site of a test that changes its configuration."""
    with make_place() as made:
        yield made


@pytest.fixture(scope="module")
def shared():
    """A site with an agent for all tests that leave both as they are."""
    with make_place() as made:
        attacker = Attacker(made.config)
        assert attacker.greeting == {"ready": True}
        yield made, attacker
        attacker.close()


@pytest.fixture
def site(shared):
    made = shared[0]
    made.asked.write_text("")
    shutil.rmtree(made.root / TRASH, ignore_errors=True)
    made.save()
    return made


@pytest.fixture
def attacker(shared):
    return shared[1]
