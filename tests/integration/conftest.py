"""One private Slurm cluster for the whole session, and a fresh Linux user for each test that asks for one."""

import itertools
import os

import pytest

from demo.cluster import PrivateCluster


@pytest.fixture(scope="session")
def cluster():
    prefix = f"ck{os.getpid()}-"
    with PrivateCluster(name="test", user_prefix=prefix, with_accounting=True, with_tokens=True) as private:
        yield private


@pytest.fixture(scope="session")
def _numbers():
    return itertools.count(1)


@pytest.fixture
def create_user(cluster, _numbers):
    """Make users whose jobs are cancelled when the test is over."""
    made = []

    def create():
        made.append(cluster.create_user(f"u{next(_numbers)}"))
        return made[-1]

    yield create
    for user in made:
        cluster.cancel_jobs(user)


@pytest.fixture
def user(create_user):
    return create_user()
