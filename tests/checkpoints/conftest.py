import pytest

from support.trash_facts import scratch


@pytest.fixture
def directory():
    """A run's directory of another user, which that user may reach."""
    with scratch() as made:
        yield made
