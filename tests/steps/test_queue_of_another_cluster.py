"""A daemon that meets another cluster's slurmctld, after its configuration or its host changed, ends no job."""

import os

import pytest

from ckptd.core.model import QueueSnapshot, Unknown
from ckptd.service import build
from ckptd.slurm.programs import Programs
from ckptd.steps.polled_queue import PolledQueue
from slurm import stand_in
from support.queue_facts import CLUSTER, at, make_job


def test_the_queue_of_another_cluster_ends_no_job(lives):
    life = lives(0)
    life.run(1, make_job(7))
    life.parts.source.read_queue = lambda now: QueueSnapshot(cluster="beta", polled_at=now, jobs=())
    for minute in range(2, 6):
        life.run(minute)
    known = life.state.latest(PolledQueue)
    assert "'beta'" in known.slurm_trouble
    assert known.tracked[7].ended_at is None


def test_a_configured_name_does_not_make_another_clusters_queue_its_own(lives):
    life = lives(0)
    life.run(1, make_job(7))
    life.parts.source.read_queue = lambda now: QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=(), slurm_name="beta")
    life.parts.store.clusters.record_poll("beta", at(0))
    for minute in range(2, 6):
        life.run(minute)
    known = life.state.latest(PolledQueue)
    assert known.slurm_trouble.startswith(f"Slurm here is the cluster 'beta', and not '{CLUSTER}': ")
    assert known.tracked[7].ended_at is None


def test_a_name_that_only_the_records_still_have_stays_that_of_the_cluster(lives):
    life = lives(0)
    queue = QueueSnapshot(cluster=CLUSTER, polled_at=at(1), jobs=(make_job(7),), slurm_name="renamed")
    life.parts.source.read_queue = lambda now: queue
    life.run(1)
    known = life.state.latest(PolledQueue)
    assert known.slurm_trouble is None
    assert known.tracked.keys() == {7}


def test_a_daemon_does_not_start_for_a_cluster_of_the_database_on_a_host_of_another_one(lives, tmp_path, monkeypatch):
    store = lives(0).parts.store
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    programs = Programs()
    build.check_cluster("beta", programs, store)  # no program answers
    stand_in.make_programs(tmp_path)  # of the cluster lab
    build.check_cluster("beta", programs, store)  # a name that only the records still have
    store.clusters.record_poll("lab", at(0))
    build.check_cluster("lab", programs, store)
    with pytest.raises(build.OtherClusterError, match=r'slurm\.cluster is "beta", but Slurm here is the cluster "lab"'):
        build.check_cluster("beta", programs, store)


class NoAnswer:
    def read_queue(self, now):
        return Unknown(what="queue", reason="timed out")


def test_slurm_conf_names_the_cluster_where_slurm_does_not_answer(lives, tmp_path, monkeypatch):
    store = lives(0).parts.store
    store.clusters.record_poll(CLUSTER, at(0))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert build.find_cluster(NoAnswer(), store, at(1)) == CLUSTER  # as before: nothing else is known
    (tmp_path / "slurm.conf").write_text("ClusterName=beta\n")
    assert build.find_cluster(NoAnswer(), store, at(1)) == "beta"
