"""Which flags the judge of a chaos run lets change when the queue is empty and a run's directory is closed.

The daemon accepts an empty queue after some polls that agree: then the jobs have ended as far as Slurm says, and what
follows from that alone may change, although the directory cannot be read.
"""

import os
import tempfile
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ckptd.core.health.volatile_path import VolatilePath
from ckptd.core.model import QueueSnapshot
from fuzz import chaos_daemon
from fuzz.chaos import SETTLED, prepare
from support.parts import make_rules
from support.prune_facts import CLUSTER

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")
LONG_AGO = 2 * SETTLED  # minutes, so that the start of a job does not excuse what changes


def list_rules():
    """Return all rules; temporary storage is known by its path, as a closed directory says no type of file system."""
    place = os.path.realpath(tempfile.gettempdir())
    return tuple(replace(rule, paths=(place,)) if isinstance(rule, VolatilePath) else rule for rule in make_rules())


@pytest.fixture
def chaos(monkeypatch):
    monkeypatch.setattr(chaos_daemon, "make_rules", list_rules)
    with prepare(seed=4, days=0.1) as chaos:
        for training in chaos.world.trainings:
            training.limit = 10**4  # nothing ends
        play(chaos, 1)
        for training in chaos.world.trainings:
            training.ends = 10**4
        play(chaos, LONG_AGO)
        assert list_volatile(chaos) == {each.number for each in chaos.world.trainings}
        assert chaos.judge.violations == []
        yield chaos


def play(chaos, minutes):
    for _ in range(minutes):
        chaos._minute()


def close(training):
    training.is_reachable = False
    training.directory.chmod(0)


def list_volatile(chaos):
    """Return the numbers of the trainings whose checkpoints are flagged as being on temporary storage."""
    flags = chaos.daemon.store.flags.list_open(CLUSTER)
    flagged = {each.finding.run for each in flags if each.finding.rule == "volatile-path"}
    return {each.number for each in chaos.world.trainings if chaos.judge.key_of(each) in flagged}


def test_flags_may_resolve_when_the_daemon_accepts_an_empty_queue(chaos):
    close(chaos.world.trainings[1])
    play(chaos, 2)
    chaos.slurm.is_empty = True
    play(chaos, 5)
    assert list_volatile(chaos) == set()
    assert chaos.judge.violations == []


def test_flags_may_open_when_the_jobs_are_back_in_the_queue(chaos):
    close(chaos.world.trainings[1])
    chaos.slurm.is_empty = True
    play(chaos, LONG_AGO)
    assert list_volatile(chaos) == set()
    chaos.slurm.is_empty = False
    play(chaos, 5)
    assert list_volatile(chaos) == {each.number for each in chaos.world.trainings}
    assert chaos.judge.violations == []


def test_the_judge_sees_flags_that_resolve_long_after_the_empty_queue_was_accepted(chaos):
    close(chaos.world.trainings[1])
    chaos.slurm.is_empty = True
    play(chaos, LONG_AGO)
    run = chaos.judge.key_of(chaos.world.trainings[1])
    assert chaos._is_blind(chaos.world.trainings[1])
    chaos.judge._flags[0] = SimpleNamespace(run=run, rule="at-risk")
    play(chaos, 1)
    assert [text.split(": ")[1] for text in chaos.judge.violations] == [
        f"at-risk of {run.directory} resolved while nothing was known"
    ]


def test_the_judge_sees_a_daemon_that_takes_an_outage_for_an_empty_queue(chaos):
    closed = chaos.world.trainings[1]
    close(closed)
    play(chaos, 2)
    chaos.slurm.is_down = True
    chaos.slurm.read_queue = lambda now: QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=())
    play(chaos, 5)
    assert f"volatile-path of {closed.directory} resolved while nothing was known" in "\n".join(chaos.judge.violations)


def test_the_judge_sees_a_daemon_that_misses_a_job_that_the_queue_shows(chaos):
    closed = chaos.world.trainings[1]
    close(closed)
    play(chaos, 2)
    chaos.slurm.read_queue = lambda now: QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=())
    play(chaos, 5)
    assert f"volatile-path of {closed.directory} resolved while nothing was known" in "\n".join(chaos.judge.violations)


def test_the_judge_sees_flags_that_resolve_when_slurm_is_down_right_after_an_empty_queue(chaos):
    chaos.slurm.is_empty = True
    play(chaos, 5)
    chaos.slurm.is_empty, chaos.slurm.is_down = False, True
    play(chaos, 1)
    run = chaos.judge.key_of(chaos.world.trainings[1])
    chaos.judge._flags[0] = SimpleNamespace(run=run, rule="at-risk")
    play(chaos, 1)
    assert [text.split(": ")[1] for text in chaos.judge.violations] == [
        f"at-risk of {run.directory} resolved while nothing was known"
    ]
