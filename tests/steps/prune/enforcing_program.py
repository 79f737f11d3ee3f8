"""The program of `enforcing_daemon`: the real daemon, whose queue is made up. It holds one job of one user."""

import logging
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from ckptd.config import read_config
from ckptd.core.model import Job, JobState, PastJobs, QueueSnapshot
from ckptd.service import build, schedule
from ckptd.service.daemon import Daemon
from support.forked_programs import fork_programs

SLOW_AGENT = Path(__file__).parents[2] / "fuzz/slow_agent.py"


class Queue:
    """A source of jobs that always shows the one that runs for a day."""

    name = "made up"

    def __init__(self, uid, started_at, work_dir):
        self._uid = uid
        self._started_at = started_at
        self._work_dir = PurePosixPath(work_dir)

    def read_queue(self, now):
        ends_at = self._started_at + timedelta(days=1)
        job = Job(
            cluster="c",
            job_id=1,
            user="alice",
            uid=self._uid,
            state=JobState.RUNNING,
            started_at=self._started_at,
            submitted_at=self._started_at,
            ends_at=ends_at,
            time_limit=timedelta(days=1),
            time_left=ends_at - now,
            work_dir=self._work_dir,
            comment="ckpt=ckpts",
        )
        return QueueSnapshot(cluster="c", polled_at=now, jobs=(job,))

    def read_past(self, since, until):
        return PastJobs((), until)

    def read_ended(self, job_ids, since):
        return ()

    def read_clock(self):
        return None

    def read_maintenance(self):
        return ()


def slow_down(command):
    """Return the command, or instead of the agent one whose renames in the trash take a moment."""
    return [command[0], str(SLOW_AGENT), *command[4:]] if "ckptd.service.agent_process" in command else command


def run(path, uid, start, work_dir, *, is_slow):
    """Run the daemon with the configuration at `path` until it is told to stop; the job started at the time `start`."""
    logging.basicConfig(level="INFO")
    queue = Queue(uid, datetime.fromtimestamp(start, UTC), work_dir)
    schedule.TABLE = tuple(map(publish_each_second, schedule.TABLE))
    build.build_source = lambda config, only_user: queue
    if is_slow:
        fork_programs(change_command=slow_down)
    sys.exit(Daemon(read_config(path, {}), path, os.environ).run())


def publish_each_second(step):
    """Let metrics, for which tests wait, be as new as what they tell."""
    return replace(step, interval=lambda _parts: timedelta(seconds=1)) if step.name == "publish" else step
