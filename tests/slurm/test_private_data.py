"""Queues of clusters that hide other users' jobs: what an account may not see has not ended."""

import os

import pytest

from ckptd.core.model import QueueSnapshot, Unknown
from ckptd.slurm.failure_reasons import FailureReason
from slurm import stand_in
from slurm.test_squeue import NOW, read_only_job, reason_of

PRIVATE = {"answers": {"show config": "ClusterName = lab\nPrivateData = accounts,jobs\nSlurmUser = slurm(64030)\n"}}


@pytest.mark.parametrize(("level", "is_hidden"), [("None", True), ("", True), ("Operator", False)])
def test_an_empty_answer_under_private_data_is_not_believed(programs_in, monkeypatch, level, is_hidden):
    _, make = programs_in
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    source = make(squeue={"jobs": []}, scontrol=PRIVATE, sacctmgr={"stdout": f"{level}\n"})
    answer = source.read_queue(NOW)
    assert isinstance(answer, Unknown) is is_hidden
    assert not is_hidden or answer.reason.startswith(FailureReason.NOT_PERMITTED)


def test_nobody_says_that_an_account_is_no_operator_while_accounting_does_not_answer(programs_in, monkeypatch):
    _, make = programs_in
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    down = {"rc": 1, "stderr": "sacctmgr: error: Problem talking to the database: Connection refused\n"}
    reason = reason_of(make(squeue={"jobs": []}, scontrol=PRIVATE, sacctmgr=down).read_queue(NOW))
    assert "sacctmgr does not say whether this account is an operator: " in reason
    assert "Connection refused" in reason


def test_seeing_nothing_but_ones_own_jobs_under_private_data_is_not_believed_until_permitted(programs_in, monkeypatch):
    directory, make = programs_in
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    rows = [stand_in.squeue_row(JobID="7", UserID="1000")]
    source = make(squeue={"jobs": rows}, scontrol=PRIVATE)
    assert reason_of(source.read_queue(NOW)).startswith(FailureReason.NOT_PERMITTED)
    stand_in.write_plan(directory, squeue={"jobs": rows}, scontrol=PRIVATE, sacctmgr={"stdout": "Administrator\n"})
    assert read_only_job(source).job_id == 7


def test_jobs_that_become_private_while_ckptd_runs_have_not_ended(programs_in, monkeypatch):
    directory, make = programs_in
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    source = make()
    for rows, slurm in (([], stand_in.HEALTHY), ([stand_in.squeue_row()], stand_in.HEALTHY), ([], PRIVATE)):
        stand_in.write_plan(directory, squeue={"jobs": rows}, scontrol=slurm)
        answer = source.read_queue(NOW)
    assert reason_of(answer).startswith(FailureReason.NOT_PERMITTED)


def test_a_user_who_watches_only_their_own_jobs_may_have_none(programs_in, monkeypatch):
    directory, make = programs_in
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    answer = make(squeue={"jobs": []}, scontrol=PRIVATE, only_user="alice").read_queue(NOW)
    assert isinstance(answer, QueueSnapshot)
    assert "--user=alice" in stand_in.read_calls(directory)[-1][1]
