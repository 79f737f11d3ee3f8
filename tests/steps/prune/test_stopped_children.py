"""Eight users stop the agent's children that work on their trashes; another one waits for a deletion."""

import os
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.steps.prune import step
from steps.prune.several_users import User
from support import child_stopper
from support.prune_facts import START, make_site, workshop

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
DEADLINE = timedelta(seconds=20)


@pytest.fixture
def shop():
    """Nine users with an old checkpoint each in the trash, and a daemon that has just started."""
    with workshop(keeps_children=False) as shop:
        shop.users = [User(shop, number, f"user{number}") for number in range(1, 10)]
        for epoch in (1, 2, 3):
            shop.wait(30)
            for user in shop.users:
                user.save(epoch)
            shop.wait(1)
        shop.look()
        shop.wait(90)
        shop.site = make_site(shop.root, hold=timedelta(hours=1))
        assert shop.act().moved_count == 9
        shop.memory.recovered.runs.clear()
        limits = dict.fromkeys(("deadline", "look_deadline", "verify_deadline"), DEADLINE)
        shop.site = replace(shop.site, **limits)
        shop.wait(120)
        yield shop


@pytest.mark.parametrize("seconds", [None, 0.9 * DEADLINE.total_seconds()])
def test_eight_users_who_stop_their_processes_delay_another_by_less_than_one_deadline(shop, seconds):
    """Users who let their processes go on after a while are noticed, too."""
    *stopping_users, other = shop.users
    with child_stopper.stopping(shop.agent._process.pid, [user.uid for user in stopping_users], seconds):
        began = time.monotonic()
        step.act(shop.parts, shop.state, shop.site, shop.memory, shop.now, shop.now - START)
        took = time.monotonic() - began
    assert other.trashed() == []
    assert all(user.trashed() for user in stopping_users), "nobody is stopped any more"
    assert shop.memory.silent.list_suspects(shop.now) == {user.uid for user in stopping_users}
    assert took < DEADLINE.total_seconds()
