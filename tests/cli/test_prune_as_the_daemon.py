"""`ckptd prune` carries out a plan as the daemon does: it polls, compares clocks, takes back, and stops when told."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.checkpoints.agent import trash_client
from ckptd.core.model import Level
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.slurm.replay import ReplaySource
from ckptd.steps.prune import audit_entries, pause_record
from cli.six_checkpoints import EPOCHS, SETTINGS, play, trained_shop
from demo.patience import allow
from steps.prune.enforcing_daemon import wait_for
from support.prune_facts import CLUSTER, workshop


@pytest.fixture
def shop():
    with trained_shop() as shop:
        yield shop


def command(shop, *words):
    return CliRunner().invoke(cli.main, ["--config", f"{shop.root}/config.toml", *map(str, words)])


def plan(shop):
    return json.loads(command(shop, "plan", "--json").stdout)["plan"]


def apply(shop, status=0):
    """Apply the plan as it is now; return the acts."""
    done = command(shop, "prune", "--apply", "--plan", plan(shop), "--json")
    assert done.exit_code == status, (done.output, done.exception)
    return json.loads(done.stdout)["removals"]


def refuse(shop):
    """Apply the plan as it is now; return the one sentence by which it is refused."""
    done = command(shop, "prune", "--apply", "--plan", plan(shop))
    assert (done.exit_code, done.stdout, shop.names(), shop.audit(audit_entries.PRUNE)) == (1, "", EPOCHS, []), (
        done.output
    )
    [told] = done.stderr.splitlines()
    return told


def begun(shop):
    return {1: shop.queue.jobs[0].started_at}


def test_where_the_queue_cannot_be_read_nothing_is_moved(shop):
    for path in (shop.root / "queue").iterdir():
        path.unlink()
    assert refuse(shop).startswith("refused: the queue could not be read: program missing: no snapshot in ")


def test_where_squeue_is_missing_nothing_is_moved(shop, monkeypatch):
    config = shop.root / "config.toml"
    config.write_text(config.read_text().replace('source = "replay"', 'source = "squeue"'))
    monkeypatch.setenv("PATH", str(shop.root))
    assert "squeue is not on PATH" in refuse(shop)


def test_a_job_that_began_since_the_daemon_polled_keeps_what_it_may_be_loading(shop):
    play(shop, begun(shop) | {2: datetime.now(UTC)})
    found = apply(shop, status=1)
    assert {(row["result"], row["reason"]) for row in found} == {
        ("left", "job 2 has just started and may be loading any of its checkpoints")
    }
    assert shop.names() == EPOCHS
    assert [run for run in shop.store.runs.list_keys() if run != shop.run] == []  # the record is the daemon's
    assert set(shop.store.jobs.read_tracked(CLUSTER)) == {1}


def test_a_job_that_began_elsewhere_keeps_nothing(shop):
    elsewhere = shop.root / "elsewhere"
    elsewhere.mkdir()
    play(shop, begun(shop) | {2: datetime.now(UTC)}, elsewhere={2: elsewhere})
    assert [row["result"] for row in apply(shop)] == ["moved"] * 4


def test_what_was_moved_comes_back_when_a_job_began_meanwhile(shop):
    play(shop, begun(shop), begun(shop) | {2: datetime.now(UTC)})
    assert {row["result"] for row in apply(shop, status=1)} == {"undone"}
    assert shop.names() == EPOCHS
    assert [entry.outcome for entry in shop.audit(audit_entries.RESTORE)] == ["restored"] * 4
    assert not any(record.pruned_at for record in shop.record().values())


def test_nothing_is_moved_while_slurms_clock_is_another(shop, monkeypatch):
    monkeypatch.setattr(ReplaySource, "read_clock", lambda _: datetime.now(UTC) + timedelta(days=1))
    assert "behind that of Slurm's controller" in refuse(shop)


def test_nothing_is_moved_while_the_daemon_has_stopped_removals(shop):
    pause_record.record(shop.store, CLUSTER, "the clock jumped by +86400 s", shop.now)
    assert refuse(shop) == "refused: the clock cannot be trusted: the clock jumped by +86400 s"
    pause_record.record(shop.store, CLUSTER, None, shop.now)
    assert [row["result"] for row in apply(shop)] == ["moved"] * 4


def test_what_was_refused_lately_is_tried_again_when_a_person_asks_for_it(shop):
    for number in range(3):
        entry = audit_entries.intend(
            audit_entries.PRUNE, shop.run, f"/{number}", act_id=f"x{number}", actor="policy", now=shop.now
        )
        audit_id = shop.store.audit.record(entry)
        shop.store.audit.finish(audit_id, "refused: it is open", shop.now, {"cause": "open"})
    assert [row["result"] for row in apply(shop)] == ["moved"] * 4


def test_failures_of_late_stop_the_command_too(shop):
    before = plan(shop)
    for number in range(3):
        entry = audit_entries.intend(
            audit_entries.PRUNE, shop.run, f"/{number}", act_id=f"x{number}", actor="policy", now=shop.now
        )
        shop.store.audit.finish(shop.store.audit.record(entry), "failed: no", shop.now, {"cause": "permission"})
    done = command(shop, "prune", "--apply", "--plan", before)
    assert (done.exit_code, shop.names()) == (1, EPOCHS)
    assert "the circuit breaker stopped removals" in done.stdout


def test_what_was_cut_off_is_recovered_first(shop):
    cut_off = audit_entries.intend(
        audit_entries.PRUNE, shop.run, "/x", act_id="cut-off", actor="policy tight", now=shop.now
    )
    shop.store.audit.record(cut_off)
    assert [row["result"] for row in apply(shop)] == ["moved"] * 4
    assert shop.audit(audit_entries.PRUNE)[0].outcome == "undone: cut off"


def test_bytes_of_the_newest_that_were_flipped_are_found_before_anything_goes(shop):
    config = shop.root / "config.toml"
    config.write_text(config.read_text() + 'verify = "full"\n')
    mark_verified(shop)
    newest = shop.directory / EPOCHS[-1]
    before = newest.stat()
    with newest.open("r+b") as file:
        file.seek(200)
        file.write(b"\xff\xfe")
    os.utime(newest, ns=(before.st_atime_ns, before.st_mtime_ns))
    done = command(shop, "prune", "--apply", "--plan", plan(shop))
    assert (done.exit_code, shop.names()) == (1, EPOCHS)


def mark_verified(shop):
    """Note in the record that every byte of the newest was read just now."""
    newest = shop.record()[EPOCHS[-1]]
    deep = replace(newest.checkpoint, level=Level.FULL)
    changes = CheckpointChanges(changed=(replace(newest, checkpoint=deep, verified_full_at=shop.now),))
    shop.store.checkpoints.record_changes(shop.run, changes)


COUNT = 80
STOPPING = "Stopping: no further checkpoint will be moved."


@contextmanager
def long_trained_shop():
    """Give a run of many checkpoints, so that pruning it takes a while."""
    with workshop() as shop:
        shop.now = datetime.now(UTC) - timedelta(minutes=3 * COUNT + 10)
        shop.start_job()
        shop.train(range(1, COUNT + 1), every=2, saves_per_look=20)
        shop.now = datetime.now(UTC)
        shop.look()
        settings = SETTINGS.replace("[retention.caps]", '[retention]\nmin_age = "1s"\n[retention.caps]')
        (shop.root / "config.toml").write_text(settings.format(root=shop.root))
        play(shop, begun(shop))
        yield shop


def test_ctrl_c_stops_after_the_checkpoint_in_progress_with_a_summary():
    with long_trained_shop() as shop:
        words = ["--config", f"{shop.root}/config.toml", "prune", "--apply", "--plan", plan(shop)]
        argv = [sys.executable, "-m", "ckptd", *words]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as done:
            wait_for("some moves", lambda: len(shop.trashed()) >= 5)
            os.killpg(done.pid, signal.SIGINT)
            stdout, stderr = done.communicate(timeout=allow(60))
        assert done.returncode == 1, stderr
        assert STOPPING in stderr
        assert "Traceback" not in stderr
        moved = [entry for entry in shop.audit(audit_entries.PRUNE) if entry.outcome == "moved"]
        put_back = shop.audit(audit_entries.RESTORE)
        assert 5 <= len(moved) < COUNT - 2
        assert len(put_back) <= 1
        assert len(shop.names()) == COUNT - len(moved) + len(put_back)
        assert len(shop.trashed()) == len(moved) - len(put_back)
        assert [entry for entry in shop.audit() if entry.finished_at is None] == []
        assert "Stopped by a signal before the plan was completed." in stdout
        assert f"{len(moved) - len(put_back)} moved to the trash" in stdout
        assert " left: removals were stopped before its turn" in stdout


@pytest.mark.usefixtures("caught_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_checkpoint_is_moved_takes_it_back_and_leaves_the_others(shop, number, monkeypatch, capfd):
    move = trash_client.move_aside

    def move_and_signal(*arguments):
        found = move(*arguments)
        if len(shop.trashed()) == 2:
            os.kill(os.getpid(), number)
        return found

    monkeypatch.setattr(trash_client, "move_aside", move_and_signal)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    done = command(shop, "prune", "--apply", "--plan", plan(shop))
    assert done.exit_code == 1, done.output
    assert STOPPING in capfd.readouterr().err
    assert "Stopped by a signal before the plan was completed." in done.stdout
    assert "1 moved to the trash" in done.stdout
    assert "1 undone: removals were stopped while it was moved" in done.stdout
    assert "2 left: removals were stopped before its turn" in done.stdout
    assert [entry.outcome for entry in shop.audit(audit_entries.PRUNE)] == ["moved"] * 2
    assert [entry.outcome for entry in shop.audit(audit_entries.RESTORE)] == ["restored"]
    assert (len(shop.trashed()), shop.names()) == (1, EPOCHS[1:])
    assert [entry for entry in shop.audit() if entry.finished_at is None] == []
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
