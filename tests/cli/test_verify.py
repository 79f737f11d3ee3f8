"""`ckptd verify` reads every byte of recorded checkpoints, records the results, and can be interrupted."""

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.checkpoints.executor import LocalExecutor
from ckptd.core.model import CheckpointState, Level
from cli.six_checkpoints import EPOCHS, trained_shop
from demo.patience import allow
from support.flipped_byte import flip_a_byte
from support.prune_facts import UID


@pytest.fixture
def shop():
    with trained_shop() as shop:
        yield shop


def command(shop, *words):
    return CliRunner().invoke(cli.main, ["--config", f"{shop.root}/config.toml", "verify", *map(str, words)])


def verify(shop, *words, status=0):
    done = command(shop, *words, "--json")
    assert done.exit_code == status, (done.output, done.exception)
    return json.loads(done.stdout)


def read_record(shop):
    return {each.checkpoint.path.name: each for each in shop.store.checkpoints.read(shop.run)}


def test_every_checkpoint_of_a_run_is_read_and_recorded_the_newest_first(shop):
    done = verify(shop, shop.directory)
    assert [(os.path.basename(each["path"]), each["result"]) for each in done["checkpoints"]] == [
        (name, "complete") for name in reversed(EPOCHS)
    ]
    found = read_record(shop)
    assert {each.checkpoint.level for each in found.values()} == {Level.FULL}
    assert all(each.verified_full_at for each in found.values())


def test_what_was_verified_is_read_again_only_on_request(shop):
    verify(shop, "--all")
    again = verify(shop, "1")
    assert (again["checkpoints"], again["verified_before"]) == ([], 6)
    assert len(verify(shop, "1", "--again")["checkpoints"]) == 6


def test_a_damaged_byte_that_no_scan_sees_is_found_and_recorded(shop):
    flip_a_byte(shop.directory / EPOCHS[2])
    shop.wait(10)
    shop.look()
    known = read_record(shop)[EPOCHS[2]].checkpoint
    assert (known.state, known.level) == (CheckpointState.COMPLETE, Level.STRUCTURE)
    done = verify(shop, shop.directory, status=1)
    (damaged,) = [each for each in done["checkpoints"] if each["result"] != "complete"]
    assert (os.path.basename(damaged["path"]), damaged["result"]) == (EPOCHS[2], "damaged")
    assert damaged["reason"]
    assert read_record(shop)[EPOCHS[2]].checkpoint.state is CheckpointState.DAMAGED


def test_a_checkpoint_that_changed_since_the_last_scan_stays_unknown(shop):
    flip_a_byte(shop.directory / EPOCHS[0])
    done = verify(shop, shop.directory, status=1)
    (unknown,) = [each for each in done["checkpoints"] if each["result"] != "complete"]
    assert unknown["result"] == "unknown"
    assert "changed since the last scan" in unknown["reason"]
    assert read_record(shop)[EPOCHS[0]].verified_full_at is None


def test_a_pipe_gets_one_line_for_each_checkpoint_and_the_sums(shop):
    lines = command(shop, shop.directory).stdout.splitlines()
    assert lines[0] == "result\tcheckpoint\tsize\treason"
    assert [line.split("\t")[:2] for line in lines[1:7]] == [
        ["complete", str(shop.directory / name)] for name in reversed(EPOCHS)
    ]
    assert lines[7:] == ["6 complete, 0 damaged, 0 unknown"]


def test_runs_are_named_or_all_but_not_both(shop):
    for words in ([], ["--all", "1"]):
        done = command(shop, *words)
        assert done.exit_code == 2, words
        assert "name the runs by JOB or PATH, or verify every run with --all" in done.stderr


def test_ctrl_c_stops_the_reading_and_keeps_the_results_so_far(shop):
    slow = f"""
import sys, time
from ckptd.checkpoints.executor import LocalExecutor
read = LocalExecutor.collect
def read_slowly(self, ticket):
    if any(each.path.name == {EPOCHS[3]!r} for each in self._requests[ticket].checkpoints):
        while True:  # one long sleep would not end if the signal arrived just before it
            time.sleep(0.1)
    return read(self, ticket)
LocalExecutor.collect = read_slowly
from ckptd.cli import main
main(sys.argv[1:], prog_name="ckptd")
"""
    words = [sys.executable, "-c", slow, "--config", f"{shop.root}/config.toml", "verify", str(shop.directory)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            lines = [process.stdout.readline() for _ in range(3)]  # the headings, and two results
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=allow(60))
        finally:
            process.kill()
    assert (process.returncode, errors) == (1, "")
    assert "complete" in lines[2], lines
    assert rest.splitlines() == STOPPED
    assert_two_are_kept(shop)


STOPPED = [
    "2 complete, 0 damaged, 0 unknown",
    "Stopped by a signal: 4 not read. The same command continues with them.",
]


def assert_two_are_kept(shop):
    assert {name for name, each in read_record(shop).items() if each.verified_full_at} == set(EPOCHS[4:])
    assert shop.store.leases.read(shop.run.cluster).holder is None
    continued = verify(shop, shop.directory)
    assert (len(continued["checkpoints"]), continued["verified_before"]) == (4, 2)


@pytest.mark.usefixtures("caught_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_checkpoint_is_read_keeps_the_results_so_far(shop, number, monkeypatch):
    collect = LocalExecutor.collect

    def collect_or_signal(self, ticket):
        if any(each.path.name == EPOCHS[3] for each in self._requests[ticket].checkpoints):
            os.kill(os.getpid(), number)
        return collect(self, ticket)

    with monkeypatch.context() as patch:
        patch.setattr(LocalExecutor, "collect", collect_or_signal)
        done = command(shop, shop.directory)
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[3:] == STOPPED
    assert_two_are_kept(shop)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_the_files_are_read_as_their_owner(shop):
    assert UID != 0
    (shop.directory / EPOCHS[0]).chmod(0)  # which root could read
    done = verify(shop, shop.directory, status=1)
    assert [each["result"] for each in done["checkpoints"]].count("unknown") == 1
