"""What a source warns about the cost of its polls reaches the log."""

from ckptd.core.model import QueueSnapshot
from ckptd.steps import poll
from steps.daemon_lives import Cluster, Disk, Service
from support.queue_facts import CLUSTER

COST = 'slurmrestd took 12.0 s and 80 MiB of JSON for 20000 jobs; slurm.source = "squeue" costs less'


class CostlyCluster(Cluster):
    def read_queue(self, now):
        return QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=(), warning=COST)


def test_an_expensive_source_is_warned_about_once(tmp_path):
    service = Service(f"sqlite:///{tmp_path}/ckptd.sqlite3", CostlyCluster(), Disk(), 0)
    lines = [poll.run(service.parts, service.state, service.now).lines for _ in range(3)]
    assert [[line.text for line in each] for each in lines] == [[COST], [], []]
    service.parts.store.close()
