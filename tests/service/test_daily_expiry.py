"""Single cycles let go of what ended long ago, once a day, and never because a clock was wrong for a moment."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.service.daily_expiry import INTERVAL, LONGEST_PAUSE, MARK, claim_day
from ckptd.service.open_database import StateError
from ckptd.steps import expire
from ckptd.store.store import Store
from demo.patience import allow
from steps.daemon_lives import Cluster, Disk, Service
from store.test_summed_checkpoints import save_many
from support.json_documents import check_command
from support.migrated import open_record
from support.queue_facts import STATES, at, make_job

KEEP = timedelta(days=365)
HOUR = timedelta(hours=1)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path):
    """A record with a run whose checkpoints nobody found, which ended in August 2026."""
    url = f"sqlite:///{tmp_path}/ckptd.sqlite3"
    began = -100 * 24 * 60
    times = {"submitted_at": at(began - 2), "started_at": at(began - 1), "ends_at": at(began + 20)}
    service = Service(url, Cluster(), Disk(), began)
    service.run(began, make_job(1, uid=3000, user="carol", **times))
    service.run(began + 30, make_job(1, STATES.COMPLETED, uid=3000, user="carol", **times))
    service.run(began + 31)
    service.parts.store.close()
    return url


def cycles(url, directory, *instants):
    """Run cycles at instants; return how many runs each let go of."""
    gone = []
    for now in instants:
        service = Service(url, Cluster(), Disk(), 0)
        gone.append(
            expire.expire(service.parts, service.state, KEEP, now).run_count if claim_day(directory, now) else 0
        )
        service.parts.store.close()
    return gone


def test_the_first_cycle_a_day_after_another_lets_go_of_what_ended_long_ago(url, tmp_path):
    start = datetime(2028, 1, 1, tzinfo=UTC)
    pauses = (0 * HOUR, HOUR, INTERVAL - HOUR, INTERVAL, INTERVAL + HOUR)
    assert cycles(url, tmp_path, *(start + pause for pause in pauses)) == [0, 0, 0, 1, 0]
    assert (tmp_path / MARK).stat().st_mtime == (start + INTERVAL).timestamp()


@pytest.mark.parametrize("jump", [LONGEST_PAUSE + HOUR, 20 * KEEP, -2 * INTERVAL], ids=["weeks", "years", "back"])
def test_a_clock_that_has_just_been_set_deletes_nothing(url, tmp_path, jump):
    start = datetime(2028, 1, 1, tzinfo=UTC)
    wrong = start + jump
    assert cycles(url, tmp_path, start, wrong, wrong + HOUR) == [0, 0, 0]


def test_where_nothing_can_be_remembered_nothing_is_deleted(url, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="cannot be written"):
        cycles(url, tmp_path / "file", datetime(2028, 1, 1, tzinfo=UTC))


def test_deleted_checkpoints_of_old_runs_become_sums(tmp_path):
    url = f"sqlite:///{tmp_path}/ckptd.sqlite3"
    store = open_record(url)
    save_many(store)
    store.close()
    service = Service(url, Cluster(), Disk(), 0)
    month = service.parts.keep_checkpoints
    assert expire.sum_up_checkpoints(service.parts, service.state, at(0) + month) == 0
    assert expire.sum_up_checkpoints(service.parts, service.state, at(60) + month) == 10
    service.parts.store.close()


def test_the_command_does_it(url, tmp_path):
    (tmp_path / "config.toml").write_text(
        f'[slurm]\nsource = "replay"\ncluster = "alpha"\nreplay_path = "{ROOT}/tests/data/slurm/22.05.8"\n'
        f'[service]\nstate_directory = "{tmp_path}"\n[store]\nkeep = "30d"\n'
    )
    yesterday = datetime.now(UTC) - INTERVAL - HOUR
    (tmp_path / MARK).touch()
    os.utime(tmp_path / MARK, (yesterday.timestamp(), yesterday.timestamp()))
    argv = [sys.executable, "-m", "ckptd", "--config", str(tmp_path / "config.toml"), "once", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=allow(120), check=False)
    assert done.returncode in {0, 1}, done.stderr
    check_command(["once"], done.stdout)
    store = Store.open(url, upgrade=False)
    users = {history.user for history in store.histories.read("alpha")}
    store.close()
    assert "carol" not in users
