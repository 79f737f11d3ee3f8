"""A run of six saves that no daemon prunes, for people who plan and prune it at a shell."""

import json
from contextlib import contextmanager
from datetime import UTC, datetime

from support.prune_facts import MINUTE, UID, workshop

EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]
SETTINGS = """
[slurm]
cluster = "c"
source = "replay"
replay_path = "{root}/queue"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
allowed_roots = ["{root}"]
[retention.caps]
filesystem_share = 1.0
[[retention.policy]]
name = "tight"
prune_files = ["epoch_*.npz"]
last = 2
"""


def play(shop, *polls, elsewhere=None):
    """Let a command see the jobs with these ids and starts at its first poll, at its second, and so on.

    A job of `elsewhere` works in another directory and says nothing of its checkpoints.
    """
    (shop.root / "queue").mkdir(exist_ok=True)
    for number, jobs in enumerate(polls, 1):
        shown = [_describe(shop, job_id, int(started_at.timestamp())) for job_id, started_at in jobs.items()]
        for job in shown:
            if job["job_id"] in (elsewhere or {}):
                job |= {"current_working_directory": str(elsewhere[job["job_id"]]), "comment": ""}
        document = {"meta": {}, "errors": [], "jobs": shown}
        (shop.root / f"queue/{number}.json").write_text(json.dumps(document))


def _describe(shop, job_id, started):
    return {
        "job_id": job_id,
        "user_name": "alice",
        "user_id": UID,
        "account": "lab",
        "partition": "gpu",
        "name": "training",
        "job_state": "RUNNING",
        "restart_cnt": 0,
        "requeue": True,
        "nodes": "n1",
        "node_count": 1,
        "cpus": 8,
        "tres_alloc_str": "cpu=8,node=1",
        "time_limit": 5 * 24 * 60,
        "submit_time": started,
        "start_time": started,
        "end_time": started + 5 * 24 * 3600,
        "current_working_directory": str(shop.directory.parent),
        "comment": "ckpt=ckpts",
        "cluster": "c",
    }


@contextmanager
def trained_shop():
    """Give a workshop whose last look was just now, with a configuration that keeps the last two saves."""
    with workshop() as shop:
        shop.now = datetime.now(UTC) - 280 * MINUTE
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.now = datetime.now(UTC)
        shop.look()
        play(shop, {1: shop.queue.jobs[0].started_at})
        (shop.root / "config.toml").write_text(SETTINGS.format(root=shop.root))
        yield shop
