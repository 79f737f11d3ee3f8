"""The main process in an attacker's hands: the watcher tells of nothing that the configuration does not allow."""

import json
import os
import pwd
import shlex
import sys
from pathlib import Path

import pytest

from ckptd.checkpoints.agent import watcher_client
from ckptd.service.watcher_start import start_watcher
from service.subverted_main import ALICE
from support.mail_server import wait_until
from support.unit_capabilities import limit_to_unit

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can have another user's rights")


@pytest.fixture
def watcher(place, monkeypatch):
    program = place.config.parent / "python"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([*limit_to_unit(), sys.executable])} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(watcher_client, "PAUSE_PER_DIRECTORY", 0)
    client = start_watcher(place.config)
    yield client
    client.close()


def send(watcher, line):
    watcher._connection.sendall(line + b"\n")


def change_until_told(watcher, directory):
    """Write into a directory again and again until the watcher tells of it: it begins some time after the request."""
    written = []

    def is_told():
        written.append(directory / f"file-{len(written)}")
        written[-1].touch()
        return str(directory) in watcher.take_changed()

    wait_until(is_told, 20)


def test_directories_of_the_systems_accounts_are_not_watched(place, watcher):
    accounts = [user for user in pwd.getpwall() if user.pw_name in {"munge", "slurm", "postgres", "daemon"}]
    assert len(accounts) == 4, "install the packages that `deploy/demo/install test` names"
    asked = {}
    for user in accounts:
        asked[str(place.root / user.pw_name)] = user.pw_uid
        (place.root / user.pw_name).mkdir(mode=0o700)
        os.chown(place.root / user.pw_name, user.pw_uid, user.pw_gid)
    watcher.watch([*asked.items(), (str(place.run), ALICE)])
    change_until_told(watcher, place.run)
    assert watcher.unwatched.keys() == asked.keys()
    assert all("uid_min" in reason or "deny_users" in reason for reason in watcher.unwatched.values())
    for directory in asked:
        Path(directory, "new").touch()
    change_until_told(watcher, place.run)
    assert watcher.take_changed() <= {str(place.run)}


def test_nothing_is_watched_outside_the_roots(place, watcher):
    outside = str(place.outside)
    watcher.watch([(outside, ALICE), (str(place.run), ALICE)])
    change_until_told(watcher, place.run)
    assert watcher.unwatched == {outside: f"{outside} is outside the site's allowed roots"}


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"[" * 100_000,
        b"{}",
        b'{"watch": 3}',
        b'{"watch": [["/tmp"]]}',
        b'{"watch": [[3, 54321]]}',
        b'{"watch": [["/tmp", "54321"]]}',
        b'{"watch": [["/tmp", -1]]}',
        b'{"watch": [["/tmp", 4294967295]]}',
        b'{"watch": [["/a\\u0000b", 54321]]}',
        b'{"watch": [["/\\ud800", 54321]]}',
        b'{"reload": true, "allowed_roots": ["/"]}',
    ],
)
def test_a_malformed_request_does_not_end_it(place, watcher, line):
    send(watcher, line)
    watcher.watch([(str(place.run), ALICE)])
    change_until_told(watcher, place.run)


def test_a_reload_ends_what_the_configuration_no_longer_allows(place, watcher):
    run, missing = str(place.run), str(place.root / "missing")
    watcher.watch([(run, ALICE)])
    change_until_told(watcher, place.run)
    place.write(f"[agent]\nuid_min = {ALICE + 1}\n")
    os.chown(place.config, ALICE, ALICE)
    watcher.reload()
    watcher.watch([(run, ALICE), (missing, ALICE)])
    wait_until(lambda: watcher.unwatched, 20)
    assert watcher.unwatched.keys() == {missing}, "the file is not trusted: the policy of before is still in force"
    os.chown(place.config, 0, 0)
    watcher.reload()
    wait_until(lambda: run in watcher.unwatched, 20)
    assert watcher.unwatched[run] == f"uid {ALICE} is below uid_min, {ALICE + 1}"
    place.write()
    watcher.reload()
    change_until_told(watcher, place.run)


def test_a_file_that_others_may_write_starts_no_watcher(place):
    place.config.chmod(0o664)
    client = start_watcher(place.config)
    assert client._process.wait(timeout=60) == 1
    client.close()


def test_a_request_is_the_one_that_the_main_process_sends(place, watcher):
    send(watcher, json.dumps({"watch": [[str(place.run), ALICE]]}).encode())
    change_until_told(watcher, place.run)
