"""The commands that read the record, against a real database."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ckptd.cli import main, status
from ckptd.cli.output import print_json
from ckptd.core import queue
from ckptd.core.health import Evaluation, flag_changes
from ckptd.core.model import Finding, Job, JobState, QueueSnapshot, RunKey, Scan, Severity, Unknown
from ckptd.core.model.records import AuditEntry, DaemonIdentity, NodeScanCost, ScanRecord
from ckptd.core.notices import sample_digest
from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.core.queue.poll_gaps import PollGap
from ckptd.core.runs import ownership, progress
from ckptd.steps.prune import pause_record
from support.held_lease import hold_lease
from support.migrated import open_record
from support.queue_facts import make_checkpoint
from support.recorded import note_run

RUN = RunKey("alpha", 1000, "/data/alice/run")
HOSTILE = "name\x1b[31m\n|\udcff"


@pytest.fixture
def state(tmp_path):
    """A configuration whose state directory holds a record of one flagged job, as of this moment."""
    now = datetime.now(UTC)
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    job = Job(
        cluster="alpha",
        job_id=7,
        array_job_id=5,
        array_task_id=2,
        user="alice",
        uid=1000,
        name=HOSTILE,
        state=JobState.RUNNING,
        restart_count=1,
        time_left=timedelta(minutes=50),
        started_at=now - timedelta(minutes=10),
        ends_at=now + timedelta(minutes=50),
        time_limit=timedelta(hours=1),
    )
    changes = queue.compare({}, QueueSnapshot(cluster="alpha", polled_at=now, jobs=(job,)))
    store.jobs.record(changes)
    store.clusters.record_poll("alpha", now)
    note_run(store, RUN, now, jobs=[changes.new[0].key])
    checkpoint = make_checkpoint(epoch=3, step=40, modified_at=now - timedelta(minutes=5))
    scan = Scan(directory=PurePosixPath(RUN.directory), scanned_at=now, checkpoints=(checkpoint,))
    found = progress.merge_scan((), scan, ownership.Writers(owner_uid=1000), now)
    store.checkpoints.record_scans([ScanRecord(run=RUN, changes=found, scan=scan)])
    finding = Finding(
        rule="at-risk",
        severity=Severity.WARNING,
        run=RUN,
        job_id=7,
        user="alice",
        evidence={"time_left_seconds": 60},
        recorded_advice="save",
    )
    store.flags.record(flag_changes.compare((), [Evaluation(run=RUN, findings=(finding,))], now), now)
    store.clusters.record_heartbeat("alpha", DaemonIdentity(host="admin", pid=1, version="0", started_at=now), now)
    hold_lease(store, "alpha")
    yield config, store
    store.close()


def run(config, *command):
    result = CliRunner().invoke(main, ["--config", str(config), *command])
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


def test_jobs_gives_the_documented_keys(state):
    result = run(state[0], "jobs", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert set(document) == {"jobs", "polled_at"}
    [job] = document["jobs"]
    assert list(job) == [
        "job_id",
        "array_job_id",
        "array_task_id",
        "user",
        "name",
        "partition",
        "state",
        "restart_count",
        "time_left_seconds",
        "directory",
        "located_by",
        "locations",
        "epoch",
        "step",
        "newest_checkpoint_at",
        "newest_checkpoint_age_seconds",
        "checkpoints",
        "checkpoint_bytes",
        "flags",
        "cluster",
        "uid",
        "run",
    ]
    assert (job["cluster"], job["uid"], job["run"]) == RUN
    assert (job["job_id"], job["array_job_id"], job["array_task_id"], job["name"]) == (7, 5, 2, HOSTILE)
    assert (job["epoch"], job["step"], job["checkpoints"], job["flags"]) == (3, 40, 1, ["at-risk"])
    assert 2900 <= job["time_left_seconds"] <= 3000
    assert 300 <= job["newest_checkpoint_age_seconds"] < 400


def test_a_table_shows_hostile_names_as_text(state):
    result = run(state[0], "jobs")
    assert "\x1b" not in result.stdout
    assert r"name\x1b[31m\n|\xff" in result.stdout


def test_jobs_can_be_chosen(state):
    config, _ = state
    assert json.loads(run(config, "jobs", "--json", "--user", "bob").stdout)["jobs"] == []
    assert len(json.loads(run(config, "jobs", "--json", "--flagged").stdout)["jobs"]) == 1


def test_flags_gives_the_documented_keys_and_says_trouble(state):
    result = run(state[0], "flags", "--json")
    assert result.exit_code == 1
    [flag] = json.loads(result.stdout)["flags"]
    assert list(flag) == [
        "rule",
        "severity",
        "cluster",
        "job_id",
        "user",
        "run",
        "opened_at",
        "resolved_at",
        "evidence",
        "advice",
        "title",
        "statement",
        "command",
        "uid",
    ]
    assert (flag["title"], flag["statement"], flag["advice"], flag["command"]) == (
        "Work may be lost at the time limit",
        "",
        "save",
        None,
    )
    assert (flag["rule"], flag["run"], flag["resolved_at"]) == ("at-risk", RUN.directory, None)


def test_the_most_severe_flags_come_first_and_with_all_the_oldest(state):
    config, store = state
    before = store.flags.list_open(RUN.cluster)
    worse = replace(before[0].finding, rule="restart-loop", severity=Severity.CRITICAL)
    later = before[0].opened_at + timedelta(minutes=1)
    evaluated = [Evaluation(run=RUN, findings=(before[0].finding, worse))]
    store.flags.record(flag_changes.compare(before, evaluated, later), later)
    listed = [line.split("\t")[1] for line in run(config, "flags").stdout.splitlines()[1:]]
    assert listed == ["restart-loop", "at-risk"]
    everything = [line.split("\t")[1] for line in run(config, "flags", "--all").stdout.splitlines()[1:]]
    assert everything == ["at-risk", "restart-loop"]


def test_a_table_of_all_flags_says_which_are_resolved(state):
    config, store = state
    assert run(config, "flags").stdout.splitlines()[0].split("\t")[4:6] == ["opened (UTC)", "run"]
    still_open = run(config, "flags", "--all").stdout.splitlines()
    assert still_open[0].split("\t")[4:6] == ["opened (UTC)", "resolved (UTC)"]
    assert still_open[1].split("\t")[5] == "-"
    resolved_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    changes = flag_changes.compare(store.flags.list_open(RUN.cluster), [Evaluation(run=RUN)], resolved_at)
    store.flags.record(changes, resolved_at)
    resolved = run(config, "flags", "--all")
    assert resolved.stdout.splitlines()[1].split("\t")[5] == "2026-01-02 03:04:05"
    assert resolved.exit_code == 0


def test_show_tells_a_run_by_job_and_by_path(state):
    config, _ = state
    [by_job] = json.loads(run(config, "show", "7", "--json").stdout)["runs"]
    [by_path] = json.loads(run(config, "show", RUN.directory, "--json").stdout)["runs"]
    [by_task] = json.loads(run(config, "show", "5_2", "--json").stdout)["runs"]
    [by_part] = json.loads(run(config, "show", "7+1", "--json").stdout)["runs"]
    assert by_job["run"] == by_task["run"] == by_part["run"] == by_path["run"] == RUN.directory
    assert [each["step"] for each in by_job["checkpoints"]] == [40]
    assert [each["job_id"] for each in by_job["attempts"]] == [7]
    assert "at-risk" in run(config, "show", "7").stdout


def test_show_of_an_array_tells_the_runs_of_its_tasks(state):
    [of_array] = json.loads(run(state[0], "show", "5", "--json").stdout)["runs"]
    assert of_array["run"] == RUN.directory


@pytest.mark.parametrize("name", ["99", "5_3", "7_2", "5_", "7+", "5_2+1", "9" * 30, "5_" + "9" * 30, "²"])
def test_show_of_what_is_not_on_record_is_a_sentence(state, name):
    result = run(state[0], "show", name)
    assert result.exit_code == 2
    assert f"no job or run {name!r} is on record" in result.stderr


@pytest.mark.parametrize("command", ["show", "advise", "plan"])
@pytest.mark.parametrize("name", ["\u00b2", "\u0663", "9" * 30, "-0", "x\x1b[31m"])
def test_a_name_that_is_no_job_and_no_run_is_a_sentence(state, command, name):
    result = run(state[0], command, "--", name)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"ckptd: no job or run {name!r} is on record; ")


def test_a_document_holds_only_numbers_that_json_has(capsys):
    print_json({"metrics": {"loss": float("nan")}, "epochs": [float("inf"), 1.5]})
    assert capsys.readouterr().out == '{"metrics": {"loss": null}, "epochs": [null, 1.5]}\n'


def test_show_says_why_a_look_did_not_see_everything(state):
    config, store = state
    store.checkpoints.record_scans(
        [ScanRecord(run=RUN, scan=Unknown(what="agent", reason="it did not answer in time"))]
    )
    [view] = json.loads(run(config, "show", "7", "--json").stdout)["runs"]
    assert view["scan_problems"] == ["it did not answer in time"]
    assert "the last scan was incomplete: it did not answer in time" in run(config, "show", "7").stdout


def test_show_says_why_a_directory_is_not_known(state):
    config, store = state
    now = datetime.now(UTC)
    job = Job(cluster="alpha", job_id=8, user="bob", uid=1001, name="x", state=JobState.RUNNING, started_at=now)
    changes = queue.compare({}, QueueSnapshot(cluster="alpha", polled_at=now, jobs=(job,)))
    store.jobs.record(changes)
    doubt = Unknown(what="search", reason=f"/data/{HOSTILE} is not the job's")
    store.checkpoints.record_searches({changes.new[0].run: doubt})
    [view] = json.loads(run(config, "show", "8", "--json").stdout)["runs"]
    assert (view["located_by"], view["scan_problems"]) == (None, [doubt.reason])
    shown = run(config, "show", "8").stdout
    assert "the checkpoint directory is unknown: /data/name\\x1b[31m\\n|\\xff is not the job's" in shown
    store.checkpoints.record_searches({changes.new[0].run: None})
    assert "/data/name" not in run(config, "show", "8").stdout


def test_show_says_that_a_name_led_to_no_directory(state):
    config, store = state
    now = datetime.now(UTC)
    job = Job(cluster="alpha", job_id=8, user="bob", uid=1001, name="x", state=JobState.RUNNING, started_at=now)
    job = replace(job, comment=f"ckpt='/data/{HOSTILE}'", admin_comment="ckpt=/data/other")
    store.jobs.record(queue.compare({}, QueueSnapshot(cluster="alpha", polled_at=now, jobs=(job,))))
    [view] = json.loads(run(config, "show", "8", "--json").stdout)["runs"]
    assert view["setting_warnings"] == [
        f"{path}, named by its {where}, does not exist or is not a directory"
        for path, where in ((f"/data/{HOSTILE}", "comment"), ("/data/other", "admin comment"))
    ]
    shown = run(config, "show", "8").stdout
    assert "/data/name\\x1b[31m\\n|\\xff, named by its comment, does not exist or is not a directory" in shown
    nothing_found = "no existing directory is named, and no search of the working directory has found checkpoints"
    assert view["scan_problems"] == [nothing_found]
    assert f"the checkpoint directory is unknown: {nothing_found}" in shown


def test_status_says_whether_all_is_well(state):
    config, store = state
    assert run(config, "status").exit_code == 0
    store.clusters.record_poll("alpha", datetime.now(UTC), Unknown(what="queue", reason="slurmctld does not answer"))
    result = run(config, "status", "--json")
    assert result.exit_code == 1
    [cluster] = json.loads(result.stdout)["clusters"]
    assert cluster["slurm_trouble"] == "slurmctld does not answer"
    assert cluster["is_alive"]


@pytest.mark.parametrize(
    ("age", "interval", "is_late"), [(55, 2, False), (65, 2, True), (170, 60, False), (190, 60, True)]
)
def test_status_says_that_no_poll_was_recorded_for_several_intervals(state, age, interval, is_late):
    config, store = state
    config.write_text(f'{config.read_text()}[slurm]\npoll_interval = "{interval}s"\n')
    now = datetime.now(UTC)
    store.clusters.record_poll("alpha", now - timedelta(seconds=age))
    daemon = DaemonIdentity(host="admin", pid=1, version="0", started_at=now - timedelta(hours=1))
    store.clusters.record_heartbeat("alpha", daemon, now)
    result = run(config, "status", "--json")
    assert result.exit_code == int(is_late)
    [cluster] = json.loads(result.stdout)["clusters"]
    assert cluster["is_alive"]
    told = run(config, "status").stdout
    assert ("no poll has been recorded for" in told) == is_late
    if is_late:
        assert cluster["poll_delay"] in told
        assert f"although slurm.poll_interval is {'2 s' if interval == 2 else '1 min'}" in cluster["poll_delay"]
        store.clusters.record_heartbeat("alpha", replace(daemon, started_at=now), now)
        assert run(config, "status").exit_code == 0, "it has just started, and polls in a moment"
    else:
        assert cluster["poll_delay"] is None


def test_status_on_a_terminal_is_one_line_a_value(state, monkeypatch):
    monkeypatch.setattr(status, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    lines = run(state[0], "status").stdout.splitlines()
    assert lines[0].split() == ["cluster", "alpha"]
    assert ["pruning", "paused", "no"] in [line.split() for line in lines]
    assert len(lines) == len(status.STATUS_COLUMNS)


def test_status_tells_what_accounting_has_yet_to_tell(state):
    config, store = state
    assert "up to date" in run(config, "status").stdout
    since = datetime.now(UTC) - timedelta(hours=3)
    store.backfill.record_gap("alpha", PollGap(since, since + timedelta(hours=1)))
    result = run(config, "status", "--json")
    assert result.exit_code == 0
    [cluster] = json.loads(result.stdout)["clusters"]
    assert datetime.fromisoformat(cluster["backfill_since"]) == since
    assert "gap began 3 h ago" in run(config, "status").stdout


def test_status_says_what_is_in_the_future_since_the_clock_was_set_back(state):
    config, store = state
    since = datetime.now(UTC) + timedelta(days=3)
    store.backfill.record_gap("alpha", PollGap(since, since + timedelta(hours=1)))
    shown = run(config, "status").stdout
    assert f"gap began in the future, at {since:%Y-%m-%d %H:%M} UTC: the clock was set back since" in shown


def test_status_shows_no_negative_age_while_two_clocks_differ_by_seconds(state):
    config, store = state
    since = datetime.now(UTC) + timedelta(seconds=50)
    store.backfill.record_gap("alpha", PollGap(since, since + timedelta(hours=1)))
    assert "gap began 0 s ago" in run(config, "status").stdout


def test_status_tells_what_steps_in_users_jobs_cost(state):
    config, store = state
    assert "scans on nodes" in run(config, "status").stdout
    now = datetime.now(UTC)
    daemon = DaemonIdentity(host="admin", pid=1, version="0", started_at=now)
    store.clusters.record_heartbeat("alpha", daemon, now, NodeScanCost(12, 95))
    [cluster] = json.loads(run(config, "status", "--json").stdout)["clusters"]
    assert (cluster["node_scan_steps"], cluster["node_scan_seconds"]) == (12, 95)
    assert "12 steps, 1 min" in run(config, "status").stdout


def test_status_tells_of_mail_that_is_late(state):
    config, store = state
    assert "none" in run(config, "status").stdout
    now = datetime.now(UTC)
    for hours, exit_code in ((0.5, 0), (2, 1)):
        store.outbox.record(
            [replace(sample_digest("a@b.example", now - timedelta(hours=hours)).entries[0].notice, cluster="alpha")]
        )
        assert run(config, "status").exit_code == exit_code
    claim = store.claims.take("alpha", ["mail"], now, timedelta(minutes=1))
    store.claims.finish(claim, SendOutcome(result=SendResult.SENT), now)
    [cluster] = json.loads(run(config, "status", "--json").stdout)["clusters"]
    assert (cluster["mail_due_at"], cluster["waiting_notices"]) == (None, 0)
    assert datetime.fromisoformat(cluster["mailed_at"]) == now


def test_status_tells_that_the_clock_keeps_retention_from_removing(state):
    config, store = state
    assert run(config, "status").stdout.splitlines()[1].split("\t")[9] == "no"
    pause_record.record(store, "alpha", "this host's clock is 2:00:00 ahead", datetime.now(UTC))
    result = run(config, "status")
    assert result.exit_code == 1
    assert "this host's clock is 2:00:00 ahead" in result.stdout
    pause_record.record(store, "alpha", None, datetime.now(UTC))
    assert run(config, "status").exit_code == 0


def test_status_counts_acts_on_jobs_and_says_which_have_to_wait(state):
    config, store = state
    assert "0 in the last hour" in run(config, "status").stdout
    config.write_text(f"{config.read_text()}[actions]\nmax_per_hour = 4\n")
    for number in range(3):
        store.audit.record(
            AuditEntry(
                cluster="alpha", actor="actions", action="hold-job", target="job 1", plan_id=f"{number}",
                begun_at=datetime.now(UTC) - timedelta(minutes=59 * number),
            )
        )  # fmt: skip
    assert "2 in the last hour, limit reached: hold-job" in run(config, "status").stdout
    [cluster] = json.loads(run(config, "status", "--json").stdout)["clusters"]
    assert (cluster["actions_last_hour"], cluster["actions_at_limit"]) == (2, ["hold-job"])


def test_config_may_stand_after_the_command(state):
    result = CliRunner().invoke(main, ["jobs", "--json", "--config", str(state[0])])
    assert json.loads(result.stdout)["jobs"]
