"""Weeks of a training that saves, rotates, dies and restarts, pruned by a daemon that dies, too."""

from datetime import timedelta
from random import Random

import pytest

from ckptd.core import retention
from core.retention_world import Daemon, File, Habits, Training, at
from support.examples import FACTOR

WEEKS = 2 if FACTOR == 1 else 3
FOREIGN_AGE = 9000  # minutes: what somebody moves in was written before any attempt that runs now
HABITS = {
    "keeps everything": Habits(),
    "rotates": Habits(rotates_to=3),
    "rotates what it remembers": Habits(rotates_to=2, remembers=False, resumes_by_step=False),
    "two files a save": Habits(parts=("model", "optim")),
    "two files a save, rotated and written in place": Habits(
        parts=("model", "optim"), rotates_to=4, writes_in_place=True, resumes_by_step=False
    ),
}
RULES = (
    (retention.KeepLast(1),),
    (retention.KeepLast(2), retention.KeepEvery(1000, "steps")),
    (retention.KeepCalendar("daily", 2),),
)


def live(habits, rules, seed, weeks=WEEKS):
    """Let weeks go by; every removal is checked against what is true. Return the training and its daemon."""
    random = Random(seed)
    training = Training(random, habits)
    daemon = Daemon(training, retention.Policy(name="test", rules=rules, mode=retention.PolicyMode.ENFORCE))
    foreign = {}
    while training.now < weeks * 7 * 24 * 60:
        training.advance(random.uniform(1, 60))
        chance = random.random()
        if chance < 0.01:
            name = f"{random.choice(habits.parts)}_{random.randint(1, 40) * 100 + 50}.pt"
            training.inode_count += 1
            foreign[name] = training.disk[name] = File(
                training.inode_count, training.now - FOREIGN_AGE, True, 1_000_000, None
            )
        elif chance < 0.015:
            training.advance(random.choice([5, 600]))  # the daemon is away
            daemon.watched_at = None
        elif chance < 0.7:
            daemon.poll()
            daemon.look()
        if chance > 0.5:
            check_prune(training, daemon, random)
        assert all(training.disk.get(name) is file for name, file in foreign.items())
    return training, daemon


def check_prune(training, daemon, random):
    """Prune, killed after some removals or not, and see that nothing is lost that is needed or is being written."""
    polled = (daemon.polled_at - at(0)) / timedelta(minutes=1) if daemon.polled_at else -1
    needed, before = training.needed(polled), dict(training.disk)
    whole = training.whole_steps()
    daemon.prune(random.choice([0, 1, 2, 1000]))
    gone = [file for name, file in before.items() if name not in training.disk]
    assert needed <= training.whole_steps()
    assert all(file.is_whole or training.now - file.written > 60 for file in gone)
    assert all(training.now - file.written >= 60 for file in gone)
    assert bool(whole) <= bool(training.whole_steps())


@pytest.mark.parametrize(("seed", "habits"), [(seed, habits) for seed, habits in enumerate([*HABITS] * FACTOR)])
def test_over_weeks_of_kills_and_restarts_nothing_needed_is_lost(seed, habits):
    training, daemon = live(HABITS[habits], RULES[seed % len(RULES)], seed)
    assert training.save_count > 100
    if HABITS[habits].rotates_to is None:
        assert len(daemon.removed) > training.save_count / 4
