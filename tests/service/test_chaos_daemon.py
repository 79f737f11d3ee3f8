"""That the chaos run kills the daemon within its own transactions, and nobody else within theirs."""

import os

import pytest

from fuzz.chaos import prepare
from support.prune_facts import MINUTE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")


@pytest.fixture
def chaos():
    with prepare(seed=4, days=0.1) as chaos:
        yield chaos


def start(chaos):
    minute = chaos.world.minute
    chaos.daemon.start(chaos.world.at(minute), minute * MINUTE)


def tick(chaos):
    chaos.world.advance()
    minute = chaos.world.minute
    chaos.daemon.tick(chaos.world.at(minute), minute * MINUTE, minute)


def test_a_kill_that_is_due_while_the_daemon_is_down_ends_its_next_start(chaos):
    chaos.daemon.kill_after = 1
    start(chaos)
    assert not chaos.daemon.is_alive
    start(chaos)
    assert chaos.daemon.is_alive
    assert chaos.daemon.lives == 2


def test_what_the_judge_reads_is_not_killed_and_the_daemons_next_step_is(chaos):
    start(chaos)
    chaos.daemon.kill_after = 1
    chaos.judge.check_flags(chaos.daemon, set())
    assert chaos.daemon.is_alive
    assert chaos.daemon.kill_after == 1
    tick(chaos)
    assert not chaos.daemon.is_alive
