"""The main process in an attacker's hands, against the real agent: nothing outside the configuration happens."""

import grp
import itertools
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.client import AgentReloadError
from ckptd.checkpoints.agent.identities import read_identities
from ckptd.checkpoints.agent.request_rate import RequestRate
from ckptd.checkpoints.agent.requests import SHAPES
from ckptd.checkpoints.scanning import resumed_file
from ckptd.checkpoints.trash import TRASH, Origin, move_aside
from ckptd.checkpoints.trash.manifest import encode_origin
from ckptd.core.model import DeclaredResume
from ckptd.service.agent_process import OPERATIONS
from ckptd.service.agent_start import MODULE, start_agent
from demo.patience import allow
from support import trash_facts
from support.checkpoint_bytes import safetensors

ALICE = 54_321  # a uid that no user has
OVERFLOW = {65_534, 65_535}  # nobody
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


class Attacker:
    """Speaks to the agent in the main process's place, and knows no rules."""

    def __init__(self, config):
        self.config = config
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(allow(30))
        command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(config)]
        self.log_file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        environment = {**os.environ, "PATH": f"{Path(config).parent}/bin:{os.environ['PATH']}"}
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=self.log_file, env=environment)
        theirs.close()
        self.lines = self.connection.makefile("rb")
        self.greeting = json.loads(self.lines.readline())
        self.numbers = itertools.count(1)

    def send(self, line):
        self.connection.sendall(line + b"\n")

    def ask(self, operation, *items, uid=ALICE, **changes):
        """Send one request; return the answers by index, and why the agent ended it."""
        request = {"id": next(self.numbers), "uid": uid, "operation": operation, "items": list(items)}
        self.send(json.dumps({**request, "deadline_seconds": 20, **changes}).encode())
        return self.hear()

    def hear(self):
        answers = {}
        while "done" not in (message := json.loads(self.lines.readline())):
            answers[message["index"]] = message["result"]
        return answers, message["reason"]

    def reload(self):
        """Tell the agent to read its configuration again; return why it does not take it."""
        self.send(json.dumps({"id": next(self.numbers), "reload": True}).encode())
        return self.hear()[1]

    def read_log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def close(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.process.wait(timeout=allow(20))
        self.lines.close()
        self.connection.close()
        self.log_file.close()


ENFORCED = """
[retention]
hold = "2d"
no_room_hold = "1d"
[[retention.policy]]
name = "tight"
mode = "enforce"
last = 1
"""
DAY = 86_400
PERSON = pwd.getpwnam("games").pw_uid  # somebody with an account, without whom no command runs
NO_ACTIONS = f"[agent]\nuid_min = {PERSON}\n"
JOB = {"job_id": 7, "array_job_id": None, "array_task_id": None, "restart_count": 0, "is_running": True}
JOB_OPERATIONS = ("reach", "read_submission", "signal_job", "hold_job", "resubmit_job")
ACTIONS = """
[actions]
signal = ["gpu*"]
hold = ["gpu*"]
resubmit = ["gpu*"]
max_resubmits = 3
"""
SCRIPT = "#!/bin/sh\necho the user's own\n"
PROGRAM = """#!/usr/bin/python3 -IS
import json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
facts = json.load(open("{facts}"))
call = dict(uid=os.geteuid(), argv=[name, *words], input=sys.stdin.read() if name == "sbatch" else "")
with open("{calls}", "a") as calls:
    calls.write(json.dumps(call) + "\\n")
if name == "squeue":
    fields = [each.partition(":") for each in words[-1].split(",")]
    print("".join(facts.get(field, "(null)") + end for field, _, end in fields))
elif name == "scontrol" and "write" in words:
    print(facts["script"], end="")
elif name == "scontrol" and "show" in words:
    print("   ReqNodeList=(null) ExcNodeList=(null)\\n   StdOut=/dev/null")
elif name == "sacct":
    print(facts["line"] + words[3].removeprefix("--delimiter="))
elif name == "sbatch":
    print(99)
"""


class Place:
    """A site with one allowed root, a run of ALICE in it, and something precious outside."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "scratch"
        self.run = self.root / "run"
        self.outside = folder / "outside"
        self.config = folder / "etc/config.toml"
        self.asked = folder / "asked"
        self.bin, self.facts, self.calls = folder / "etc/bin", folder / "facts", folder / "calls"
        self.accounts = {user.pw_name for user in pwd.getpwall()}
        self.workspaces = folder / "workspaces"
        for path in (self.run, self.outside, self.config.parent, self.workspaces):
            path.mkdir(parents=True)
        self.save()
        self.outside.joinpath("checkpoint-9").write_bytes(b"x" * 100)
        self.asked.touch()
        self.asked.chmod(0o666)
        for path in (self.root, self.run, self.outside, *self.run.iterdir(), *self.outside.iterdir()):
            os.chown(path, ALICE, ALICE)
        self.write()
        self.be_slurm()

    def write(self, more="", **scan):
        settings = {
            "allowed_roots": [str(self.root)],
            "quota_command": self.quota_command(),
            "workspace_databases": [str(self.workspaces)],
            **scan,
        }
        text = "[scan]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        self.config.write_text(f"{text}\n{more or ENFORCED}")

    def be_slurm(self, **facts):
        """Put programs of Slurm on the agent's PATH; they tell these facts of a job and note how they were called."""
        self.calls.write_text("")
        self.calls.chmod(0o666)
        self.facts.write_text(json.dumps({**self.job, **facts}))
        text = PROGRAM.format(facts=self.facts, calls=self.calls)
        self.bin.mkdir(exist_ok=True)
        for name in ("squeue", "scontrol", "sacct", "sbatch", "scancel"):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    @property
    def job(self):
        told = {"JobID": "7", "UserID": str(PERSON), "UserName": "alice", "Partition": "gpu1", "State": "RUNNING"}
        return {**told, "RestartCnt": "0", "Name": "train", "WorkDir": str(self.run), "TimeLimit": "1:00:00"} | {
            "script": SCRIPT,
            "line": "sbatch -c3",
        }

    def changing_calls(self):
        """The calls that change something."""
        calls = [json.loads(line) for line in self.calls.read_text().splitlines()]
        assert {call["uid"] for call in calls} <= {PERSON}
        return [call for call in calls if call["argv"][0] in {"sbatch", "scancel"} or "hold" in str(call["argv"][1:2])]

    def save(self):
        path = self.run / "checkpoint-3"
        path.write_bytes(b"x" * 100)
        os.chown(path, ALICE, ALICE)

    def quota_command(self):
        return ["/bin/sh", "-c", f"id -u >> {self.asked}; echo 1 10"]

    def scan_item(self, directory=None, **changes):
        item = {"directory": str(directory or self.run), "now": time.time(), "asks_quota": True}
        places = {"work_dirs": [], "resuming_jobs": [], "candidates": [], "read_since": None}
        return {**item, **places, "known": [], "fingerprint": None, **changes}


@pytest.fixture(scope="module")
def shared_jobs():
    """A site where PERSON counts as a person, with an agent that finds the site's own programs of Slurm."""
    with make_place() as made:
        made.write(NO_ACTIONS + ACTIONS)
        attacker = Attacker(made.config)
        yield made, attacker
        attacker.close()


@pytest.fixture
def job_site(shared_jobs):
    shared_jobs[0].be_slurm()
    return shared_jobs[0]


@pytest.fixture
def job_attacker(shared_jobs):
    return shared_jobs[1]


@contextmanager
def make_place():
    folder = Path(tempfile.mkdtemp(prefix="ckptd-subverted-"))
    folder.chmod(0o755)
    yield Place(folder)
    shutil.rmtree(folder)


@pytest.fixture
def place():
    """A site of a test that changes its configuration."""
    with make_place() as made:
        yield made


@pytest.fixture(scope="module")
def shared():
    """A site with an agent for all tests that leave both as they are."""
    with make_place() as made:
        attacker = Attacker(made.config)
        assert attacker.greeting == {"ready": True}
        yield made, attacker
        attacker.close()


@pytest.fixture
def site(shared):
    made = shared[0]
    made.asked.write_text("")
    shutil.rmtree(made.root / TRASH, ignore_errors=True)
    made.save()
    return made


@pytest.fixture
def attacker(shared):
    return shared[1]


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


def user_of(name):
    return pwd.getpwnam(name).pw_uid


def every_operation(site):
    """One request of each operation, as the daemon could send it."""
    place = str(site.root / TRASH)
    turn = ["", 10, None]
    release = {"held_before": 4e9, "now": None, "is_short_of_space": True, "clock_tolerance": None}
    directory = str(site.run)
    identity = list(trash_facts.identity(site.run / "checkpoint-3"))
    locating = {"since_ns": 0, "until_ns": None, "excluded": [], "shared": []}
    locating |= {"places": [directory], "job_names": ["7"], "is_role_asked": True}
    moving = {"act_id": "a1", "directory": directory, "path": f"{directory}/checkpoint-3", "files": ["checkpoint-3"]}
    about = {"is_directory": False, "uid": ALICE, "reasons": [], "markers": [], "origin": encode_origin(Origin())}
    return {
        "reach": {"work_dir": directory},
        "read_submission": JOB,
        "signal_job": {**JOB, "signal": "B:USR1"},
        "hold_job": JOB,
        "resubmit_job": {**JOB, "number": 1, "mark": "0123456789abcdef"},
        "locate": {"work_dir": directory, "candidates": [["comment", directory]], **locating},
        "read_mutes": {"work_dir": directory},
        "scan": site.scan_item(),
        "find_workspaces": {"directory": directory},
        "verify": {"directory": directory, "only": ["checkpoint-3"], "now": time.time()},
        "look_up_paths": {"paths": [directory], "work_dirs": [directory]},
        "move_aside": {**moving, **about, "identities": [identity], "now": time.time()},
        "restore": {"place": place, "act_id": "a1"},
        "empty": {"place": place, "act_ids": ["a1"], "release": release, "turn": turn},
        "recover": {"place": place, "wanted": [], "turn": turn},
        "list_trash": {"place": place, "is_measured": True},
        "list_known": {"place": place, "act_ids": ["a1"]},
        "list_unrecorded": {"place": place, "known": [], "directories": [directory], "release": release, "turn": turn},
        "look_up": {"places": [place], "act_id": "a1"},
    }


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


def test_members_of_denied_groups_and_users_of_the_configuration_are_refused(place):
    users = [user.pw_name for user in pwd.getpwall() if user.pw_uid not in {0, *OVERFLOW}]
    member = next(name for name in users if os.getgrouplist(name, pwd.getpwnam(name).pw_gid))
    group = grp.getgrgid(pwd.getpwnam(member).pw_gid).gr_name
    other = next(name for name in users if name != member and pwd.getpwnam(name).pw_gid != pwd.getpwnam(member).pw_gid)
    place.write(f"[agent]\nuid_min = 1\ndeny_users = [{json.dumps(other)}]\ndeny_groups = [{json.dumps(group)}]\n")
    attacker = Attacker(place.config)
    try:
        scan = place.scan_item()
        assert attacker.ask("scan", scan, uid=user_of(other))[1] == f"refused: uid {user_of(other)} is in deny_users"
        assert "is in a group of deny_groups" in attacker.ask("scan", scan, uid=user_of(member))[1]
        assert attacker.ask("scan", scan)[1] is None
        place.write(f"[agent]\nuid_min = {ALICE + 1}\n")
        assert attacker.reload() is None
        assert attacker.ask("scan", scan)[1] == f"refused: uid {ALICE} is below uid_min, {ALICE + 1}"
    finally:
        attacker.close()


@pytest.mark.parametrize(
    ("text", "uid_min"),
    [("UID_MIN\t\t\t 500\n", 500), ("# UID_MIN 5\nUID_MAX 7\n", 1000), ("UID_MIN x\n", 1000), (None, 1000)],
)
def test_the_lowest_uid_of_a_person_is_that_of_login_defs(tmp_path, text, uid_min):
    path = tmp_path / "login.defs"
    if text is not None:
        path.write_text(text)
    assert read_identities(None, (), (), str(path)).uid_min == uid_min
    assert read_identities(7, (), (), str(path)).uid_min == 7


@pytest.fixture(scope="module")
def elsewhere(shared):
    """What must stay as it is: a run outside the roots with an entry in its trash, and a link to it from inside."""
    site, _ = shared
    run = site.outside / "run"
    run.mkdir()
    for number in (1, 2):
        trash_facts.write(run, "file", number, uid=ALICE)
    os.chown(site.outside, ALICE, ALICE)
    moved = partial(trash_facts.request, run, "file", 1, uid=ALICE, act_id="a1")
    assert trash_facts.in_child(lambda: move_aside(moved(), now=datetime.now(UTC)), ALICE) == 0
    assert (site.outside / TRASH / "a1/moved").exists()
    (run / ".ckptd.toml").write_text('mail = {mute = true}\nresume_from = "step_2.pt"\n')
    os.chown(run / ".ckptd.toml", ALICE, ALICE)
    (site.root / "link").symlink_to(site.outside)
    yield run
    (site.root / "link").unlink()


NAMES_OF_OUTSIDE = ["{outside}", "{root}/link", "{root}/../outside", "{outside}/../scratch/link", "//{outside}", "."]


@pytest.mark.parametrize("name", NAMES_OF_OUTSIDE)
@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - set(JOB_OPERATIONS)))
def test_nothing_outside_the_roots_is_read_or_changed(site, attacker, elsewhere, operation, name):
    named = name.format(outside=site.outside, root=site.root)
    before = trash_facts.read_files(site.outside), sorted(map(str, site.outside.rglob("*")))
    assert "step_2.pt" in str(before)
    place, directory = f"{named}/{TRASH}", f"{named}/run"
    path = f"{directory}/step_2.pt"
    changes = {
        "locate": {
            "work_dir": directory,
            "candidates": [["comment", directory], ["user-file", ""], ["discovery", "."]],
            "places": [named, directory],
            "job_names": ["run"],
        },
        "read_mutes": {"work_dir": directory},
        "scan": {"directory": directory, "work_dirs": [directory]},
        "find_workspaces": {"directory": directory},
        "verify": {"directory": directory, "only": ["step_2.pt"]},
        "look_up_paths": {"paths": [path, directory], "work_dirs": [directory]},
        "move_aside": {
            "directory": directory,
            "path": path,
            "files": ["step_2.pt"],
            "identities": [list(trash_facts.identity(elsewhere / "step_2.pt"))],
        },
        "list_unrecorded": {"place": place, "directories": [str(elsewhere), directory]},
        "look_up": {"places": [place, f"{directory}/{TRASH}"]},
    }
    item = {**every_operation(site)[operation], **changes.get(operation, {"place": place})}
    ((answer,), reason) = attacker.ask(operation, item)[0].values(), None
    assert reason is None
    assert_empty(operation, answer)
    assert (trash_facts.read_files(site.outside), sorted(map(str, site.outside.rglob("*")))) == before
    assert site.asked.read_text() == ""


def assert_empty(operation, answer):
    """Check that an answer refuses, or says that there is nothing."""
    if "unknown" in answer:
        return
    nothing = {
        "locate": {"directory": None, "located_by": None, "user_settings": {}},
        "read_mutes": {"mute": []},
        "find_workspaces": {"workspace": None},
        "list_trash": {"entries": []},
        "list_known": {"entries": []},
        "list_unrecorded": {"act_ids": []},
        "look_up": {"state": None},
        "look_up_paths": {"links": []},
    }
    if "outcomes" in answer:
        assert {outcome["result"] for outcome in answer["outcomes"]} <= {"refused", "failed"}
    else:
        assert {name: answer[name] for name in nothing[operation]} == nothing[operation]
        assert set(answer.get("real", ())) <= {None, False}


@pytest.mark.parametrize(
    "changes",
    [
        {"places": 3},
        {"places": ["/a\0b"]},
        {"places": ["/x"] * 2000},
        {"job_names": [""]},
        {"job_names": [7]},
        {"job_names": ["7"] * 100},
        {"job_names": ["7" * 1000]},
        {"is_role_asked": 1},
    ],
)
def test_a_malformed_search_is_refused(site, attacker, changes):
    answers, _ = attacker.ask("locate", {**every_operation(site)["locate"], **changes})
    assert answers[0]["unknown"].startswith(f"locate: field {next(iter(changes))!r} has a wrong type")


@pytest.fixture
def named_for_job(site):
    """Directories named for job 7, inside and outside of the roots, each with a checkpoint and with what jobs say."""
    made = [parent / "elsewhere" / "job_7" for parent in (site.root, site.outside)]
    for directory in made:
        directory.mkdir(parents=True)
        (directory / "step_2.safetensors").write_bytes(safetensors())
        resumed_file.append(str(directory), DeclaredResume(path="/somewhere/step_2.pt", job_id=7))
        for path in (directory.parent, directory, *directory.rglob("*")):
            os.chown(path, ALICE, ALICE)
    yield made
    for directory in made:
        shutil.rmtree(directory.parent)


def test_places_of_the_sites_variables_count_below_the_roots_only(site, attacker, named_for_job):
    inside, outside = named_for_job
    empty = site.root / "empty"
    empty.mkdir()
    link = site.root / "link_7"
    link.symlink_to(outside)
    asked = {**every_operation(site)["locate"], "work_dir": str(empty), "candidates": [["discovery", "."]]}
    for place in (outside.parent, link, empty / "../../outside/elsewhere"):
        answers, _ = attacker.ask("locate", {**asked, "places": [str(place)]})
        assert answers[0]["directory"] is None
    answers, _ = attacker.ask("locate", {**asked, "places": [str(inside.parent)]})
    assert answers[0]["directory"] == str(inside)
    link.unlink()
    empty.rmdir()


def test_what_jobs_say_is_read_below_the_roots_only(site, attacker, named_for_job):
    inside, outside = named_for_job
    for work_dir, count in ((inside, 1), (outside, 0), (site.root / "../outside/elsewhere/job_7", 0)):
        item = site.scan_item(work_dirs=[str(work_dir)], resuming_jobs=[7])
        assert len(attacker.ask("scan", item)[0][0]["declared"]) == count


def test_the_databases_of_workspaces_are_the_configured_ones(site, attacker):
    other = site.outside / "workspaces"
    other.mkdir()
    for database, expiration in ((site.workspaces, 2_000_000_000), (other, 1)):
        (database / "alice-run").write_text(f"workspace: {site.root}/alice-run\nexpiration: {expiration}\n")
    item = {"directory": str(site.root / "alice-run/ck")}
    assert attacker.ask("find_workspaces", item)[0][0]["workspace"]["expires_at"] == 2_000_000_000
    answers, _ = attacker.ask("find_workspaces", {**item, "databases": [str(other)]})
    assert answers == {0: {"unknown": "find_workspaces: unknown field 'databases'"}}
    shutil.rmtree(other)


def test_inside_the_roots_all_of_it_is_done(site, attacker):
    asked = every_operation(site)
    assert attacker.ask("locate", asked["locate"])[0][0]["directory"] == str(site.run)
    assert len(attacker.ask("verify", asked["verify"])[0][0]["checkpoints"]) == 1
    assert attacker.ask("look_up_paths", asked["look_up_paths"])[0][0]["real"] == [str(site.run)]
    (moved,) = attacker.ask("move_aside", asked["move_aside"])[0][0]["outcomes"]
    assert moved["result"] == "moved", moved
    assert attacker.ask("look_up", asked["look_up"])[0][0] == {"state": "held"}
    assert [each["act_id"] for each in attacker.ask("list_trash", asked["list_trash"])[0][0]["entries"]] == ["a1"]
    (back,) = attacker.ask("restore", asked["restore"])[0][0]["outcomes"]
    assert back["result"] == "restored"
    assert (site.run / "checkpoint-3").exists()


LAX = {"held_before": 4e9, "now": None, "is_short_of_space": True, "clock_tolerance": None}


@pytest.mark.parametrize(
    ("age_days", "release", "result"),
    [
        (0, {}, "refused"),
        (0.9, {}, "refused"),
        (0.9, {"now": 4e9, "clock_tolerance": 1e9}, "refused"),
        (1.5, {"is_short_of_space": False, "now": 4e9}, "refused"),
        (1.5, {}, "deleted"),
        (2.5, {"is_short_of_space": False}, "deleted"),
        (2.5, {"held_before": 1e9}, "refused"),
    ],
)
def test_nothing_is_deleted_that_the_configuration_or_its_manifest_holds(site, attacker, age_days, release, result):
    """Whatever was asked for when it was moved, and whatever time the main process says that it is."""
    asked = every_operation(site)
    origin = encode_origin(Origin(hold=timedelta(0), no_room_hold=timedelta(0)))
    item = {**asked["move_aside"], "now": 1e9, "origin": origin}
    (moved,) = attacker.ask("move_aside", item)[0][0]["outcomes"]
    assert moved["result"] == "moved", moved
    manifest = site.root / TRASH / "a1/manifest.json"
    document = json.loads(manifest.read_text())
    assert abs(datetime.fromisoformat(document["moved_at"]).timestamp() - time.time()) < allow(60)
    assert (document["hold"], document["no_room_hold"]) == (2 * DAY, DAY)
    document["moved_at"] = (datetime.now(UTC) - timedelta(days=age_days)).isoformat()  # as if time had passed
    manifest.write_text(json.dumps(document))
    empty = {**asked["empty"], "release": {**LAX, **release}}
    (outcome,) = attacker.ask("empty", empty)[0][0]["outcomes"]
    assert outcome["result"] == result, outcome
    if result != "deleted":
        assert attacker.ask("restore", asked["restore"])[0][0]["outcomes"][0]["result"] == "restored"


def test_what_the_manifest_does_not_name_is_not_deleted(site, attacker):
    asked = every_operation(site)
    attacker.ask("move_aside", asked["move_aside"])
    entry = site.root / TRASH / "a1"
    document = json.loads((entry / "manifest.json").read_text())
    document["moved_at"] = "2020-01-01T00:00:00+00:00"
    (entry / "manifest.json").write_text(json.dumps(document))
    (entry / "1").write_bytes(b"precious")
    os.chown(entry / "1", ALICE, ALICE)
    for act_id in ("../run", "..", ".", "", "a1/..", "/", "run/checkpoint-3"):
        (outcome,) = attacker.ask("empty", {**asked["empty"], "act_ids": [act_id]})[0][0]["outcomes"]
        assert outcome["result"] == "refused", outcome
    attacker.ask("empty", asked["empty"])
    assert [path.read_bytes() for path in (site.root / TRASH).rglob("1")] == [b"precious"]


@pytest.mark.parametrize("mode", ["plan", "off"])
def test_nothing_is_moved_where_no_policy_enforces_removals(place, mode):
    place.write(ENFORCED.replace("enforce", mode))
    attacker = Attacker(place.config)
    try:
        answer = attacker.ask("move_aside", every_operation(place)["move_aside"])[0][0]
        (outcome,) = answer["outcomes"]
        assert outcome["result"] == "refused"
        assert outcome["reason"] == "no retention policy of the configuration enforces removals"
        assert (place.run / "checkpoint-3").exists()
    finally:
        attacker.close()


def test_the_trash_of_a_run_that_is_a_root_itself_is_inside_of_it(site, attacker):
    file = site.root / "checkpoint-5"
    file.write_bytes(b"y")
    os.chown(file, ALICE, ALICE)
    item = {**every_operation(site)["move_aside"], "directory": str(site.root), "path": str(file), "files": [file.name]}
    (moved,) = attacker.ask("move_aside", {**item, "identities": [list(trash_facts.identity(file))]})[0][0]["outcomes"]
    assert moved["result"] == "moved", moved
    assert (site.root / TRASH / "a1").exists()
    (back,) = attacker.ask("restore", every_operation(site)["restore"])[0][0]["outcomes"]
    assert back["result"] == "restored", back
    file.unlink()


def test_actions_on_jobs_are_carried_out_by_the_agents_own_command_lines(job_site, job_attacker):
    asked = every_operation(job_site)
    assert job_attacker.ask("reach", asked["reach"], uid=PERSON) == ({0: {}}, None)
    assert job_attacker.ask("read_submission", asked["read_submission"], uid=PERSON)[0][0] == {
        "script": SCRIPT,
        "line": "sbatch -c3",
    }
    assert job_attacker.ask("signal_job", asked["signal_job"], uid=PERSON)[0][0] == {}
    assert job_attacker.ask("hold_job", asked["hold_job"], uid=PERSON)[0][0] == {}
    job_site.facts.write_text(json.dumps({**job_site.job, "State": "TIMEOUT"}))
    answer = job_attacker.ask("resubmit_job", asked["resubmit_job"], uid=PERSON)[0][0]
    assert answer["output"] == "99\n"
    signal, hold, submission = job_site.changing_calls()
    assert signal["argv"] == ["scancel", "--signal=USR1", "--state=RUNNING", "--batch", "7"]
    assert hold["argv"] == ["scontrol", "requeuehold", "7"]
    assert submission["input"] == SCRIPT
    assert submission["argv"] == answer["argv"]
    assert {"--cpus-per-task=3", f"--chdir={job_site.run}", "--comment=ckptd-resubmit=1.0123456789abcdef"} <= {
        *submission["argv"]
    }


@pytest.mark.parametrize("operation", ["read_submission", "signal_job", "hold_job", "resubmit_job"])
@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ["sbatch", "--wrap=id"]},
        {"input": "#!/bin/sh\nid\n"},
        {"script": "#!/bin/sh\nid\n"},
        {"directory": "/"},
        {"partitions": ["*"]},
        {"max_resubmits": 99},
        {"job_id": "7 --wrap=id"},
        {"job_id": "--help"},
        {"job_id": 0},
        {"job_id": 2**32},
        {"array_task_id": "1,2"},
        {"array_job_id": -1},
        {"restart_count": None},
    ],
)
def test_no_command_line_and_no_script_comes_from_a_request(job_site, job_attacker, operation, changes):
    answers, _ = job_attacker.ask(operation, {**every_operation(job_site)[operation], **changes}, uid=PERSON)
    assert answers[0]["unknown"].startswith(f"{operation}: ")
    assert job_site.calls.read_text() == ""


@pytest.mark.parametrize("operation", ["signal_job", "hold_job", "resubmit_job"])
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"UserID": str(PERSON + 1)}, "does not belong to uid"),
        ({"UserID": "0"}, "does not belong to uid"),
        ({"Partition": "cpu"}, "does not allow this action in partition"),
        ({"Partition": "gpu1,cpu"}, "does not allow this action in partition"),
        ({"Partition": "(null)"}, "does not allow this action in partition"),
        ({"JobID": "8"}, "shows another job"),
        ({"RestartCnt": "x"}, "a restart count of"),
    ],
)
def test_an_action_needs_the_jobs_owner_and_a_partition_of_the_configuration(
    job_site, job_attacker, operation, facts, reason
):
    job_site.be_slurm(**{"State": "TIMEOUT" if operation == "resubmit_job" else "RUNNING", **facts})
    answers, _ = job_attacker.ask(operation, every_operation(job_site)[operation], uid=PERSON)
    assert reason in answers[0]["failed"]
    assert job_site.changing_calls() == []


@pytest.mark.parametrize(
    ("operation", "changes", "told"),
    [
        ("signal_job", {"signal": "USR1 --user=bob"}, "is no signal"),
        ("signal_job", {"signal": "--user=bob"}, "is no signal"),
        ("signal_job", {"signal": ""}, "is no signal"),
        ("signal_job", {"signal": "B:B:USR1"}, "is no signal"),
        ("signal_job", {"signal": "USR1\n"}, "is no signal"),
        ("resubmit_job", {"mark": "x"}, "is not allowed"),
        ("resubmit_job", {"mark": "0123456789abcdef --wrap=id"}, "is not allowed"),
        ("resubmit_job", {"number": 4}, "max_resubmits is 3"),
        ("resubmit_job", {"number": 0}, "is not allowed"),
        ("resubmit_job", {}, "has not ended"),
    ],
)
def test_hostile_values_of_an_action_do_nothing(job_site, job_attacker, operation, changes, told):
    answers, _ = job_attacker.ask(operation, {**every_operation(job_site)[operation], **changes}, uid=PERSON)
    assert told in answers[0].get("unknown", answers[0].get("failed"))
    assert job_site.changing_calls() == []


@pytest.mark.parametrize("operation", ["read_submission", "signal_job", "hold_job", "resubmit_job"])
def test_without_a_partition_in_the_configuration_no_action_is_carried_out(place, operation):
    place.write(NO_ACTIONS)
    place.be_slurm(State="TIMEOUT" if operation == "resubmit_job" else "RUNNING")
    attacker = Attacker(place.config)
    try:
        for job in (JOB, {**JOB, "job_id": 2**26 + 7}):  # the second one is of a federation
            answers, _ = attacker.ask(operation, {**every_operation(place)[operation], **job}, uid=PERSON)
            assert "the configuration" in answers[0].get("unknown", answers[0].get("failed"))
        assert place.changing_calls() == []
    finally:
        attacker.close()


def test_one_users_requests_are_limited_and_others_are_not(place):
    place.write("[agent]\nmax_requests_per_minute = 10\n")
    attacker = Attacker(place.config)
    try:
        reasons = [attacker.ask("read_mutes", {"work_dir": str(place.run)})[1]]
        while reasons[-1] is None and len(reasons) < 40:  # one more is allowed every 6 s, which a slow machine may take
            reasons.append(attacker.ask("read_mutes", {"work_dir": str(place.run)})[1])
        assert reasons[10:], "ten are allowed"
        assert reasons[-1] == "refused: more than 10 requests a minute for one user"
        assert attacker.ask("read_mutes", {"work_dir": str(place.run)}, uid=ALICE + 1)[1] is None
        assert f"uid {ALICE}: more than 10 requests a minute" in attacker.read_log()
    finally:
        attacker.close()


def test_a_limit_of_requests_is_there_again_after_a_minute():
    rate = RequestRate()
    assert [rate.take(1, 3, now) for now in (0, 0, 0, 0, 10, 21, 22, 1000, 1000, 1000, 1000)] == [
        *(True, True, True, False),
        *(False, True, False),
        *(True, True, True, False),
    ]
    assert rate.take(2, 3, 1000)


def test_the_policy_is_taken_from_a_trusted_file_and_from_nowhere_else(place):
    attacker = Attacker(place.config)
    try:
        place.write(quota_command=["/bin/sh", "-c", f"echo new >> {place.asked}; echo 1 10"])
        attacker.ask("scan", place.scan_item())
        attacker.send(json.dumps({"id": 91, "reload": True, "policy": {"quota_command": ["id"]}}).encode())
        assert attacker.hear()[1].startswith("refused: ")
        attacker.ask("scan", place.scan_item())
        assert place.asked.read_text().split() == [str(ALICE)] * 2, "the first one holds until a reload"
        assert attacker.reload() is None
        attacker.ask("scan", place.scan_item())
        assert place.asked.read_text().split() == [str(ALICE)] * 2 + ["new"]
        place.asked.write_text("")
        for spoil, undo in SPOILED.values():
            place.write(quota_command=["/bin/sh", "-c", f"echo stolen >> {place.asked}; echo 1 10"])
            spoil(place)
            assert "must belong to root" in attacker.reload()
            undo(place)
        place.write()
        place.config.write_text(place.config.read_text() + "nonsense = 1\n")
        assert "unknown setting" in attacker.reload()
        attacker.ask("scan", place.scan_item())
        assert place.asked.read_text().split() == ["new"], "the policy of before is still in force"
    finally:
        attacker.close()


def lead_elsewhere(place):
    (place.outside / "config.toml").write_text(place.config.read_text())
    place.config.unlink()
    place.config.symlink_to(place.outside / "config.toml")


SPOILED = {
    "owner": (lambda place: os.chown(place.config, ALICE, ALICE), lambda place: os.chown(place.config, 0, 0)),
    "mode": (lambda place: place.config.chmod(0o664), lambda place: place.config.chmod(0o644)),
    "directory": (
        lambda place: os.chown(place.config.parent, ALICE, ALICE),
        lambda place: os.chown(place.config.parent, 0, 0),
    ),
    "link": (lead_elsewhere, lambda place: place.config.unlink()),
}


@pytest.mark.parametrize("name", ["mode", "link"])
def test_the_agent_does_not_start_with_a_file_that_others_may_write(place, name):
    SPOILED[name][0](place)
    attacker = Attacker(place.config)
    assert "must belong to root" in attacker.greeting["refused"]
    assert attacker.process.wait(timeout=allow(20)) == 1
    assert "must belong to root" in attacker.read_log()
    attacker.close()


def test_the_client_says_why_the_agent_keeps_its_configuration(place):
    agent = start_agent(place.config)
    try:
        agent.wait_until_ready()
        agent.reload()
        place.config.chmod(0o666)
        with pytest.raises(AgentReloadError, match="writable by others than root"):
            agent.reload()
    finally:
        agent.close()
