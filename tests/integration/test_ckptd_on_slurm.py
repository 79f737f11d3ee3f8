"""The daemon on a real cluster: what it says of every sample job while Slurm does what it does to them.

All samples run side by side from the start, so the tests of one cluster share its minutes; each waits for what it
asserts. The tests at the end stop slurmctld and kill the daemon while everything still runs.
"""

import random
import re
import signal
import sqlite3
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from demo import ports, processes
from demo.patience import allow
from demo.samples import Samples
from support.quick_watcher import QuickWatcher

SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "4s"
[scan]
interval = "2s"
write_grace = "5s"
allowed_roots = ["{homes}"]
[health]
min_job_duration = "30s"
[health.rules.at-risk]
margin = "5s"
min_loss = "1s"
[health.rules.restarted-without-checkpoint]
min_loss = "1s"
[health.rules.volatile-path]
enabled = false  # the homes are below /tmp
[web]
listen = "{listen}"
[service]
state_directory = "{state}"
"""
NOT_ASKED_BY_CKPTD = {
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "MESSAGE_EPILOG_COMPLETE",
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "REQUEST_COMPLETE_JOB_ALLOCATION",
    "REQUEST_STEP_COMPLETE",
    "REQUEST_STATS_INFO",  # sdiag's own
}
PACE = {"EPOCH_SECONDS": "0.5", "TASK_EPOCHS": "3", "SAVE_EVERY": "30"}
LONG_SETTLED = 90
STEADY_COUNT = 8  # times that the flags are the same, half a second apart


class Fleet:
    """Every sample running under the eyes of one daemon."""

    def __init__(self, cluster, watcher):
        self.cluster = cluster
        self.watcher = watcher
        self.samples = Samples(cluster)
        self.users = {name: cluster.create_user(f"fleet-{name}") for name in ("a", "b", "c")}
        self.jobs = {}

    def submit(self, label, sample, *options, user="a"):
        self.jobs[label] = self.samples.submit(self.users[user], sample, *options, environment=PACE)

    def row(self, label):
        rows = self.watcher.read("jobs")["jobs"]
        return next((row for row in rows if row["job_id"] == self.jobs[label]), None)

    def flags(self, *options):
        return self.watcher.read("flags", *options)["flags"]

    def flagged(self, rule):
        """Labels of the jobs that have the flag now."""
        labels = {job: label for label, job in self.jobs.items()}
        return {labels.get(flag["job_id"], flag["job_id"]) for flag in self.flags() if flag["rule"] == rule}

    def ever_flagged(self, rule):
        labels = {job: label for label, job in self.jobs.items()}
        return {labels.get(flag["job_id"], flag["job_id"]) for flag in self.flags("--all") if flag["rule"] == rule}

    def wait(self, what, holds, seconds=LONG_SETTLED):
        self.cluster.wait_for(what, holds, seconds=seconds, pause_seconds=0.5)

    def wait_row(self, what, label, holds, seconds=LONG_SETTLED):
        seen = []

        def is_there():
            seen.append(self.row(label))
            return seen[-1] is not None and holds(seen[-1])

        self.wait(what, is_there, seconds)
        return seen[-1]

    def show(self, label):
        return self.watcher.read("show", str(self.jobs[label]))["runs"]

    def metric(self, name):
        """The value of one sample of /metrics, with its labels as written there; None where it is absent."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.watcher.read_metrics(), re.MULTILINE)
        return float(found[1]) if found else None


@pytest.fixture(scope="module")
def fleet(cluster):
    watcher = QuickWatcher(cluster, SETTINGS, port=ports.find_free_ports(1)[0], is_forked=False)
    watcher.start()
    fleet = Fleet(cluster, watcher)
    fleet.submit("saves-rarely", "saves-rarely", "--time=1")
    fleet.submit("requeue", "requeue", "--time=30")
    fleet.submit("parts", "requeue", "--time=30", ":", "--time=30", "--nodes=1", user="c")
    fleet.submit("array", "array", "--array=1-3%1")
    fleet.submit("manager", "manager")
    fleet.submit("never-saves", "never-saves", user="b")
    fleet.submit("starts-over", "starts-over", user="b")
    fleet.submit("shared-1", "shared-directory", user="b")
    fleet.submit("shared-2", "shared-directory", user="b")
    fleet.wait_row("six epochs of a job that resumes", "requeue", lambda row: row["epoch"] and row["epoch"] >= 6)
    fleet.wait_row("six epochs of a job that does not", "starts-over", lambda row: row["epoch"] and row["epoch"] >= 6)
    fleet.wait_row("two epochs of a job of two parts", "parts", lambda row: row["epoch"] and row["epoch"] >= 2)
    for label in ("requeue", "starts-over", "never-saves", "parts"):
        cluster.command("scontrol", "requeue", str(fleet.jobs[label]))
    yield fleet
    for user in fleet.users.values():
        cluster.cancel_jobs(user)
    watcher.stop()


def test_each_directory_is_found_in_the_way_its_job_tells_it(fleet):
    expected = {"requeue": "comment", "manager": "discovery", "shared-1": "comment"}
    for label, located_by in expected.items():
        row = fleet.wait_row(f"{label} to be located", label, lambda row: row["directory"] is not None)
        assert row["located_by"] == located_by
        assert row["directory"].startswith(str(fleet.cluster.directory / "home"))


def test_array_tasks_are_one_run_whose_epochs_go_on(fleet):
    def tasks():
        return [attempt["array_task_id"] for run in fleet.show("array") for attempt in run["attempts"]]

    fleet.wait("three tasks", lambda: sorted(tasks()) == [1, 2, 3])
    (run,) = fleet.show("array")
    assert run["located_by"] == "user-file"
    assert [attempt["kind"] for attempt in run["attempts"]] == [None, "array", "array"]
    fleet.wait("nine epochs", lambda: max(c["epoch"] for c in fleet.show("array")[0]["checkpoints"]) == 9)


def test_the_manager_has_three_checkpoints_on_disk(fleet):
    row = fleet.wait_row("four saves", "manager", lambda row: row["epoch"] and row["epoch"] >= 4)
    assert row["checkpoints"] in {3, 4}  # looked at between a save and the clearing after it
    assert row["restart_count"] == 0


def test_a_requeued_job_that_resumes_goes_on_from_its_epoch_without_a_flag(fleet):
    row = fleet.wait_row(
        "the second attempt to save",
        "requeue",
        lambda row: (row["restart_count"], row["state"]) == (1, "RUNNING") and (row["epoch"] or 0) >= 10,
    )
    assert row["flags"] == []


def test_the_parts_of_a_heterogeneous_job_are_one_job_that_is_requeued_as_one(fleet):
    first = fleet.jobs["parts"]
    assert fleet.cluster.read_job(first + 1, "%i") == f"{first}+1"  # Slurm's own name of the second part
    fleet.wait_row("it to run again", "parts", lambda row: row["restart_count"] == 1 and row["state"] == "RUNNING")
    (run,) = fleet.show("parts")
    assert [(attempt["job_id"], attempt["kind"]) for attempt in run["attempts"]] == [(first, None), (first, "requeue")]
    assert first + 1 not in {row["job_id"] for row in fleet.watcher.read("jobs")["jobs"]}


def test_a_restart_without_any_checkpoint_is_flagged_and_no_other(fleet):
    fleet.wait("the flag", lambda: fleet.flagged("restarted-without-checkpoint") == {"never-saves"})
    row = fleet.row("never-saves")
    assert (row["restart_count"], row["checkpoints"], row["epoch"]) == (1, 0, None)
    assert fleet.ever_flagged("restarted-without-checkpoint") == {"never-saves"}


def test_a_job_that_starts_over_is_flagged_until_it_is_past_where_it_was(fleet):
    def found():
        return [flag for flag in fleet.flags("--all") if flag["rule"] == "not-resuming"]

    fleet.wait("the flag to open and to resolve", lambda: any(flag["resolved_at"] for flag in found()))
    (flag,) = found()
    assert flag["job_id"] == fleet.jobs["starts-over"]
    assert flag["evidence"]["saved_before"] >= flag["evidence"]["saved_now"]
    assert fleet.row("starts-over")["step"] >= flag["evidence"]["saved_before"]


def test_two_writers_are_flagged_until_one_is_gone(fleet):
    fleet.wait("the flags", lambda: fleet.flagged("concurrent-writers") == {"shared-1", "shared-2"})
    fleet.cluster.command("scancel", str(fleet.jobs["shared-2"]))
    fleet.wait("the flags to resolve", lambda: fleet.flagged("concurrent-writers") == set())
    assert fleet.ever_flagged("concurrent-writers") == {"shared-1", "shared-2"}


def test_time_left_agrees_with_squeue(fleet):
    labels = ("requeue", "manager", "shared-1")
    before = [parse_seconds(fleet.cluster.read_job(fleet.jobs[label], "%L")) for label in labels]
    rows = {row["job_id"]: row for row in fleet.watcher.read("jobs")["jobs"]}
    after = [parse_seconds(fleet.cluster.read_job(fleet.jobs[label], "%L")) for label in labels]
    for label, most, least in zip(labels, before, after, strict=True):
        assert least - 2 <= rows[fleet.jobs[label]]["time_left_seconds"] <= most + 2


def parse_seconds(text):
    days, _, clock = text.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return int(days or 0) * 86400 + seconds


def test_metrics_count_what_the_commands_list(fleet):
    fleet.wait(
        "the metrics to agree",
        lambda: (
            fleet.metric('ckptd_jobs{cluster="test",state="RUNNING"}')
            == sum(row["state"] == "RUNNING" for row in fleet.watcher.read("jobs")["jobs"])
        ),
    )
    rule = 'ckptd_open_flags{cluster="test",rule="restarted-without-checkpoint",severity="critical"}'
    assert fleet.metric(rule) == 1
    kept = 'ckptd_checkpoints{cluster="test",format="safetensors",state="complete"}'
    fleet.wait("the manager's three", lambda: (fleet.metric(kept) or 0) >= 3)
    assert fleet.metric('ckptd_slurm_up{cluster="test"}') == 1
    assert time.time() - fleet.metric('ckptd_last_poll_timestamp_seconds{cluster="test"}') < allow(10)


def test_a_cycle_asks_slurmctld_no_more_than_one_squeue_does(fleet):
    def count_polls():
        return int(fleet.metric('ckptd_step_duration_seconds_count{cluster="test",step="poll"}'))

    polled, before = count_polls(), count_requests(fleet.cluster)
    fleet.wait("ten polls", lambda: count_polls() >= polled + 10)
    asked, polls = count_requests(fleet.cluster) - before, count_polls() - polled
    # squeue asks for the partitions, too, whatever it is to print
    assert set(asked) == {"REQUEST_JOB_INFO", "REQUEST_PARTITION_INFO"}
    for count in asked.values():
        assert polls - 2 <= count <= polls + 1  # one may come between the two counts at each end, or be under way


def count_requests(cluster):
    """Requests that slurmctld has had so far, by type; those of its own nodes are left out."""
    listed = cluster.command("sdiag").partition("by message type")[2].partition("by user")[0]
    counts = re.findall(r"^\s*(\w+)\s*\(.*?count:(\d+)", listed, re.MULTILINE)
    return Counter({name: int(count) for name, count in counts if name not in NOT_ASKED_BY_CKPTD})


def test_a_job_whose_limit_comes_between_saves_is_at_risk_until_it_has_ended(fleet):
    fleet.wait("the job's end", lambda: fleet.cluster.read_job(fleet.jobs["saves-rarely"], "%T") == "TIMEOUT", 120)
    fleet.wait("its flag to resolve", lambda: fleet.flagged("at-risk") == set())
    assert fleet.ever_flagged("at-risk") == {"saves-rarely"}

    def ends():
        return [(each["state"], each["cause"]) for run in fleet.show("saves-rarely") for each in run["attempts"]]

    fleet.wait("its end to be on record", lambda: ends() == [("TIMEOUT", "time-limit")])
    (run,) = fleet.show("saves-rarely")
    assert run["located_by"] == "discovery"


def open_flags(fleet):
    return {(flag["rule"], flag["job_id"], flag["opened_at"]) for flag in fleet.flags()}


def wait_for_steady_flags(fleet):
    """Return the open flags once several decisions have left them as they are."""
    seen = []

    def are_steady():
        seen.append(open_flags(fleet))
        return len(seen) >= STEADY_COUNT and seen[-STEADY_COUNT:] == seen[-1:] * STEADY_COUNT

    fleet.wait("the flags to stay as they are", are_steady)
    return seen[-1]


def test_nothing_opens_resolves_or_ends_while_slurmctld_is_stopped(fleet):
    flags, jobs = wait_for_steady_flags(fleet), {row["job_id"] for row in fleet.watcher.read("jobs")["jobs"]}
    assert flags
    fleet.cluster.stop_controller()
    try:
        fleet.wait("the daemon to notice", lambda: fleet.metric('ckptd_slurm_up{cluster="test"}') == 0)
        (status,) = fleet.watcher.read("status")["clusters"]
        assert status["slurm_trouble"]
        noticed = time.monotonic()
        fleet.wait("several polls in vain", lambda: time.monotonic() > noticed + 8)
        assert open_flags(fleet) == flags
        assert {row["job_id"] for row in fleet.watcher.read("jobs")["jobs"]} == jobs
    finally:
        fleet.cluster.start_controller()
    fleet.wait("Slurm to answer again", lambda: fleet.metric('ckptd_slurm_up{cluster="test"}') == 1)
    (status,) = fleet.watcher.read("status")["clusters"]
    assert status["slurm_trouble"] is None
    assert open_flags(fleet) == flags
    assert {row["job_id"] for row in fleet.watcher.read("jobs")["jobs"]} == jobs


def test_killed_at_ten_random_moments_the_record_stays_sound(fleet):
    flags = wait_for_steady_flags(fleet)
    chance = random.Random()
    for number in range(10):
        time.sleep(chance.uniform(0, 2))  # the moment of the kill is the test's subject
        fleet.watcher.stop(signal.SIGKILL)
        fleet.watcher.is_forked = number < 9  # the last one runs for the tests that follow
        fleet.watcher.start()
        with sqlite3.connect(f"file:{fleet.watcher.state}/ckptd.sqlite3?mode=ro", uri=True) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        database.close()
    since = datetime.now(UTC).isoformat()
    fleet.wait("a poll of the last daemon", lambda: (fleet.watcher.read("jobs")["polled_at"] or "") > since)
    assert open_flags(fleet) == flags
    for label, restarts in {"requeue": 1, "starts-over": 1, "manager": 0}.items():
        attempts = [attempt for run in fleet.show(label) for attempt in run["attempts"]]
        assert [attempt["restart_count"] for attempt in attempts] == list(range(restarts + 1))
        assert fleet.row(label)["restart_count"] == restarts
    epochs = [c["epoch"] for c in fleet.show("array")[0]["checkpoints"] if c["deleted_at"] is None]
    assert sorted(epochs) == list(range(1, 10))


def test_a_killed_daemon_leaves_no_process_behind(fleet):
    def ckptd():
        pids = processes.list_processes(fleet.cluster.directory, [])
        return [pid for pid in pids if b"ckptd\0" in processes.read_command(pid)]

    count = len(ckptd())
    fleet.watcher.stop(signal.SIGKILL)
    fleet.wait("its helpers to end", lambda: ckptd() == [])
    fleet.watcher.start()
    fleet.wait("as many as before", lambda: len(ckptd()) == count)


def test_flags_resolve_when_their_job_is_gone(fleet):
    fleet.cluster.command("scancel", str(fleet.jobs["never-saves"]))
    fleet.wait("the flag to resolve", lambda: fleet.flagged("restarted-without-checkpoint") == set())
    fleet.wait("the job to leave the list", lambda: fleet.row("never-saves") is None)


def test_term_ends_the_daemon_within_five_seconds(fleet):
    began = time.monotonic()
    fleet.watcher.stop()
    assert time.monotonic() - began < allow(5)
    fleet.watcher.start()
