"""Two hours in which everything fails, and what the judge of such a run finds; `tests/fuzz/chaos.py` plays days."""

import os
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from ckptd.store.tables import NoticeTable
from fuzz.chaos import prepare

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")


@pytest.fixture(scope="module")
def chaos():
    with prepare(seed=4, days=0.1) as chaos:
        chaos.run(days=0.1)
        yield chaos


def test_nothing_is_lost_doubled_or_wrong_after_two_hours_of_failures(chaos):
    assert chaos.judge.violations == []
    assert len(chaos.counts) >= 4  # kinds of failures
    assert chaos.daemon.lives > 1
    assert chaos.relay.inbox.mails
    assert sum(each.ended_at is not None for training in chaos.world.trainings for each in training.executions) > 5


@pytest.fixture
def judge(chaos):
    yield chaos.judge
    chaos.judge.violations.clear()


def find_saver(chaos):
    return next(each for each in chaos.world.trainings if len(each.complete) > 2)


def test_the_judge_sees_a_newest_checkpoint_that_is_gone(chaos, judge):
    training = find_saver(chaos)
    path = training.directory / training.complete[-1]
    path.rename(path.with_suffix(".away"))
    judge.check_checkpoints()
    assert [text.split(": ")[1] for text in judge.violations] == [f"{training.directory.name}/{path.name} is gone"]


def test_the_judge_sees_lost_work_that_is_wrong(chaos, judge):
    ended = [
        each
        for training in chaos.world.trainings
        for each in training.executions
        if each.saved_at is not None and each.ended_at is not None and chaos.world.minute - each.ended_at > 60
    ]
    for each in ended:
        each.saved_at -= 10_000  # also beyond what a bound allows
    judge.check_ledger(chaos.daemon.store)
    for each in ended:
        each.saved_at += 10_000
    wrong = {f"lost {each.unsaved + 10_000} min" for each in ended}
    assert judge.violations
    assert all(any(part in text for part in wrong) for text in judge.violations)


def test_the_judge_sees_a_notice_that_was_lost_and_one_that_came_twice(chaos, judge):
    inbox = chaos.relay.inbox
    with chaos.daemon.store.database.writing() as connection:
        connection.execute(sa.update(NoticeTable).where(NoticeTable.state == "sent").values(state="waiting"))
    inbox.mails.append(inbox.mails[0])
    judge.check_mail(chaos.daemon.store, inbox, uncertain_count=inbox.ids.total() - len(inbox.ids) - 1)
    for expected in ("not delivered", "came twice"):
        assert any(expected in text for text in judge.violations), judge.violations


def test_the_judge_sees_a_flag_that_resolves_while_nothing_is_known(chaos, judge):
    run = judge.key_of(chaos.world.trainings[0])
    judge._flags = {0: SimpleNamespace(run=run, rule="at-risk")}
    judge.check_flags(chaos.daemon, {run})
    assert any("at-risk" in text and "resolved while nothing was known" in text for text in judge.violations)
