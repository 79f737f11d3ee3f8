import pytest

from support.prune_facts import workshop


@pytest.fixture
def shop():
    """A run of six saves, the last of them an hour and a half old; two of six may stay."""
    with workshop() as shop:
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.wait(90)
        yield shop
