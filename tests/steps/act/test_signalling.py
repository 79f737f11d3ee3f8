from datetime import timedelta

import pytest

from ckptd.steps import act
from core.histories import RUN, at, history, job, saved
from support.job_action_facts import Slurm, say_now

NEAR = history(
    now=59.5,
    jobs=[job(comment="ckpt-signal=B:USR1", partition="gpu1", time_limit=timedelta(minutes=60), ends_at=at(60))],
    checkpoints=[saved(minute, step=minute, took=0.1) for minute in (10, 20, 30, 40)],
)


@pytest.mark.parametrize(
    ("slurm", "is_sent"),
    [
        pytest.param(Slurm(), True, id="none of its own"),
        pytest.param(Slurm("sbatch --signal=B:USR1@120"), False, id="the same in time"),
        pytest.param(Slurm(script="#!/bin/sh\n#SBATCH --signal=B:USR1\n"), False, id="the script's, in time"),
        pytest.param(Slurm("sbatch --signal=B:USR1@5"), True, id="too late for a save"),
        pytest.param(Slurm("sbatch --signal=USR1@120"), True, id="for the steps, not the shell"),
        pytest.param(Slurm("sbatch --signal=B:TERM@120"), True, id="another"),
        pytest.param(
            Slurm("sbatch --signal=B:TERM@9", script="#!/bin/sh\n#SBATCH --signal=B:USR1\n"), True, id="overridden"
        ),
        pytest.param(Slurm(refused=("scontrol", "sacct")), True, id="nobody can tell"),
    ],
)
def test_a_signal_that_slurm_sends_in_time_by_itself_is_not_sent_a_second_time(resubmitting, slurm, is_sent):
    slurm.signalled = 0
    ((_, outcome),) = act.act(resubmitting(slurm), {RUN: NEAR}, {}, {}, at(59.5)).done
    assert (slurm.signalled, outcome == "done") == (int(is_sent), is_sent)
    assert is_sent or outcome.startswith("not needed: its own --signal=B:USR1@")


@pytest.mark.parametrize("now", [("RUNNING", 1), ("PENDING", 1), ("COMPLETED", 0), ("COMPLETING", 0)])
def test_no_signal_goes_to_an_attempt_that_began_after_it_was_decided_on(resubmitting, now):
    class Moved(Slurm):
        def answer(self, item):
            is_look = item["argv"][0] == "squeue"
            return {"output": say_now(item["argv"], self.asking, *now)} if is_look else super().answer(item)

    slurm = Moved()
    ((_, outcome),) = act.act(resubmitting(slurm), {RUN: NEAR}, {}, {}, at(59.5)).done
    assert slurm.signalled == 0
    assert outcome.startswith("not needed: ")
