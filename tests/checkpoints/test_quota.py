"""What is left of a quota, as commands tell it: the site's own in two forms, and quota(1)."""

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints.agent import scan_json
from ckptd.checkpoints.agent.agent_operations import OPERATIONS
from ckptd.checkpoints.agent.request_child import answer
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.scan_client import QUOTA_GAP, scan_runs
from ckptd.checkpoints.scanning import quota
from ckptd.core.model import RunKey, Unknown
from demo.patience import Deadline, allow
from support.parts import LIMITS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = PurePosixPath("/scratch/alice/run"), PurePosixPath("/scratch")


def printing(text):
    return (sys.executable, "-c", f"import sys; sys.stdout.write({text!r})")


def quota_program(directory, text, returncode=0):
    """Put a `quota` that prints this on PATH; what it was asked stands in `asked` beside it."""
    program = directory / "quota"
    (directory / "printed").write_text(text)
    program.write_text(f'#!/bin/sh\necho "$@" > {directory}/asked\ncat {directory}/printed\nexit {returncode}\n')
    program.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("400 1000\n", 600),
        ("1000 400", 0),
        ("400 0", None),
        ("400 none", None),
        ('{"used_bytes": 400, "limit_bytes": 1000}', 600),
        ('{"used_bytes": 400, "limit_bytes": null}', None),
    ],
)
def test_a_sites_command_prints_what_is_used_and_the_limit(text, left):
    assert quota.read_quota_left(printing(text), *HERE) == left


@pytest.mark.parametrize(
    "text",
    [
        *("", "400", "a b", "1 2 3", "-1 5", "1e3 5000", "{}", "[1, 2]", "{" * 5000, "9" * 400 + " 1", "1 " + "9" * 25),
        *('{"used_bytes": true, "limit_bytes": 5}', '{"used_bytes": 1}', "\x1b[31m1 2\x00", "4 ٣"),
    ],
)
def test_what_makes_no_sense_is_unknown_and_never_no_limit(text):
    assert isinstance(quota.read_quota_left(printing(text), *HERE), Unknown)


def test_a_command_that_fails_or_is_missing_is_unknown():
    assert "ended with 3" in quota.read_quota_left(("/bin/sh", "-c", "echo 1 2; exit 3"), *HERE).reason
    assert isinstance(quota.read_quota_left(("/no/such/program",), *HERE), Unknown)


@pytest.mark.parametrize("start", ["", "setsid ", "setsid --fork "])
def test_a_command_that_hangs_is_ended_with_what_it_started(monkeypatch, tmp_path, start):
    monkeypatch.setattr(quota, "TIMEOUT_SECONDS", 2)
    began = time.monotonic()
    script = f"{start}sh -c 'echo $$ > {tmp_path}/child; exec sleep 600' & sleep 600"
    assert "took over" in quota.read_quota_left(("/bin/sh", "-c", script), *HERE).reason
    assert time.monotonic() - began < allow(20)
    child = int((tmp_path / "child").read_text())
    deadline = Deadline(10)
    while is_running(child):
        assert not deadline.has_passed()


def is_running(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_flood_is_not_read_to_its_end():
    assert "printed more than" in quota.read_quota_left(("/bin/sh", "-c", "yes 1 2"), *HERE).reason


def test_a_command_is_told_whose_quota_is_asked_for_and_where():
    argv = (sys.executable, "-c", "import sys; print(len(sys.argv[1]), sys.argv[2])", "{path}", "{uid}")
    used, limit = len(str(HERE[0])), os.geteuid()
    expected = None if limit == 0 else max(limit - used, 0)
    assert quota.read_quota_left(argv, *HERE) == expected
    assert quota.read_quota_left(("/bin/sh", "-c", 'echo 0 "${#CKPTD_MOUNT}"'), *HERE) == len("/scratch")


HEADING = (
    "Disk quotas for user alice (uid 1000): \n"
    "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n"
)


@pytest.mark.parametrize(
    ("text", "left_kilobytes"),
    [
        (HEADING + "      /dev/sda1    1200    5000    6000       0      12       0       0       0\n", 4800),
        (HEADING + "server:/export/with space    1200    5000    0       0      12       0       0       0\n", 3800),
        (HEADING + "/dev/sda1    5500*   5000    6000    1764000000      12*       3       4       0\n", 500),
        (HEADING + "/dev/sda1    5500   0    0    0      12       0       0       0\n", None),
        ("Disk quotas for user alice (uid 1000): none\n", None),
        ("", None),
    ],
)
def test_quota_is_understood(monkeypatch, tmp_path, text, left_kilobytes):
    monkeypatch.setenv("PATH", f"{quota_program(tmp_path, text)}:{os.environ['PATH']}")
    left = quota.read_quota_left(("quota",), *HERE)
    assert left == (None if left_kilobytes is None else left_kilobytes * 1024)
    assert (tmp_path / "asked").read_text() == "--no-wrap --raw-grace --filesystem=/scratch\n"


def test_quota_that_fails_because_one_is_exceeded_is_believed(monkeypatch, tmp_path):
    text = HEADING + "/dev/sda1    7000*   5000    6000    1764000000      12       0       0       0\n"
    monkeypatch.setenv("PATH", f"{quota_program(tmp_path, text, returncode=1)}:{os.environ['PATH']}")
    assert quota.read_quota_left(("quota",), *HERE) == 0


def test_quota_that_prints_something_else_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{quota_program(tmp_path, 'quota: Cannot open quotafile')}:{os.environ['PATH']}")
    assert isinstance(quota.read_quota_left(("quota",), *HERE), Unknown)


class SameProcess:
    """Does what the agent's children do, without them."""

    def __init__(self, *quota_command):
        self.policy = RequestPolicy(quota_command=quota_command)

    def run(self, batches):
        return [
            [answer(batch.operation, item, self.policy, OPERATIONS, batch.deadline_seconds) for item in batch.items]
            for batch in batches
        ]


def test_a_look_tells_the_quota_and_asks_for_it_once_in_a_while(tmp_path):
    asked = tmp_path / "asked"
    agent = SameProcess("/bin/sh", "-c", f"echo >> {asked}; echo $(wc -l < {asked}) 10")
    directory = tmp_path / "run"
    directory.mkdir()
    key = RunKey("c1", 0, str(directory))
    found = None
    set_back = timedelta(hours=-1)  # the clock
    for since, left in ((timedelta(0), 9), (QUOTA_GAP / 2, 9), (QUOTA_GAP, 8), (set_back, 7)):
        [found] = scan_runs(agent, [(key, [], found)], LIMITS, NOON + since)
        assert (found.quota_left_bytes, found.quota_error) == (left, None)
    [failed] = scan_runs(SameProcess("/bin/false"), [(key, [], None)], LIMITS, NOON)
    assert (failed.quota_left_bytes, failed.quota_error) == (None, "/bin/false ended with 1")
    assert scan_json.decode_scan(scan_json.encode_scan(failed)) == failed
