"""What was asked of the agent of a daemon is not done after its lease, though the daemon itself was stopped."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from fuzz import failover_load
from support.mail_server import wait_until
from support.real_daemon import RealDaemon

DELAY_SECONDS = 25  # longer than a lease

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="jobs of users who exist need root")


@pytest.fixture
def load():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # for the users
        made = failover_load.Load(Path(name))
        yield made
        made.close()


@pytest.fixture
def daemon(load, postgresql_record):
    environment = load.slurm.environment
    made = RealDaemon(
        load.root / "a", postgresql_record, load.settings, source=failover_load.SOURCE, environment=environment
    ).start()
    wait_until(lambda: made.is_leader, 60)
    yield made
    made.process.send_signal(signal.SIGCONT)
    made.kill()


def test_a_command_of_slurm_that_takes_longer_than_the_lease_of_a_stopped_daemon_is_ended(load, daemon):
    load.slurm.delay(DELAY_SECONDS)
    load.time_out()
    wait_until(load.slurm.find_waiting, 60)
    daemon.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: load.slurm.find_waiting() is None, 60)
    assert load.slurm.list_calls() == []


def test_a_job_that_was_first_polled_after_its_time_limit_is_resubmitted(load, daemon):
    number = load.time_out()
    wait_until(load.slurm.list_calls, 60)
    ((_, command, _, _, work_dir),) = load.slurm.list_calls()
    assert (command, work_dir) == ("sbatch", load.slurm.read(number)["WorkDir"])
