import pytest

from steps.daemon_lives import Cluster, Disk, Service
from steps.replayed_fleet import Fleet, made_work_dir
from support.full_disk import mount_small_disk
from support.shared_agent import get_agent


@pytest.fixture
def full_disk():
    with mount_small_disk() as disk:
        yield disk


@pytest.fixture
def url(request, tmp_path):
    """Where the record is: in SQLite, and for tests that are marked so also in PostgreSQL."""
    if getattr(request, "param", "sqlite") == "postgresql":
        return request.getfixturevalue("postgresql_record")
    return f"sqlite:///{tmp_path}/record.db"


@pytest.fixture
def lives(url):
    """Begins one life of the daemon after another, on one record, cluster and disk."""
    source, disk, begun = Cluster(), Disk(), []

    def begin(minutes):
        begun.append(Service(url, source, disk, minutes))
        return begun[-1]

    yield begin
    for service in begun:
        service.parts.store.close()


@pytest.fixture
def agent():
    return get_agent()


@pytest.fixture
def work_dir():
    with made_work_dir() as directory:
        yield directory


@pytest.fixture
def fleet(agent, tmp_path, work_dir):
    driven = Fleet(agent, f"sqlite:///{tmp_path}/ckptd.sqlite3", work_dir)
    yield driven
    driven.parts.store.close()
