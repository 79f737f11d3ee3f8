"""The real daemon is told to stop removing, in the middle of many: by another mode, by another policy, by its end."""

import signal
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.steps.prune import audit_entries
from demo.patience import allow
from steps.prune.enforcing_daemon import Metrics, configure, start, wait_for
from support.prune_facts import workshop

COUNT = 80
READ = "configuration reloaded"


@contextmanager
def busy_daemon(listen=""):
    """Give a shop with many checkpoints, and the daemon that is removing them."""
    with workshop() as shop, (shop.root / "log").open("w") as log:
        shop.now = datetime.now(UTC) - timedelta(minutes=3 * COUNT + 10)
        began_at = shop.now
        shop.start_job()
        shop.train(range(1, COUNT + 1), every=2, saves_per_look=20)
        shop.now = datetime.now(UTC)
        shop.look()
        shop.now = began_at  # of the daemon's job
        daemon = start(shop, log, listen=listen)
        try:
            wait_for("some moves", lambda: len(shop.trashed()) >= 5)
            yield shop, daemon
        finally:
            daemon.terminate()
            assert daemon.wait(timeout=allow(30)) == 0, read_log(shop)[-3000:]


def read_log(shop):
    return (shop.root / "log").read_text()


def begun(shop):
    return len(shop.audit(audit_entries.PRUNE))


def check_books(shop):
    """Every act has ended; what was moved is in the trash, put back or deleted; all else is where it was."""
    assert [entry for entry in shop.audit() if entry.finished_at is None] == []
    ended = {
        (action, outcome): {entry.details["act_id"] for entry in shop.audit(action) if entry.outcome == outcome}
        for action, outcome in (
            (audit_entries.PRUNE, "moved"),
            (audit_entries.RESTORE, "restored"),
            (audit_entries.EMPTY, "deleted"),
        )
    }
    moved, put_back, deleted = ended.values()
    assert shop.trashed() == sorted(moved - put_back - deleted)
    assert len(shop.names()) == COUNT - len(moved - put_back)


@pytest.mark.parametrize("change", ["mode = plan", "mode = off", "more is kept"])
def test_after_a_reload_no_further_checkpoint_is_moved_and_the_one_in_progress_is_put_back(change):
    metrics = Metrics()
    with busy_daemon(metrics.listen) as (shop, daemon):
        mode = change.removeprefix("mode = ") if change.startswith("mode") else "enforce"
        path = configure(shop, mode=mode, listen=metrics.listen)
        if mode == "enforce":
            path.write_text(path.read_text().replace("last = 2", f"last = {COUNT}"))
        daemon.send_signal(signal.SIGHUP)
        wait_for("the answer", lambda: READ in read_log(shop))
        begun_then = begun(shop)
        metrics.wait_for_steps(3)
        wait_for("the end of the one in progress", lambda: all(entry.finished_at for entry in shop.audit()))
        assert 5 <= begun(shop) <= begun_then + 1 < COUNT - 2
        assert len(shop.audit(audit_entries.RESTORE)) <= 1
        check_books(shop)


def test_after_sigterm_no_further_checkpoint_is_moved_and_the_one_in_progress_is_put_back():
    with busy_daemon() as (shop, daemon):
        daemon.terminate()
        asked_at = time.monotonic()
        begun_then = begun(shop)
        assert daemon.wait(timeout=allow(30)) == 0
        assert time.monotonic() - asked_at < allow(10)
        assert 5 <= begun(shop) <= begun_then + 1 < COUNT - 2
        assert len(shop.audit(audit_entries.RESTORE)) <= 1
        check_books(shop)


def test_a_reload_that_wants_nothing_else_of_retention_stops_nothing():
    with busy_daemon() as (shop, daemon):
        daemon.send_signal(signal.SIGHUP)
        wait_for("the answer", lambda: READ in read_log(shop))
        wait_for("the rest", lambda: len(shop.names()) == 2)
        assert shop.audit(audit_entries.RESTORE) == []
