"""Commands whose standard output cannot be written, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ckptd
from demo.patience import allow
from support.checkpoint_bytes import torch_state
from support.filled_records import fill_once
from web import samples

COMMANDS = [
    "jobs",
    "show 50",
    "status",
    "plan",
    "flags",
    "inspect checkpoint.pt",
    "config example",
    "flags --json",
    "-h",
]
NEWEST = "newest ."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A directory with a checkpoint, a database and the configuration that names it."""
    directory = tmp_path_factory.mktemp("site")
    fill_once(f"sqlite:///{directory}/ckptd.sqlite3", samples.fill)
    (directory / "config.toml").write_text(f'[service]\nstate_directory = "{directory}"\n')
    (directory / "checkpoint.pt").write_bytes(torch_state(1, 100))
    return directory


def shell(site, script, command):
    """Run a script of the shell with `ckptd COMMAND` as $@."""
    words = ["bash", "-c", script, "shell", sys.executable, "-m", "ckptd", "--config", "config.toml", *command.split()]
    environment = {**os.environ, "PYTHONPATH": f"{Path(ckptd.__file__).parents[1]}"}
    return subprocess.run(
        words, capture_output=True, text=True, timeout=allow(120), check=False, cwd=site, env=environment
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_command_that_cannot_write_says_so_in_one_sentence_and_fails(site, command, redirection, reason):
    done = shell(site, f'"$@" {redirection}', command)
    assert done.stderr == f"ckptd: standard output cannot be written: {reason}\n"
    assert done.returncode == 2


def test_a_command_that_can_write_nothing_at_all_fails_with_the_same_status(site):
    assert shell(site, '"$@" >/dev/full 2>&1', "jobs").returncode == 2
    assert shell(site, '"$@" >&- 2>&-', "jobs").returncode == 2


@pytest.mark.parametrize("option", ["", " --json"])
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_newest_keeps_a_job_from_starting_at_the_beginning_if_it_cannot_write(site, redirection, reason, option):
    done = shell(site, f'"$@" {redirection}', NEWEST + option)
    assert done.stderr == f"ckptd newest: unknown: standard output cannot be written: {reason}\n"
    assert done.returncode == 3


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "2> >(true)"])
def test_newest_prints_the_path_where_its_messages_cannot_be_written(site, tmp_path, redirection):
    (tmp_path / "epoch_1.pt").write_bytes(torch_state(1, 100))
    (tmp_path / "epoch_2.pt").write_bytes(torch_state(2, 200)[:50])  # damaged: a message names it
    done = shell(site, f'"$@" {redirection}', f"newest {tmp_path}")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/epoch_1.pt\n")


@pytest.mark.parametrize("command", [*COMMANDS, NEWEST, f"{NEWEST} --json"])
def test_a_command_ends_quietly_by_sigpipe_if_the_reader_closes_the_pipe(site, command):
    script = 'exec 3> >(:); wait $!; "$@" >&3'  # the reader has ended before the command starts
    assert shell(site, f"{script}; echo $? >&2", command).stderr == "141\n"
