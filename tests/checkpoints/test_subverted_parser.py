"""Plays a parser that a checkpoint has taken over: it runs any code, and gets nothing but the files that it reads."""

import json
import os
import socket
import subprocess
import time
from datetime import UTC, datetime

import pytest

from checkpoints.parser_attacks import ATTACKS, Attacks, SubvertedFormat, read_outcome, try_one
from ckptd.checkpoints import formats
from ckptd.checkpoints.agent import agent_operations, confinement, landlock, process, syscall_filter
from ckptd.checkpoints.agent.confinement import confine_commands, confine_files, hold_in_group
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.scanning.inspection import inspect_tree

pytestmark = pytest.mark.skipif(
    bool(confinement.list_missing()), reason="; ".join(confinement.list_missing()) or "confined"
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What became of each attack, in a parser that an inspection started."""
    folder = tmp_path_factory.mktemp("subverted")
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "1.subverted").write_bytes(b"content")
    (outside / "secret").write_bytes(b"secret")
    (inside / "link").symlink_to(outside / "secret")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(formats.FORMATS, "subverted", SubvertedFormat(Attacks(inside, outside)))
        now = datetime.fromtimestamp(time.time() + 3600, UTC)
        found = {each.path.name: each for each in inspect_tree(inside, now=now).checkpoints}
    assert sorted(os.listdir(inside)) == ["1.subverted", "link"]
    assert (inside / "1.subverted").read_bytes() == b"content"
    return read_outcome(found["1.subverted"].reason)


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_kernel_refuses_a_subverted_parser(outcome, attack):
    assert outcome[attack] == "r"


def test_each_attack_would_have_an_effect_without_confinement(tmp_path):
    """Otherwise the test above would show nothing."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside, outside):
        directory.mkdir()
    attacks = Attacks(inside, outside)
    (outside / "secret").write_bytes(b"secret")
    (inside / "link").symlink_to(outside / "secret")
    elsewhere = {"become_a_program", "trace_its_parent", "use_keys", "load_a_program_into_the_kernel"}
    elsewhere |= {"use_io_uring", "clone_into_a_namespace", "make_a_namespace"}  # this kernel may be built without
    for name in set(ATTACKS) - elsewhere:
        (inside / "1.subverted").write_bytes(b"content")
        (inside / "other").unlink(missing_ok=True)
        assert in_child(lambda name=name: try_one(getattr(attacks, name)).encode()) == b"!", name


def in_child(work):
    """Return what `work` returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data


SOCKETS_AND_PROGRAMS = sorted(
    {"open_an_internet_socket", "open_a_unix_socket", "open_a_netlink_socket", "start_a_program", "become_a_program"}
)
ON_THE_KERNEL = sorted(
    {"trace_its_parent", "use_io_uring", "make_a_namespace", "clone_into_a_namespace", "use_keys"}
    | {"load_a_program_into_the_kernel"}
)


@pytest.mark.parametrize("attack", SOCKETS_AND_PROGRAMS + ON_THE_KERNEL)
def test_a_subverted_scan_gets_no_socket_and_no_program(tmp_path, attack):
    def work():
        confine_files()
        return try_one(getattr(Attacks(tmp_path, tmp_path), attack)).encode()

    assert in_child(work) == b"r"


@pytest.mark.parametrize("attack", ON_THE_KERNEL)
def test_a_program_of_the_site_cannot_attack_the_kernel(tmp_path, attack):
    def work():
        confine_commands()
        return try_one(getattr(Attacks(tmp_path, tmp_path), attack)).encode()

    assert in_child(work) == b"r"


def test_a_confined_command_still_starts_programs_and_sockets(tmp_path):
    def work():
        confine_commands()
        socket.socket(socket.AF_UNIX).close()
        return subprocess.run(["/bin/sh", "-c", "echo hello | cat"], check=True, capture_output=True).stdout

    assert in_child(work) == b"hello\n"


@pytest.mark.parametrize("leave", [os.setsid, lambda: os.setpgid(0, 0)])
def test_a_program_cannot_leave_its_process_group_and_does_not_fail(leave):
    def work():
        before = os.getpgid(0), os.getsid(0)
        hold_in_group()
        leave()
        return b"held" if (os.getpgid(0), os.getsid(0)) == before else b"left"

    assert in_child(work) == b"held"


def test_confinement_says_what_the_kernel_lacks(monkeypatch):
    assert confinement.list_missing() == []
    monkeypatch.setattr(landlock, "read_abi", lambda: 0)
    monkeypatch.setattr(syscall_filter, "is_supported", lambda: False)
    assert [each.split(":")[0] for each in confinement.list_missing()] == [
        "Landlock is not available",
        f"there is no seccomp filter on {os.uname().machine}",
    ]
    monkeypatch.setattr(landlock, "read_abi", lambda: 2)
    assert "ABI 2" in confinement.list_missing()[0]


@pytest.mark.parametrize("operation", ["verify", "scan", "move_aside"])
def test_the_agents_child_is_confined_before_it_opens_a_path(tmp_path, operation):
    """It plays the agent with an operation that a hostile directory has taken over."""
    attacks = Attacks(tmp_path, tmp_path)

    def taken_over(_item):
        return {each: try_one(getattr(attacks, each)) for each in SOCKETS_AND_PROGRAMS}

    items = [{"asks_quota": True}]
    answer = ask_agent(operation, items, taken_over, RequestPolicy())
    assert answer == dict.fromkeys(SOCKETS_AND_PROGRAMS, "r")


def test_the_agents_child_can_start_the_sites_command_where_it_was_asked_for(tmp_path):
    attacks = Attacks(tmp_path, tmp_path)

    def taken_over(_item):
        return {each: try_one(getattr(attacks, each)) for each in ("start_a_program", "make_a_namespace")}

    policy = RequestPolicy(quota_command=("quota",))
    assert ask_agent("scan", [{"asks_quota": True}], taken_over, policy) == {
        "start_a_program": "!",
        "make_a_namespace": "r",
    }
    assert ask_agent("scan", [{"asks_quota": False}], taken_over, policy)["start_a_program"] == "r"


def ask_agent(operation, items, work, policy):
    """Return the first answer of an agent whose operation is `work`, with requests of any shape."""
    return ask_agent_each(operation, items, work, policy)[0]


def ask_agent_each(operation, items, work, policy):
    """Return the answer to each item."""
    agent_operations.preload()  # as the agent does
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            process.requests.complete = lambda _operation, item, _policy: item
            process.serve(theirs.detach(), lambda: policy, {operation: work})
        finally:
            os._exit(0)
    theirs.close()
    uid = os.geteuid() or 60_001
    request = {"id": 1, "uid": uid, "operation": operation, "items": items, "deadline_seconds": 30}
    with ours, ours.makefile("rb") as lines:
        ours.sendall(json.dumps(request).encode() + b"\n")
        messages = [json.loads(line) for _, line in zip(range(2 + len(items)), lines, strict=False)]
        ours.shutdown(socket.SHUT_RDWR)
    os.waitpid(child, 0)
    return [each["result"] for each in messages if "result" in each]
