"""What commands do while a daemon has the lease of their cluster, and while nobody has it."""

import json
import os
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.cli import apply_plan
from ckptd.core.leadership.lease import RUN
from ckptd.core.model.records import DaemonIdentity
from ckptd.service.lease_keeper import LeaseKeeper
from cli.six_checkpoints import trained_shop
from support.held_lease import hold_lease
from support.prune_facts import CLUSTER


@pytest.fixture
def shop():
    with trained_shop() as shop:
        yield shop


@pytest.fixture
def daemon(shop):
    """The lease of a running daemon."""
    keeper = LeaseKeeper(shop.store, CLUSTER, RUN)
    term = keeper.try_take()
    yield keeper
    keeper.release(term)


def command(shop, *words):
    return CliRunner().invoke(cli.main, ["--config", f"{shop.root}/config.toml", *map(str, words)])


def apply(shop):
    plan = json.loads(command(shop, "plan", "--json").stdout)["plan"]
    return command(shop, "prune", "--apply", "--plan", plan, "--json")


def list_trash(shop):
    return json.loads(command(shop, "trash", "list", "--json").stdout)["trash"]


def test_prune_and_restore_work_beside_the_daemon_under_its_epoch(shop, daemon):
    assert apply(shop).exit_code == 0
    entries = list_trash(shop)
    assert len(entries) == 4
    done = command(shop, "trash", "restore", entries[0]["id"])
    assert (done.exit_code, "1 of 1 restored" in done.stdout) == (0, True), done.output
    assert shop.store.leases.read(CLUSTER).epoch == 1
    assert shop.store.leases.read(CLUSTER).holder == daemon.holder
    with shop.store.database.reading() as connection:
        epochs = connection.exec_driver_sql("SELECT DISTINCT lease_epoch FROM audit").scalars().all()
    assert epochs == [1]


def test_without_a_daemon_a_command_takes_the_lease_and_frees_it(shop):
    assert apply(shop).exit_code == 0
    lease = shop.store.leases.read(CLUSTER)
    assert (lease.epoch, lease.holder) == (1, None)
    [entry, *_] = list_trash(shop)
    assert command(shop, "trash", "empty", entry["id"]).exit_code == 0
    assert shop.store.leases.read(CLUSTER).epoch == 2, "only commands that change something take it"


def test_a_command_stops_when_another_process_takes_over(shop, monkeypatch):
    """Its next transaction is refused, and the new holder recovers what was begun."""
    before = apply_plan._apply

    def apply_after_takeover(*arguments):
        lease = shop.store.leases.read(CLUSTER)
        shop.store.leases.take(CLUSTER, lease, LeaseKeeper(shop.store, CLUSTER, RUN).holder, datetime.now(UTC))
        return before(*arguments)

    monkeypatch.setattr(apply_plan, "_apply", apply_after_takeover)
    done = apply(shop)
    assert done.exit_code == 2
    assert "another process acts for the cluster c now: `ckptd run` on " in done.stderr
    assert list_trash(shop) == []


def test_once_is_refused_beside_the_daemon_and_names_it(shop, daemon):
    done = command(shop, "once")
    assert done.exit_code == 2
    assert f"(pid {os.getpid()}) since 20" in done.stderr
    assert "to run `ckptd once`, stop it first" in done.stderr


@pytest.mark.parametrize("program", [None, "once", RUN])
def test_status_calls_a_daemon_running_only_while_it_holds_the_lease(shop, program):
    now = datetime.now(UTC)
    shop.store.clusters.record_poll(CLUSTER, now)
    shop.store.clusters.record_heartbeat(CLUSTER, DaemonIdentity(host="admin", pid=1, version="0", started_at=now), now)
    if program:
        hold_lease(shop.store, CLUSTER, program)
    done = command(shop, "status", "--json")
    [found] = json.loads(done.stdout)["clusters"]
    assert (found["is_alive"], done.exit_code) == (program == RUN, int(program != RUN))


def test_status_shows_the_leader_and_the_standbys(shop, daemon):
    waiting = LeaseKeeper(shop.store, CLUSTER, RUN)
    waiting.record_standby()
    [found] = json.loads(command(shop, "status", "--json").stdout)["clusters"]
    assert found["leader"] == f"{daemon.holder.host} pid {os.getpid()}"
    assert found["leader_since"] is not None
    assert found["standbys"] == [f"{waiting.holder.host} pid {os.getpid()}"]
    text = command(shop, "status").stdout
    assert f"{daemon.holder.host} pid {os.getpid()}, for " in text
