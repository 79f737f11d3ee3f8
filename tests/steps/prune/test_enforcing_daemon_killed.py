"""The whole daemon, enforcing a tight policy, is killed with -9 again and again: what must be true after each start.

It is the real daemon with its real agent, store and schedule; only the queue is made up.
"""

import os
import random
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from demo.patience import allow
from steps.prune.enforcing_daemon import Metrics, Training, TrainingOfSets, start, wait_for
from support.prune_facts import workshop

ROUNDS = int(os.environ.get("CKPTD_DAEMON_KILLS", "4"))
KEPT = 2


def check_needed(shop, training):
    """The newest ones are where they were written, byte for byte."""
    for name in list(training.written)[-KEPT - 1 : -1]:
        assert (shop.directory / name).read_bytes() == training.written[name], name


def check_all(shop, training):
    """What is gone is so by a move on record; what is on record as in the trash is there, or deleted on record."""
    acts = shop.audit()
    assert [entry for entry in acts if entry.finished_at is None] == []
    moved = {e.target.rpartition("/")[2]: str(e.details["act_id"]) for e in acts if is_ended(e, "prune", "moved")}
    deleted = {str(e.details["act_id"]) for e in acts if is_ended(e, "empty", "deleted")}
    there = set(shop.names())
    assert set(training.written) - there == set(moved)
    assert there & set(moved) == set()
    in_trash = set(shop.trashed())
    assert in_trash == set(moved.values()) - deleted
    for name, act_id in moved.items():
        if act_id in in_trash:
            assert (shop.trash() / act_id / "0").read_bytes() == training.written[name]
    for name, record in shop.record().items():
        assert (record.pruned_at is not None) == (name in moved), name
    return moved, deleted


def is_ended(entry, action, outcome):
    return entry.action == action and (entry.outcome or "").startswith(outcome)


@pytest.mark.timeout(20 * ROUNDS + 1200)
def test_killed_at_random_moments_no_needed_checkpoint_is_lost_and_audit_and_disk_agree():
    """The daemon is killed `CKPTD_DAEMON_KILLS` times."""
    chance = random.Random()
    with workshop() as shop, (shop.root / "log").open("w") as log:
        shop.now = datetime.now(UTC)
        training = Training(shop.directory)
        training.start()
        try:
            for _ in range(ROUNDS):
                before = len(shop.audit("prune"))
                daemon = start(shop, log)
                try:
                    wait_for("the daemon to prune", lambda before=before: len(shop.audit("prune")) > before)
                    time.sleep(chance.uniform(0, 1.5))  # the moment of the kill is the test's subject
                finally:
                    daemon.send_signal(signal.SIGKILL)
                    daemon.wait()
                check_needed(shop, training)
        finally:
            training.stop()
        daemon = start(shop, log)
        try:
            wait_for("every act to be settled", Quiet(shop))
        finally:
            daemon.terminate()
            assert daemon.wait(timeout=allow(20)) == 0, (shop.root / "log").read_text()[-3000:]
        moved, deleted = check_all(shop, training)
        assert len(moved) >= ROUNDS
        assert deleted
        last = max(training.written, key=lambda name: int(name[6:-4]))
        assert last in shop.names()


@pytest.mark.parametrize(
    ("number", "mode", "layout"),
    [
        (signal.SIGKILL, "plan", "a file of each rank"),
        (signal.SIGKILL, "off", "index and shards"),
        (signal.SIGTERM, "plan", "a file of each rank"),
        (signal.SIGTERM, "off", "a file of each rank"),
    ],
)
def test_a_daemon_that_ends_within_a_checkpoint_of_40_files_leaves_it_whole_after_the_next_start(number, mode, layout):
    metrics = Metrics()
    with workshop() as shop, (shop.root / "log").open("w") as log:
        shop.now = datetime.now(UTC)
        training = TrainingOfSets(shop.directory, layout)
        training.start()
        daemon = start(shop, log, is_slow=True)
        try:
            wait_for("a move that is under way", lambda: is_moving(shop), seconds=200)
        finally:
            daemon.send_signal(number)
            daemon.wait()
            training.stop()
        daemon = start(shop, log, mode=mode, listen=metrics.listen)
        try:
            metrics.wait_for_steps()
            wait_for("every act to be settled", lambda: all(entry.finished_at for entry in shop.audit()))
        finally:
            daemon.terminate()
            assert daemon.wait(timeout=allow(20)) == 0, (shop.root / "log").read_text()[-3000:]
        assert list(count_unfinished(shop)) == []
        held = [sorted(files) for files in read_held(shop)]
        for files in training.written.values():
            there = [name for name, data in files.items() if read(shop.directory / name) == data]
            assert (len(there), held.count(sorted(files.values()))) in {(40, 0), (0, 1)}


def is_moving(shop):
    """Look for a while, more often than a file is moved, for a checkpoint of which some files are moved."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        with suppress(FileNotFoundError):
            if any(0 < count < 40 for count in count_unfinished(shop)):
                return True
        time.sleep(0.002)
    return False


def count_unfinished(shop):
    """Yield how many files of each checkpoint were moved whose move is not finished."""
    for act_id in shop.trashed():
        names = {path.name for path in (shop.trash() / act_id).iterdir()}
        if "moved" not in names:
            yield sum(name.isdigit() for name in names)


def read_held(shop):
    for act_id in shop.trashed():
        yield [path.read_bytes() for path in (shop.trash() / act_id).iterdir() if path.name.isdigit()]


def read(path):
    return path.read_bytes() if path.exists() else None


class Quiet:
    """Tells when nothing is open and for a few seconds nothing was begun; a long step gives all its acts one time."""

    def __init__(self, shop):
        self.shop = shop
        self.count = 0
        self.since = time.monotonic()

    def __call__(self):
        acts = self.shop.audit()
        if len(acts) != self.count or not all(entry.finished_at for entry in acts):
            self.count, self.since = len(acts), time.monotonic()
        return time.monotonic() - self.since > 8
