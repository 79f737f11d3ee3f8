"""From a job that restarts with nothing to continue from to an alert in Alertmanager, through every real server."""

import shutil
from pathlib import Path

import pytest

from demo.watcher import Watcher
from prometheus_server import Alertmanager, Prometheus, wait_for

FOLDER = Path(__file__).parents[2] / "deploy/prometheus"
SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "4s"
[scan]
interval = "2s"
settle_time = "5s"
allowed_roots = ["{homes}"]
[health]
min_job_duration = "30s"
[metrics]
flagged_jobs = 10
[web]
listen = "{listen}"
[service]
state_directory = "{state}"
"""
NEVER_SAVES = (
    "#!/bin/bash\n#SBATCH --requeue --time=60 --comment=ckpt=checkpoints\nmkdir -p checkpoints\nexec sleep 600\n"
)
NAME = "CkptdRestartedWithoutCheckpoint"


@pytest.fixture
def watcher(cluster):
    watching = Watcher(cluster, SETTINGS)
    watching.start()
    yield watching
    watching.stop()
    shutil.rmtree(watching.state)


def test_a_restart_without_a_checkpoint_makes_the_alert_fire_and_its_end_resolves_it(cluster, user, watcher, tmp_path):
    rules = tmp_path / "alert.rules.yml"
    text = (FOLDER / "alert.rules.yml").read_text()
    assert text.count("for: 1m\n") == 1  # the rule in question; but for its patience it is as shipped
    rules.write_text(text.replace("for: 1m\n", "for: 2s\n"))
    manager_config = FOLDER / "alertmanager.example.yml"
    job = cluster.submit(user, NEVER_SAVES, "--requeue", "--time=60", "--comment=ckpt=checkpoints")
    cluster.wait_for("the job to run", lambda: cluster.read_job(job, "%T") == "RUNNING")
    with Alertmanager(tmp_path, manager_config) as manager:
        target, where = watcher.address, manager.address
        with Prometheus(tmp_path, target, rule_files=[rules], alertmanager=where) as prometheus:
            wait_for("the job in metrics", lambda: prometheus.query('ckptd_jobs{state="RUNNING"} >= 1'))
            assert prometheus.query("ckptd_slurm_up")[0][1] == 1
            assert not [each for each in manager.list_alerts() if each["labels"]["alertname"] == NAME]

            cluster.command("scontrol", "requeue", str(job))
            (alert,) = wait_for(
                "the alert",
                lambda: [each for each in manager.list_alerts() if each["labels"]["alertname"] == NAME],
                seconds=120,
            )
            assert alert["labels"]["severity"] == "critical"
            assert alert["annotations"]["summary"] == "1 restarted runs had no usable checkpoint"
            named = prometheus.query('ckptd_flag_opened_timestamp_seconds{rule="restarted-without-checkpoint"}')
            assert [(labels["job_id"], labels["user"]) for labels, _ in named] == [(str(job), user.name)]
            assert prometheus.query('ckptd_restarts_total{kind="requeue"}')[0][1] >= 1

            cluster.cancel_jobs(user)
            wait_for(
                "the end of the alert",
                lambda: not prometheus.query(f'ALERTS{{alertname="{NAME}",alertstate="firing"}}'),
                seconds=60,
            )
