"""The main process in an attacker's hands, against the real agent: only requests of the known form are carried out."""

import json
import os
import socket
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.requests import SHAPES
from ckptd.service.agent_process import OPERATIONS
from demo.patience import allow
from service.subverted_main import ALICE, Attacker, every_operation, user_of
from support.mail_server import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def test_the_configured_command_runs_as_the_owner(site, attacker):
    answers, reason = attacker.ask("scan", site.scan_item())
    assert reason is None
    assert answers[0]["quota_left_bytes"] == 9
    assert site.asked.read_text().split() == [str(ALICE)]


def test_the_configured_command_has_no_privilege_and_gains_none(place):
    fields = "Cap[A-Z][a-z]+|NoNewPrivs|Seccomp"
    place.write(quota_command=["/bin/sh", "-c", f"grep -E '^({fields}):' /proc/self/status > {place.asked}; echo 1 10"])
    attacker = Attacker(place.config)
    try:
        assert attacker.ask("scan", place.scan_item())[0][0]["quota_left_bytes"] == 9
    finally:
        attacker.close()
    found = dict(line.split(":\t") for line in place.asked.read_text().splitlines())
    assert {name: int(found[name], 16) for name in found} == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0),
        "NoNewPrivs": 1,
        "Seccomp": 2,  # a filter
    }


def test_a_child_that_hangs_is_ended_though_it_has_become_another_user(place):
    place.write(quota_command=["/bin/sh", "-c", f"echo $PPID > {place.asked}; exec sleep 10"])
    attacker = Attacker(place.config)
    try:
        assert attacker.ask("scan", place.scan_item(), deadline_seconds=3)[1] == "it did not answer in time"
        child = Path("/proc", place.asked.read_text().strip())
        wait_until(lambda: not child.exists() or "(zombie)" in (child / "status").read_text(), 20)
    finally:
        attacker.close()


@pytest.mark.parametrize(
    "field",
    [
        {"quota_command": ["/bin/sh", "-c", "touch {stolen}; echo 1 10"]},
        {"allowed_roots": ["/"]},
        {"max_entries": 10**9},
        {"max_depth": 10**9},
        {"write_grace_seconds": 0},
    ],
)
def test_a_request_that_brings_its_own_command_or_limit_is_refused(site, attacker, field):
    stolen = site.run / "stolen"
    item = json.loads(json.dumps(site.scan_item(**field)).replace("{stolen}", str(stolen)))
    answers, _ = attacker.ask("scan", item)
    assert answers == {0: {"unknown": f"scan: unknown field {next(iter(field))!r}"}}
    assert not stolen.exists()
    assert site.asked.read_text() == ""


def test_a_request_cannot_write_lines_of_its_own_into_the_log(attacker):
    attacker.ask("scan", {}, uid="9\nagent: pwned\x1b[31m")
    assert "\nagent: pwned" not in attacker.read_log()
    assert "\x1b" not in attacker.read_log()
    assert "refused a request for uid 9?agent: pwned" in attacker.read_log()


@pytest.mark.parametrize("operation", ["shell", "", "__class__", "quota", "command\n"])
def test_an_operation_that_is_not_in_the_list_is_refused_and_logged(attacker, operation):
    answers, reason = attacker.ask(operation, {})
    assert answers == {}
    assert "there is no operation" in reason
    assert f"refused a request for uid {ALICE}: there is no operation {operation!r}" in attacker.read_log()


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": -1},
        {"uid": 2**32 - 1},
        {"uid": "0"},
        {"uid": True},
        {"uid": None},
        {"uid": 1e3},
        {"items": []},
        {"items": [{}] * 1000},
        {"items": {}},
        {"deadline_seconds": 0},
        {"deadline_seconds": 1e9},
        {"deadline_seconds": "1"},
        {"deadline_seconds": 10**400},  # no float is as large
        {"argv": ["sh"]},
    ],
)
def test_a_malformed_request_is_refused(site, attacker, changes):
    answers, reason = attacker.ask("scan", site.scan_item(), **changes)
    assert answers == {}
    assert reason.startswith("refused: request: ")
    assert attacker.ask("scan", site.scan_item())[1] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"directory": 3},
        {"directory": "/x" * 4096},
        {"directory": "/a\0b"},
        {"now": "now"},
        {"now": 10**400},
        {"work_dirs": "/"},
        {"work_dirs": [{}]},
        {"known": [3]},
        {"asks_quota": 1},
        {"fingerprint": 1},
        {"fingerprint": "f" * 100_000},
        {"resuming_jobs": ["7"]},
        {"resuming_jobs": [0]},
        {"resuming_jobs": [7] * 1000},
        {"candidates": "/"},
        {"candidates": ["/x"] * 1000},
        {"candidates": [["/x"]]},
        {"read_since": "now"},
    ],
)
def test_a_malformed_item_is_refused_before_anything_is_opened(site, attacker, changes):
    answers, _ = attacker.ask("scan", {**site.scan_item(), **changes})
    assert answers[0]["unknown"].startswith(f"scan: field {next(iter(changes))!r} has a wrong type")
    assert site.asked.read_text() == ""


def test_an_item_that_lacks_a_field_is_refused(site, attacker):
    for name in site.scan_item():
        item = site.scan_item()
        del item[name]
        assert attacker.ask("scan", item)[0] == {0: {"unknown": f"scan: field {name!r} is missing"}}


def test_a_line_that_is_no_request_ends_nothing(site, attacker):
    for line in (b"nonsense", b"[" * 100_000, b"[]", b"3", b'{"id": [], "uid": {}, "operation": []}', b"\xff", b""):
        attacker.send(line)
    assert attacker.ask("scan", site.scan_item())[1] is None


def test_a_main_process_that_is_gone_before_an_answer_leaves_no_error_in_the_log(place):
    """As a command that needed the agent for nothing, and has ended before the agent is ready."""
    attacker = Attacker(place.config)
    attacker.connection.shutdown(socket.SHUT_RD)  # what is sent there fails from now on
    attacker.send(json.dumps({"id": 1, "ping": True}).encode())
    attacker.connection.shutdown(socket.SHUT_WR)
    attacker.process.wait(timeout=allow(20))
    assert attacker.process.returncode == 0
    assert "Traceback" not in attacker.read_log()
    attacker.lines.close()
    attacker.connection.close()
    attacker.log_file.close()


def test_the_requests_of_this_test_are_those_of_the_agent(site):
    assert every_operation(site).keys() == OPERATIONS.keys() == SHAPES.keys()


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_nothing_is_done_as_a_user_of_the_system(site, attacker, operation):
    item = every_operation(site)[operation]
    names = [name for name in ("munge", "slurm", "postgres", "daemon", "nobody") if name in site.accounts]
    assert {"munge", "slurm", "postgres"} <= set(names), "install the packages that `deploy/demo/install test` names"
    for uid in (0, 1, 999, 2**32 - 2, *map(user_of, names)):
        answers, reason = attacker.ask(operation, item, uid=uid)
        assert answers == {}
        assert reason.startswith("refused: "), (uid, reason)
        assert f"uid {uid}: {reason.removeprefix('refused: ')}" in attacker.read_log()
    assert site.asked.read_text() == ""
