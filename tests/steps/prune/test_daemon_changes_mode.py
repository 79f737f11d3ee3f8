"""A policy's mode is changed while the daemon runs: SIGHUP takes it from plan to enforce to off, a bad file nowhere."""

import signal
from datetime import UTC, datetime

from demo.patience import allow
from steps.prune.enforcing_daemon import Metrics, Training, configure, start, wait_for
from support.prune_facts import workshop


def moved_count(shop):
    return sum(entry.outcome == "moved" for entry in shop.audit("prune"))


def test_a_mode_that_is_changed_holds_from_the_next_step_on():
    metrics = Metrics()
    with workshop() as shop, (shop.root / "log").open("w") as log:
        shop.now = datetime.now(UTC)
        shop.look()  # a daemon was there until now, so that this one need not wait before it deletes
        training = Training(shop.directory)
        training.start()
        daemon = start(shop, log, mode="plan", listen=metrics.listen)

        def change(mode):
            configure(shop, mode=mode, listen=metrics.listen)
            before = metrics.read("ckptd_config_last_reload_success_timestamp_seconds")
            daemon.send_signal(signal.SIGHUP)
            wait_for(mode, lambda: metrics.read("ckptd_config_last_reload_success_timestamp_seconds") > before)

        try:
            wait_for("a plan", lambda: metrics.read("ckptd_prune_planned_checkpoints", mode="plan") >= 2)
            assert set(training.written) - set(shop.names()) == set()
            assert (shop.audit(), shop.trashed()) == ([], [])

            change("enforce")
            wait_for("moves", lambda: metrics.read("ckptd_prune_operations_total", action="prune", result="moved") >= 3)
            assert metrics.read("ckptd_prune_operation_bytes_total", action="prune") > 0
            wait_for("the trash", lambda: metrics.read("ckptd_trash_bytes") > 0)
            wait_for(
                "the first hold to end", lambda: metrics.read("ckptd_prune_operation_bytes_total", action="empty") > 0
            )

            change("off")
            metrics.wait_for_steps()  # the one that was under way has ended
            moved, held = moved_count(shop), shop.trashed()
            assert held
            written = len(training.written)
            metrics.wait_for_steps()
            wait_for("more to be saved", lambda: len(training.written) > written + 5)
            assert moved_count(shop) == moved
            assert shop.trashed() == held  # longer than the hold, and yet left alone

            configure(shop, mode="nonsense", listen=metrics.listen)
            daemon.send_signal(signal.SIGHUP)
            wait_for("the refusal", lambda: "configuration reload failed" in (shop.root / "log").read_text())
            metrics.wait_for_steps(1)
            assert moved_count(shop) == moved
        finally:
            training.stop()
            daemon.terminate()
            assert daemon.wait(timeout=allow(20)) == 0, (shop.root / "log").read_text()[-3000:]
        assert [entry for entry in shop.audit() if entry.finished_at is None] == []
