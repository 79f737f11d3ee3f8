"""The main process in an attacker's hands, beside a site with the real agent. Only root can become another user."""

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
from pathlib import Path

from ckptd.checkpoints.trash import TRASH, Origin
from ckptd.checkpoints.trash.manifest import encode_origin
from ckptd.service.agent_start import MODULE
from demo.patience import allow
from support import trash_facts
from support.unit_capabilities import limit_to_unit

ALICE = 54_321  # a uid that no user has
TICKET = "0123456789abcdef"
OVERFLOW = {65_534, 65_535}  # nobody


class Attacker:
    """Speaks to the agent in the main process's place, and knows no rules."""

    def __init__(self, config, program=("-m", MODULE), *, is_limited=True):
        limits = limit_to_unit() if is_limited else []  # the unit limits it already
        self.config = config
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(allow(30))
        command = [*limits, sys.executable, "-P", *program, str(theirs.fileno()), str(config)]
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
elif name == "srun":
    sys.stdout.flush()
    os.execv("/bin/sh", ["sh", "-c", facts.get("srun", "exit 1")])
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

    def make(self):
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
        return self

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
        for name in ("squeue", "scontrol", "sacct", "sbatch", "scancel", "srun"):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    @property
    def job(self):
        told = {"JobID": "7", "UserID": str(PERSON), "UserName": "alice", "Partition": "gpu1", "State": "RUNNING"}
        return {**told, "RestartCnt": "0", "Name": "train", "WorkDir": str(self.run), "TimeLimit": "1:00:00"} | {
            "BatchHost": "n7",
            "NumNodes": "1",
            "script": SCRIPT,
            "line": "sbatch -c3",
        }

    def changing_calls(self):
        """The calls that change something."""
        calls = [json.loads(line) for line in self.calls.read_text().splitlines()]
        assert {call["uid"] for call in calls} <= {PERSON}
        return [
            call
            for call in calls
            if call["argv"][0] in {"sbatch", "scancel", "srun"} or "hold" in str(call["argv"][1:2])
        ]

    def save(self):
        path = self.run / "checkpoint-3"
        path.write_bytes(b"x" * 100)
        os.chown(path, ALICE, ALICE)

    def quota_command(self):
        return ["/bin/sh", "-c", f"id -u >> {self.asked}; echo 1 10"]

    def scan_item(self, directory=None, **changes):
        item = {"directory": str(directory or self.run), "now": time.time(), "asks_quota": True}
        places = {"work_dirs": [], "resuming_jobs": [], "candidates": [], "read_since": None}
        return {**item, **places, "known": [], "fingerprint": None, "shares_parser": False, "results": None, **changes}


@contextmanager
def make_place():
    folder = Path(tempfile.mkdtemp(prefix="ckptd-subverted-"))
    folder.chmod(0o755)
    yield Place(folder).make()
    shutil.rmtree(folder)


def user_of(name):
    return pwd.getpwnam(name).pw_uid


def every_operation(site):
    """One request of each operation, as the daemon could send it."""
    place = str(site.root / TRASH)
    turn = ["", 10, None]
    release = {"held_before": 4e9, "now": None, "is_short_of_space": True, "clock_tolerance": None}
    directory = str(site.run)
    identity = list(trash_facts.identity(site.run / "checkpoint-3"))
    wanted = {"directory": directory, "files": [["checkpoint-3", (site.run / "checkpoint-3").stat().st_size]]}
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
        "submit_verification": {"directory": directory, "ticket": TICKET, "tasks": [["checkpoint-3"]], "numbers": [0]},
        "submit_digests": {"ticket": TICKET, "tasks": [[wanted]], "numbers": [0]},
        "submit_scan": {"directory": directory, "ticket": TICKET, "task_count": 2, "numbers": [0]},
        "collect_digests": {"ticket": TICKET, "task": 0},
        "follow_verification": {"ticket": TICKET, "job_id": 7, "task_count": 1},
        "collect_verification": {"ticket": TICKET, "task": 0},
        "cancel_verification": {"ticket": TICKET, "job_id": 7},
        "scan_on_node": {**JOB, "directory": directory},
        "locate": {"work_dir": directory, "candidates": [["comment", directory]], **locating},
        "read_mutes": {"work_dir": directory},
        "scan": site.scan_item(),
        "find_workspaces": {"directory": directory},
        "verify": {"directory": directory, "only": ["checkpoint-3"], "now": time.time()},
        "digest": wanted,
        "look_up_paths": {"paths": [directory], "work_dirs": [directory]},
        "move_aside": {**moving, **about, "identities": [identity], "now": time.time()},
        "restore": {"place": place, "act_id": "a1"},
        "empty": {"place": place, "act_ids": ["a1"], "release": release, "turn": turn},
        "recover": {"place": place, "wanted": [], "turn": turn},
        "list_trash": {"place": place, "known": [], "is_measured": True, "turn": turn},
        "list_known": {"place": place, "act_ids": ["a1"]},
        "list_unrecorded": {"place": place, "known": [], "directories": [directory], "release": release, "turn": turn},
        "look_up": {"places": [place], "act_id": "a1"},
    }


def ask_outside(site, operation, named):
    """Return what an operation could be asked about a run in the directory outside of the roots, named like this."""
    run = site.outside / "run"
    place, directory = f"{named}/{TRASH}", f"{named}/run"
    path = f"{directory}/step_2.pt"
    wanted = {"directory": directory, "files": [["step_2.pt", (run / "step_2.pt").stat().st_size]]}
    changes = {
        "locate": {
            "work_dir": directory,
            "candidates": [["comment", directory], ["user-file", ""], ["discovery", "."]],
            "places": [named, directory],
            "job_names": ["run"],
        },
        "read_mutes": {"work_dir": directory},
        "scan": {"directory": directory, "work_dirs": [directory]},
        "scan_on_node": {"directory": directory},
        "find_workspaces": {"directory": directory},
        "verify": {"directory": directory, "only": ["step_2.pt"]},
        "digest": wanted,
        "submit_digests": {"tasks": [[wanted]]},
        "submit_scan": {"directory": directory},
        "look_up_paths": {"paths": [path, directory], "work_dirs": [directory]},
        "move_aside": {
            "directory": directory,
            "path": path,
            "files": ["step_2.pt"],
            "identities": [list(trash_facts.identity(run / "step_2.pt"))],
        },
        "list_unrecorded": {"place": place, "directories": [str(run), directory]},
        "look_up": {"places": [place, f"{directory}/{TRASH}"]},
    }
    return {**every_operation(site)[operation], **changes.get(operation, {"place": place})}


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
