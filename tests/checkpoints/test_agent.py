import os
import signal
import socket
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from ckptd.checkpoints.agent import scan_json
from ckptd.checkpoints.agent.client import NOT_REACHED, AgentGoneError, Batch
from ckptd.core.model import Unknown
from ckptd.service.agent_start import start_agent
from ckptd.service.watcher_start import start_watcher
from demo.patience import allow
from support import hanging_file_system

SOMEONE = 54321  # a uid that no user has


@pytest.fixture(scope="module")
def agent():
    client = start_agent(None)
    yield client
    client.close()


@pytest.fixture
def owned():
    """A directory that only SOMEONE may enter, or this test run's own user where that is not root.

    It lies beside pytest's own temporary directory, which another run of pytest may close to others at any time.
    """
    uid = SOMEONE if os.geteuid() == 0 else os.geteuid()
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        directory = Path(parent) / "owned"
        directory.mkdir(mode=0o700)
        (directory / "checkpoint-3").write_bytes(b"x" * 100)
        if os.geteuid() == 0:
            os.chown(directory, uid, uid)
            os.chown(directory / "checkpoint-3", uid, uid)
        yield uid, directory


def scan_item(directory):
    now = datetime.now(UTC).timestamp()
    return {
        "directory": str(directory),
        "now": now,
        "asks_quota": False,
        "work_dirs": [],
        "resuming_jobs": [],
        "candidates": [],
        "read_since": None,
        "known": [],
        "fingerprint": None,
        "shares_parser": False,
        "results": None,
    }


def test_a_scan_is_done_as_the_owner_of_the_files(agent, owned):
    uid, directory = owned
    [[answer]] = agent.run([Batch(uid=uid, operation="scan", items=(scan_item(directory),), deadline_seconds=20)])
    assert not isinstance(answer, Unknown), answer.reason
    scan = scan_json.decode_scan(answer)
    assert scan.finished_at is not None
    assert scan.scanned_at <= scan.finished_at <= datetime.now(UTC)
    assert [str(checkpoint.path) for checkpoint in scan.checkpoints] == [str(directory / "checkpoint-3")]
    assert scan.checkpoints[0].owner_uids == {uid}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_see_what_the_owner_keeps_private(agent, owned):
    _, directory = owned
    [[answer]] = agent.run([Batch(uid=60001, operation="scan", items=(scan_item(directory),), deadline_seconds=20)])
    assert answer == Unknown(what="directory", reason="Permission denied")


def test_nothing_is_done_as_root(agent, tmp_path):
    items = (scan_item(tmp_path / "a"), scan_item(tmp_path / "b"))
    [answers] = agent.run([Batch(uid=0, operation="scan", items=items, deadline_seconds=20)])
    assert answers == [Unknown(what="agent", reason="refused: nothing is done as root on behalf of a job")] * 2


def test_trouble_with_one_directory_leaves_the_next_alone(agent, owned):
    uid, directory = owned
    items = (scan_item(directory / "missing"), scan_item(directory))
    [[first, second]] = agent.run([Batch(uid=uid, operation="scan", items=items, deadline_seconds=20)])
    assert first == Unknown(what="directory", reason="No such file or directory")
    assert second["checkpoints"]


def test_what_no_code_expected_of_one_directory_leaves_the_next_alone(agent, owned):
    uid, directory = owned
    items = ({**scan_item(directory), "now": 1e99}, scan_item(directory))
    [[first, second]] = agent.run([Batch(uid=uid, operation="scan", items=items, deadline_seconds=20)])
    assert isinstance(first, Unknown)
    assert "out of range" in first.reason
    assert second["checkpoints"]


def test_an_unknown_operation_is_refused_and_the_agent_lives_on(agent, owned):
    uid, directory = owned
    [[answer]] = agent.run([Batch(uid=uid, operation="shell", items=({},), deadline_seconds=20)])
    assert isinstance(answer, Unknown)
    [[answer]] = agent.run([Batch(uid=uid, operation="scan", items=(scan_item(directory),), deadline_seconds=20)])
    assert answer["checkpoints"]


def test_a_child_that_hangs_is_given_up_and_others_are_served(agent, owned):
    uid, directory = owned
    # fifty scans take longer than a tenth of a millisecond
    began = time.monotonic()
    batches = [
        Batch(uid=uid, operation="scan", items=(scan_item(directory),) * 50, deadline_seconds=0.0001),
        Batch(uid=uid, operation="scan", items=(scan_item(directory),), deadline_seconds=20),
    ]
    late, served = agent.run(batches)
    given_up = Unknown(what="agent", reason="it did not answer in time")
    assert given_up in late
    assert late[-1] in {NOT_REACHED, given_up}, "the child may be stopped in the last of them"
    assert served[0]["checkpoints"]
    assert time.monotonic() - began < allow(15)


def test_an_agent_that_ended_unseen_is_said_to_have_ended():
    client = start_agent(None)
    try:
        # as where the agent ends between two requests, and the reading thread is late
        client._connection.shutdown(socket.SHUT_WR)
        with pytest.raises(AgentGoneError, match="has ended"):
            client.run([Batch(uid=os.getuid(), operation="scan", items=(), deadline_seconds=20)])
    finally:
        client.close()


def test_after_the_agent_is_closed_it_says_so():
    client = start_agent(None)
    client.close()
    with pytest.raises(AgentGoneError):
        client.run([Batch(uid=os.geteuid(), operation="scan", items=({},), deadline_seconds=1)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[mail]\nmute = true\n", ["*"]),
        ('[mail]\nmute = ["at-risk", "no-room"]\n', ["at-risk", "no-room"]),
        ("[mail]\nmute = false\n", []),
        ("[mail]\nmute = 3\n", []),
        ("mail = 3\n", []),
        ("[mail\n", []),
        ('directory = "x"\n', []),
    ],
)
def test_the_rules_that_a_user_mutes_are_read_as_that_user(agent, owned, text, expected):
    uid, directory = owned
    (directory / ".ckptd.toml").write_text(text)
    batch = Batch(uid=uid, operation="read_mutes", items=({"work_dir": str(directory)},), deadline_seconds=20)
    ((answer,),) = agent.run([batch])
    assert answer["mute"] == expected


@pytest.mark.parametrize("start", [partial(start_agent, None), partial(start_watcher, None)])
def test_a_helper_that_hangs_and_can_no_longer_be_killed_holds_nobody_up(start):
    """As in the daemon, which has become its own account by then."""
    is_root = os.geteuid() == 0
    client = start()
    process = client._process
    process.send_signal(signal.SIGSTOP)
    if is_root:
        os.setresuid(SOMEONE, SOMEONE, 0)
    try:
        client.close()
    finally:
        if is_root:
            os.setresuid(0, 0, 0)
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.wait(timeout=allow(10))  # its connection is closed: it ends by itself


def test_any_number_of_unreadable_files_is_told_in_a_few_words(agent, owned):
    uid, directory = owned
    for number in range(30):
        (directory / f"closed-{number}").mkdir(mode=0o700)  # its owner is this process's user
        (directory / f"closed-{number}").chmod(0)
    [[answer]] = agent.run([Batch(uid=uid, operation="scan", items=(scan_item(directory),), deadline_seconds=20)])
    problems = scan_json.decode_scan(answer).problems
    assert len(problems) == 21
    assert problems[-1].reason == "10 more entries could not be read"
    for number in range(30):
        (directory / f"closed-{number}").chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has children of several users")
def test_eight_users_whose_children_hang_delay_another_by_seconds_only(agent, owned, tmp_path):
    """Each of them has a request that takes as long as its deadline, and two more that wait."""
    uid, directory = owned
    with hanging_file_system.mounted(tmp_path / "hangs") as is_mounted:
        assert is_mounted
        for number in range(8):
            item = scan_item(tmp_path / "hangs")
            for _ in range(3):
                agent._submit(Batch(uid=60_000 + number, operation="scan", items=(item,), deadline_seconds=120))
        began = time.monotonic()
        ((answer,),) = agent.run([Batch(uid=uid, operation="scan", items=(scan_item(directory),), deadline_seconds=60)])
        assert answer["checkpoints"]
        assert time.monotonic() - began < allow(15)
