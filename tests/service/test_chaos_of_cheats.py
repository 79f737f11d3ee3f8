"""What the judge of a chaos run finds if ckptd itself does the wrong thing, and nothing else fails."""

import os
from dataclasses import replace

import pytest

from ckptd.core import retention
from ckptd.core.notices.delivery import SendOutcome, SendResult
from fuzz import chaos

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")
MINUTES = 300


class CheatingChannel:
    """Says of every other message that it was sent, and sends the others twice."""

    def __init__(self, channel):
        self._channel, self._count = channel, 0

    def send(self, message):
        self._count += 1
        if self._count % 2:
            return SendOutcome(result=SendResult.SENT)
        self._channel.send(message)
        return self._channel.send(message)


def keep_all_but_the_newest(plan):
    def cheat(*values, **named):
        made = plan(*values, **named)
        runs = [
            replace(
                run,
                decisions=tuple(each._replace(is_kept=retention.NEWEST not in each.reasons) for each in run.decisions),
            )
            for run in made.runs
        ]
        return replace(made, runs=tuple(runs))

    return cheat


def test_a_plan_that_removes_the_newest_checkpoint_and_a_channel_that_lies_are_found(monkeypatch):
    monkeypatch.setattr(chaos, "CALM", MINUTES)
    monkeypatch.setattr(chaos, "CALM_STEP", 3)
    monkeypatch.setattr(retention, "plan", keep_all_but_the_newest(retention.plan))
    with chaos.prepare(seed=4, days=MINUTES / chaos.DAY) as run:
        run.daemon._channel = CheatingChannel(run.channel)
        run.run(days=0)
        found = "\n".join(run.judge.violations)
    assert ".npz is gone" in found
    assert "recorded as sent and did not arrive" in found
    assert "came twice" in found
