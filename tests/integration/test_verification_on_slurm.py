"""Jobs of owners on a cluster of four nodes: they read real torch checkpoints for `ckptd verify` and first scans."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checkpoints.verify_jobs_site import MemoryTickets
from ckptd.checkpoints.agent.scan_client import JobPlaces, JobTasks, ScanLimits, scan_runs
from ckptd.checkpoints.executor import TicketState
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.core.model import CheckpointState, RunKey, Unknown
from ckptd.service.build_verification import DEADLINE
from ckptd.store.store import Store
from demo.cluster import PrivateCluster
from demo.patience import allow
from support import starved_agent
from support.flipped_byte import flip_a_byte
from support.node_python import install_node_python

DATA = Path(__file__).parents[1] / "data/formats/torch"
EPOCHS = [f"epoch_{number:03}.pt" for number in range(1, 9)]
DAMAGED = EPOCHS[3]
ARRAY = {"dtype": "F32", "shape": [4]}
MUCH = 1000
SETTINGS = """
[slurm]
timeout = "20s"
[scan]
write_grace = "1s"
allowed_roots = ["{homes}"]
[health]
min_job_duration = "1s"
[web]
listen = ""
[service]
state_directory = "{state}"
[verify_jobs]
partition = "main"
account = "storage"
nice = 100
time_limit = "5m"
task_size = "1"
max_tasks = 8
max_running = 4
scan_beyond = 2
python = "{python}"
"""


@pytest.fixture(scope="module")
def slurm():
    prefix = f"ckv{os.getpid()}-"
    with PrivateCluster(name="verify", nodes=4, cpus_per_node=2, user_prefix=prefix, with_accounting=True) as private:
        yield private


class Fleet:
    """Two users with checkpoints on record; only the first one has an allocation for verification jobs."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.state = cluster.directory / "ckptd"
        self.state.mkdir()
        self.config = self.state / "config.toml"
        text = SETTINGS.format(homes=cluster.directory / "home", state=self.state, python=install_node_python())
        self.config.write_text(text)
        self.owner, self.other = (self._train(name) for name in ("owner", "other"))
        self.copier = self._train("copier", comment="ckpt=ckpt:archive:project")
        cluster.command("sacctmgr", "--immediate", "add", "account", "storage")
        for user in (self.owner, self.copier):
            cluster.command("sacctmgr", "--immediate", "add", "user", user.name, "account=storage")
        self.ckptd("once", status=1)  # that the files are in /tmp is a flag

    def _train(self, name, comment="ckpt=ckpt"):
        user = self.cluster.create_user(name)
        directory = user.home / "ckpt"
        directory.mkdir()
        for epoch in EPOCHS:
            shutil.copy(DATA / "run_epochs/epoch_010.pt", directory / epoch)
        shutil.copy(DATA / "epochs_damaged/flip_data/epoch_010.pt", directory / DAMAGED)
        copies = [self._copy(directory, user.home / name) for name in comment.split(":")[1:]]
        for path in (directory, *directory.iterdir(), *copies, *(each for place in copies for each in place.iterdir())):
            os.chown(path, user.uid, user.gid)
            os.utime(path, (1_700_000_000, 1_700_000_000))
        job = self.cluster.submit(user, "#!/bin/sh\nexec sleep 1000\n", f"--comment={comment}", work_dir=user.home)
        self.cluster.wait_for("the job to run", lambda: self.cluster.read_job(job, "%T") == "RUNNING")
        return user

    def _copy(self, directory, place):
        """Copy the last epoch; in a project directory, another byte of it arrives."""
        place.mkdir()
        shutil.copy(directory / EPOCHS[-1], place / EPOCHS[-1])
        if place.name == "project":
            flip_a_byte(place / EPOCHS[-1])
        return place

    def start(self, *words, config=None):
        argv = [sys.executable, "-m", "ckptd", "--config", str(config or self.config), *words]
        environment = {**os.environ, **self.cluster.environment}
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ckptd(self, *words, status=0, config=None):
        process = self.start(*words, config=config)
        output, errors = process.communicate(timeout=allow(300))
        assert process.returncode == status, (output, errors)
        return output

    def verify(self, user, *words, status):
        document = json.loads(self.ckptd("verify", str(user.home / "ckpt"), *words, "--json", status=status))
        return {os.path.basename(each["path"]): each for each in document["checkpoints"]}

    def train_much(self, count):
        """Let a job of a third user run beside so many checkpoints; return the user."""
        user = self.cluster.create_user("much")
        self.cluster.command("sacctmgr", "--immediate", "add", "user", user.name, "account=storage")
        directory = user.home / "ckpt"
        directory.mkdir()
        os.chown(directory, user.uid, user.gid)
        for step in range(count):
            head = json.dumps({"__metadata__": {"step": str(step)}, "w": {**ARRAY, "data_offsets": [0, 16]}}).encode()
            path = directory / f"step_{step}.safetensors"
            path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(16))
            os.chown(path, user.uid, user.gid)
            os.utime(path, (1_700_000_000 + step,) * 2)
        job = self.cluster.submit(user, "#!/bin/sh\nexec sleep 1000\n", "--comment=ckpt=ckpt", work_dir=user.home)
        self.cluster.wait_for("the job to run", lambda: self.cluster.read_job(job, "%T") == "RUNNING")
        return user

    def configure(self, name, *changes):
        """Write the configuration of another daemon, with a record of its own; return the folder of both."""
        state = self.cluster.directory / name
        state.mkdir()
        text = self.config.read_text().replace(str(self.state), str(state))
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (state / "config.toml").write_text(text)
        return state

    @contextmanager
    def run_starved(self, state):
        """Run a daemon whose scans read one file each; yield what reads its log."""
        argv = [sys.executable, "-m", "support.starved_daemon", "--config", str(state / "config.toml"), "run"]
        places = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, **self.cluster.environment, "PYTHONPATH": places}
        with (state / "log").open("wb") as log:
            daemon = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        try:
            yield (state / "log").read_text
        finally:
            daemon.terminate()
            daemon.wait(timeout=allow(60))

    def list_jobs(self, *states):
        argv = ["squeue", "--noheader", "--array", f"--states={','.join(states) or 'all'}", "--format=%j %u %T %N"]
        return [line.split() for line in self.cluster.command(*argv).splitlines() if line.startswith("ckptd-verify")]


@pytest.fixture(scope="module")
def fleet(slurm):
    return Fleet(slurm)


def test_jobs_of_the_owner_find_the_damaged_checkpoint_on_four_nodes(fleet):
    found = fleet.verify(fleet.owner, status=1)
    assert {name: each["result"] for name, each in found.items()} == {
        name: "damaged" if name == DAMAGED else "complete" for name in EPOCHS
    }
    assert found[DAMAGED]["reason"]
    jobs = fleet.list_jobs()
    assert {(user, state) for _, user, state, _ in jobs} == {(fleet.owner.name, "COMPLETED")}
    assert len(jobs) == len(EPOCHS)
    assert len({node for *_, node in jobs}) > 1
    assert list((fleet.owner.home / ".ckptd-verify").iterdir()) == []
    again = fleet.verify(fleet.owner, status=1)
    assert set(again) == {DAMAGED}, "what a job called complete is not read again"


def test_a_user_without_an_allocation_gets_no_job_and_the_reason(fleet):
    found = fleet.verify(fleet.other, status=1)
    assert {each["result"] for each in found.values()} == {"unknown"}
    reason = f"user {fleet.other.name} has no association with account storage"
    assert all(reason in each["reason"] for each in found.values())
    assert not any(user == fleet.other.name for _, user, *_ in fleet.list_jobs())


def test_a_signal_cancels_the_jobs_that_still_wait(fleet):
    fleet.cluster.command("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        process = fleet.start("verify", str(fleet.owner.home / "ckpt"), "--again")
        fleet.cluster.wait_for("jobs that wait", lambda: len(fleet.list_jobs("PENDING")) == len(EPOCHS))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=allow(120))
    finally:
        fleet.cluster.command("scontrol", "update", "PartitionName=main", "State=UP")
    assert (process.returncode, errors) == (1, "")
    assert "Stopped by a signal: 8 not read." in output
    assert fleet.list_jobs("PENDING", "RUNNING") == []


def test_this_node_reads_with_its_own_option(fleet):
    before = fleet.list_jobs()
    found = fleet.verify(fleet.owner, "--here", "--again", status=1)
    assert [name for name, each in found.items() if each["result"] == "damaged"] == [DAMAGED]
    assert fleet.list_jobs() == before


def test_jobs_of_the_owner_compare_copies_and_their_word_is_marked_as_such(fleet):
    name, directory = EPOCHS[-1], str(fleet.copier.home / "ckpt")
    document = json.loads(fleet.ckptd("verify", directory, "--copies", "--json", status=1))
    assert [(each["path"], each["result"], each["differing_file"]) for each in document["copies"]] == [
        (str(fleet.copier.home / "archive" / name), "same", None),
        (str(fleet.copier.home / "project" / name), "differs", name),
    ]
    jobs = [each[2] for each in fleet.list_jobs() if each[1] == fleet.copier.name]
    assert jobs == ["COMPLETED"] * 3, "one task for each file of this size"
    assert list((fleet.copier.home / ".ckptd-verify").iterdir()) == []
    [view] = json.loads(fleet.ckptd("show", directory, "--json"))["runs"]
    found = {Path(each["path"]).name: each["compared"] for each in view["locations"][1:]}
    assert {place: (each["is_same"], each["is_by_owner"]) for place, each in found.items()} == {
        "archive": (True, True),
        "project": (False, True),
    }


def read_record(state, run):
    """Return the checkpoints of a run in a daemon's record, by name, and the tickets there."""
    store = Store.open(f"sqlite:///{state}/ckptd.sqlite3")
    try:
        found = {each.checkpoint.path.name: each.checkpoint for each in store.checkpoints.read(run)}
        return found, store.verification_tickets.list_unwatched(run.cluster, datetime.now(UTC))
    finally:
        store.close()


def test_a_daemon_records_what_jobs_read_as_one_that_reads_all_itself(fleet):
    user = fleet.train_much(MUCH)
    run = RunKey("verify", user.uid, str(user.home / "ckpt"))
    alone = fleet.configure("alone", ("scan_beyond = 2\n", ""))
    shared = fleet.configure("shared", ("scan_beyond = 2\n", f"scan_beyond = {MUCH // 2}\n"))
    with fleet.run_starved(shared) as read_log:
        no_longer = f"is no longer needed to read '{run.directory}'"
        fleet.cluster.wait_for("all to be read", lambda: no_longer in read_log(), seconds=120)
    fleet.ckptd("once", status=1, config=alone / "config.toml")
    found, tickets = read_record(shared, run)
    assert f"a job of the owner was submitted to read {MUCH - 1} checkpoints in" in read_log()
    assert len(found) == MUCH
    assert {each.state for each in found.values()} == {CheckpointState.COMPLETE}
    assert (found, ()) == read_record(alone, run)
    assert tickets == ()
    assert list((user.home / ".ckptd-verify").iterdir()) == []
    assert [each[1] for each in fleet.list_jobs()].count(user.name) == 2, "two tasks"


@pytest.fixture
def starved(fleet, monkeypatch):
    """An agent whose scans read one file each, on the cluster."""
    for name, value in fleet.cluster.environment.items():
        monkeypatch.setenv(name, value)
    agent = starved_agent.start_agent(fleet.config, is_person=True)
    yield agent
    agent.close()


@pytest.fixture
def nodes(fleet):
    """The four nodes, empty; each job gets a whole one."""
    fleet.cluster.command("scancel", "--partition=main")
    fleet.cluster.wait_for("empty nodes", lambda: not fleet.cluster.command("squeue", "--noheader"))
    fleet.cluster.command("scontrol", "update", "PartitionName=main", "OverSubscribe=EXCLUSIVE")
    yield sorted(set(fleet.cluster.command("sinfo", "--noheader", "--Node", "--format=%N").split()))
    fleet.cluster.command("scontrol", "update", "PartitionName=main", "OverSubscribe=NO")


def scan(agent, run, results=None):
    places = JobPlaces(results={} if results is None else {run: results})
    [found] = scan_runs(agent, [(run, (), None)], ScanLimits(deadline=timedelta(minutes=1)), datetime.now(UTC), places)
    assert not isinstance(found, Unknown), found
    return found


@pytest.mark.parametrize("count", [1, 2, 4])
def test_jobs_on_some_nodes_read_what_a_first_scan_left_as_this_node_reads_it(fleet, starved, nodes, count):
    assert len(nodes) == 4
    run = RunKey("c", fleet.owner.uid, str(fleet.owner.home / "ckpt"))
    first = scan(starved, run)
    assert (first.unread_count, first.entry_count) == (len(EPOCHS) - 1, len(EPOCHS))
    limits = JobLimits(scan_entries=len(EPOCHS) // count)
    tickets = MemoryTickets()
    executor = JobExecutor(
        agent=starved, tickets=tickets, limits=limits, deadline=DEADLINE, read_time=lambda: datetime.now(UTC)
    )
    before = fleet.list_jobs()
    if others := ",".join(nodes[count:]):
        fleet.cluster.command("scontrol", "update", f"NodeName={others}", "State=DRAIN", "Reason=test")
    try:
        ticket = executor.submit_scan(run, first.entry_count, datetime.now(UTC))
        assert isinstance(ticket, str), ticket
        fleet.cluster.wait_for("results", lambda: executor.follow(ticket).state is TicketState.READY, seconds=120)
        fleet.cluster.wait_for("the end of the tasks", lambda: not fleet.list_jobs("RUNNING", "COMPLETING"))
    finally:
        if others:
            fleet.cluster.command("scontrol", "update", f"NodeName={others}", "State=RESUME")
    jobs = [each for each in fleet.list_jobs() if each not in before]
    assert [(user, state) for _, user, state, _ in jobs] == [(fleet.owner.name, "COMPLETED")] * count
    assert {node for *_, node in jobs} == {*nodes[:count]}
    second = scan(starved, run, JobTasks(ticket, tuple(range(count))))
    assert second.unread_count == 0
    here = inspect_tree(run.directory, now=datetime.now(UTC)).checkpoints
    assert {each.path.name: each for each in second.checkpoints} == {each.path.name: each for each in here}
    assert executor.release(ticket) is None
    assert list((fleet.owner.home / ".ckptd-verify").iterdir()) == []
