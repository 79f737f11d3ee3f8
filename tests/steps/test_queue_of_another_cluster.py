"""A daemon that meets another cluster's slurmctld, after its configuration or its host changed, ends no job."""

from ckptd.core.model import QueueSnapshot, Unknown
from ckptd.service import build
from ckptd.steps.polled_queue import PolledQueue
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
