"""Commands on a database that several clusters share: each shows this host's cluster, or the one that is asked for."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from ckptd.cli import main
from ckptd.core.runs.shared_files import SharedDirectory
from support import joined_runs, two_clusters
from support.held_lease import hold_lease
from support.migrated import open_record


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A host of beta, by its slurm.conf, whose configuration names no cluster."""
    slurm_conf = tmp_path / "slurm.conf"
    slurm_conf.write_text("# ClusterName=old\nclustername = Beta # the new one\nSlurmctldHost=b1\n")
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    two_clusters.fill(store)
    for run in (two_clusters.ALPHA, two_clusters.BETA):
        hold_lease(store, run.cluster)
    yield config
    store.close()


def run(config, *command, status=0):
    result = CliRunner().invoke(main, ["--config", str(config), *command])
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.output
    return result.output


def names(output, place=0):
    return [line.split("\t")[place] for line in output.splitlines()[1:]]


def test_jobs_are_those_of_this_hosts_cluster(site):
    output = run(site, "jobs")
    assert names(output, 2) == ["train-beta"]
    assert "cluster" not in output.splitlines()[0]


def test_a_cluster_can_be_chosen_wherever_the_command_runs(site):
    assert names(run(site, "jobs", "--cluster", "alpha"), 2) == ["train-alpha"]
    assert [each["cluster"] for each in json.loads(run(site, "jobs", "--cluster", "alpha", "--json"))["jobs"]] == [
        "alpha"
    ]


def test_jobs_of_all_clusters_have_a_column_for_it(site):
    output = run(site, "jobs", "--cluster", "all")
    assert output.splitlines()[0].startswith("cluster\tjob\t")
    assert names(output) == ["alpha", "beta"]


def test_where_nothing_says_which_cluster_this_host_is_of_all_are_shown(site, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    assert names(run(site, "jobs")) == ["alpha", "beta"]


def test_the_configured_cluster_goes_before_slurms(site):
    site.write_text(site.read_text() + '[slurm]\ncluster = "alpha"\n')
    assert names(run(site, "jobs"), 2) == ["train-alpha"]


@pytest.mark.parametrize("command", [("jobs",), ("flags",), ("status",), ("show", "7"), ("advise", "7"), ("report",)])
def test_a_cluster_that_is_not_on_record_is_an_error(site, command):
    output = run(site, *command, "--cluster", "gamma", status=2)
    assert "no cluster 'gamma' is on record; there are alpha, beta" in output


def test_flags_are_those_of_one_cluster(site):
    assert names(run(site, "flags", status=1), 1) == ["at-risk"]
    assert run(site, "flags", "--cluster", "alpha") == "No open flags.\n"
    shown = run(site, "flags", "--cluster", "all", status=1).splitlines()
    assert shown[0].startswith("cluster\t")
    assert shown[1].startswith("beta\t")
    assert shown[1].endswith("ckptd show 7 --cluster beta")


def test_status_shows_this_hosts_daemon_or_all(site):
    assert names(run(site, "status")) == ["beta"]
    assert names(run(site, "status", "--cluster", "all")) == ["alpha", "beta"]


def test_status_shows_what_clusters_share_and_what_only_one_declares(site, tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    both, one = SharedDirectory("beta", "alpha", "/project"), SharedDirectory("beta", "alpha", "/work")
    store.declared_shares.record("beta", [both, one])
    store.declared_shares.record("alpha", [both.reverse])
    store.close()
    line = run(site, "status").splitlines()[-1]
    assert line.endswith("/project with alpha; /work with alpha (not in effect: alpha does not declare it)")
    (row,) = json.loads(run(site, "status", "--json"))["clusters"]
    assert row["shared_directories"] == [
        {"directory": "/project", "cluster": "alpha", "is_in_effect": True, "trouble": None},
        {"directory": "/work", "cluster": "alpha", "is_in_effect": False, "trouble": "alpha does not declare it"},
    ]
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    store.declared_shares.record_clock("alpha", datetime.now(UTC))
    store.declared_shares.record_clock("beta", datetime.now(UTC) - timedelta(minutes=2))
    store.close()
    assert "/project with alpha (not in effect: the clocks of beta and alpha differ)" in run(site, "status")


def test_a_run_that_continues_with_shared_files_is_shown_once_with_the_cluster_of_each_attempt(site, tmp_path):
    both = json.loads(run(site, "show", "7", "--cluster", "all", "--json"))["runs"]
    assert sorted(each["cluster"] for each in both) == ["alpha", "beta"]
    assert "cluster\t" not in run(site, "show", "7")
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    joined_runs.share(store)
    store.close()
    for cluster in ("all", "alpha", "beta"):
        (shown,) = json.loads(run(site, "show", "7", "--cluster", cluster, "--json"))["runs"]
        assert shown["cluster"] == "beta", "of equal starts the last name"
        assert sorted(each["cluster"] for each in shown["attempts"]) == ["alpha", "beta"]
    assert any(line.startswith("cluster\tjob id\t") for line in run(site, "show", "7").splitlines())


def test_the_state_of_another_clusters_daemon_does_not_make_the_exit_status_1(site, tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    store.clusters.record_poll("gamma", two_clusters.datetime.now(two_clusters.UTC))  # a cluster without a daemon
    store.close()
    run(site, "status")
    run(site, "status", "--cluster", "all", status=1)


def test_a_job_id_that_both_clusters_have_means_the_job_of_this_hosts_cluster(site):
    assert "(cluster beta, user alice" in run(site, "show", "7")
    assert "(cluster alpha, user alice" not in run(site, "show", "7")
    assert "(cluster alpha, user alice" in run(site, "show", "7", "--cluster", "alpha")
    both = json.loads(run(site, "show", "7", "--cluster", "all", "--json"))["runs"]
    assert sorted(each["cluster"] for each in both) == ["alpha", "beta"]


def test_advice_is_about_the_run_of_one_cluster(site):
    (found,) = json.loads(run(site, "advise", two_clusters.DIRECTORY, "--json"))["runs"]
    assert found["cluster"] == "beta"


def test_a_job_of_another_cluster_is_named_as_such(site, tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    now = two_clusters.datetime.now(two_clusters.UTC)
    two_clusters.poll(
        store, "alpha", now, two_clusters.make_job("alpha", 7, now), two_clusters.make_job("alpha", 9, now)
    )
    store.close()
    output = run(site, "show", "9", status=2)
    assert "is on record on beta, but one is on alpha" in output
    assert "--cluster alpha" in output


def test_a_plan_is_of_one_cluster(site):
    assert "0 runs" in run(site, "plan", "--cluster", "alpha")
    assert "no cluster 'all'" in run(site, "plan", "--cluster", "all", status=2)


def test_where_several_clusters_are_on_record_a_plan_needs_to_know_which(site, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    assert "several clusters are on record (alpha, beta)" in run(site, "plan", status=2)


def test_a_host_of_a_cluster_that_is_not_on_record_never_plans_for_another(site, tmp_path):
    (tmp_path / "slurm.conf").write_text("ClusterName=gamma\n")
    assert "no cluster 'gamma' is on record" in run(site, "plan", status=2)
    assert "no cluster 'gamma' is on record" in run(site, "pin", "/data/alice/run/a.pt", status=2)


def test_lost_work_can_be_added_up_by_cluster(site):
    assert run(site, "report", "--by", "cluster").startswith("No attempt has ended since")
