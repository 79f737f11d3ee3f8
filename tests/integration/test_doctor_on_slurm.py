"""What `ckptd doctor` says about [verify_jobs] beside a real Slurm."""

import pytest

from ckptd.config import Config
from ckptd.service.doctor.verify_jobs_checks import check_verify_jobs


@pytest.fixture
def check(cluster, monkeypatch):
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)

    def check(**settings):
        found = check_verify_jobs(Config.model_validate({"verify_jobs": settings}))
        return [(each.verdict.value, each.text) for each in found]

    return check


def test_what_slurm_has_is_no_trouble(check):
    good = [("ok", "verify_jobs: jobs can be submitted to the partition main,urgent")]
    assert check(partition="main,urgent", account="root", qos="normal") == good
    assert check() == []


def test_names_that_slurm_does_not_have_are_said(check):
    assert check(partition="main,nope", account="nobody", qos="fast") == [
        ("error", "verify_jobs.partition: Slurm has no partition 'nope'"),
        ("warning", "verify_jobs.account: Slurm's accounting has no account 'nobody'"),
        ("warning", "verify_jobs.qos: Slurm's accounting has no QOS 'fast'"),
    ]


def test_limits_that_such_jobs_exceed_are_said(check, cluster):
    cluster.command("scontrol", "update", "partition=main", "maxtime=30", "state=drain", "allowqos=normal")
    try:
        found = check(partition="main", qos="fast", time_limit="2h")
    finally:
        cluster.command("scontrol", "update", "partition=main", "maxtime=unlimited", "state=up", "allowqos=all")
    assert found == [
        ("warning", "verify_jobs.partition: main is in state DRAIN"),
        ("error", "verify_jobs.time_limit is 2 h, and MaxTime of main is 30 min"),
        ("error", "verify_jobs.qos: main does not admit 'fast' (AllowQos)"),
        ("warning", "verify_jobs.qos: Slurm's accounting has no QOS 'fast'"),
    ]


def test_a_qos_with_a_shorter_limit_is_said(check, cluster):
    cluster.command("sacctmgr", "--immediate", "modify", "qos", "normal", "set", "maxwall=01:00:00")
    try:
        found = check(partition="main", qos="normal")
    finally:
        cluster.command("sacctmgr", "--immediate", "modify", "qos", "normal", "set", "maxwall=-1")
    assert found == [("warning", "verify_jobs.time_limit is 2 h, and MaxWall of the QOS normal is 1 h")]


def test_slurm_that_does_not_answer_shows_nothing(check, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    assert {verdict for verdict, _ in check(partition="main", account="root")} == {"warning"}
