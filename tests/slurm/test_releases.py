"""A job means the same in every release of Slurm, whichever program or interface tells of it.

`record_release.py` recorded one queue with a job of each kind from five releases.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.core.model import Job, JobState, QueueSnapshot
from ckptd.slurm import past_jobs
from ckptd.slurm.replay import read_snapshot
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.slurmrestd import DESCRIPTION, SlurmrestdSource
from slurm import stand_in, stand_in_slurmrestd
from slurm.stand_in_slurmrestd import http, offer

NOW = datetime(2026, 11, 23, 14, 30, tzinfo=UTC)
RELEASES = sorted((Path(__file__).parent.parent / "data" / "slurm").glob("*/kinds"))
PAYLOADS = [path for release in RELEASES for path in sorted(release.glob("slurmrestd-*.json"))]
HOSTILE = 'x|y\x1f"},{"job_id":1,\\\nRestarts=99\udcff'
PENDING, RUNNING = JobState.PENDING, JobState.RUNNING
PLAIN = {
    "user": "alice", "uid": 20001, "account": "", "partition": "main", "qos": "normal", "reason": "",
    "restart_count": 0, "is_requeueable": True, "task_count": 1, "work_dir": PurePosixPath("/home/alice"),
    "comment": "", "admin_comment": "", "dependency": "", "node_count": 1, "cpu_count": 1, "gpu_count": 0,
    "is_batch": True,
}  # fmt: skip
EXPECTED = {  # by name, task and part
    ("running", None, None): {
        "state": RUNNING, "minutes": 30, "comment": "ckpt=/scratch/alice", "admin_comment": "of the site",
        "cpu_count": 2, "gpu_count": 1,
    },
    ("requeued", None, None): {"state": RUNNING, "minutes": 45, "restart_count": 1},
    ("unlimited", None, None): {"state": RUNNING, "minutes": None},
    ("array", 0, None): {"state": RUNNING, "minutes": 10},
    ("array", 1, None): {"state": RUNNING, "minutes": 10},
    ("array", None, None): {"state": PENDING, "minutes": 10, "task_count": 4, "reason": "JobArrayTaskLimit"},
    ("retried", 0, None): {"state": PENDING, "minutes": 15, "restart_count": 1, "reason": "JobHeldUser"},
    ("retried", 1, None): {"state": RUNNING, "minutes": 15},
    ("retried", 2, None): {"state": PENDING, "minutes": 15, "reason": "JobArrayTaskLimit"},
    ("waits", None, None): {"state": PENDING, "minutes": 120, "reason": "BeginTime"},
    ("held", None, None): {"state": PENDING, "minutes": 5, "reason": "JobHeldUser", "is_requeueable": False},
    ("depends", None, None): {
        "state": PENDING, "minutes": 5, "reason": "Dependency", "dependency": "afterok:1(unfulfilled)",
    },
    (HOSTILE, None, None): {"state": PENDING, "minutes": 2880, "reason": "JobHeldUser", "comment": HOSTILE},
    ("suspended", None, None): {"state": JobState.SUSPENDED, "minutes": 15},
    ("cancelled", None, None): {"state": JobState.CANCELLED, "minutes": 15},
    ("failed", None, None): {"state": JobState.FAILED, "minutes": 15, "reason": "NonZeroExitCode"},
    ("parts", None, 0): {"state": PENDING, "minutes": 5, "reason": "JobHeldUser"},
    ("parts", None, 1): {"state": PENDING, "minutes": 5, "reason": "JobHeldUser"},
}  # fmt: skip
REQUEUED_AND_HELD = "job requeued in held state"  # how squeue words JobHeldUser of such a job
ENDED = {2: JobState.REQUEUED, 11: JobState.CANCELLED, 12: JobState.FAILED, 17: JobState.REQUEUED}


def number(job: Job):
    return job.name, job.array_task_id, None if job.het_job_id is None else job.job_id - job.het_job_id


def check(jobs):
    """Compare with what was submitted; the command line is known of some releases only, and not compared."""
    by_kind = {number(job): job for job in jobs}
    assert by_kind.keys() == EXPECTED.keys()
    assert len(jobs) == len(by_kind)
    for kind, changes in EXPECTED.items():
        job, expected = by_kind[kind], PLAIN | changes
        minutes = expected.pop("minutes")
        limit = None if minutes is None else timedelta(minutes=minutes)
        found = {name: getattr(job, name) for name in expected}
        if found["reason"] == REQUEUED_AND_HELD:
            found["reason"] = "JobHeldUser"
        assert found == expected, kind
        assert job.time_limit == limit, kind
        check_times(job)


def check_times(job):
    is_over = job.state in {JobState.CANCELLED, JobState.FAILED}
    assert NOW - timedelta(days=1) < job.submitted_at < NOW
    if job.state is PENDING:
        assert job.time_left == job.time_limit
        assert (job.started_at is not None) == (job.name == "waits")  # when it may start
    else:
        assert job.submitted_at <= job.started_at < NOW
        assert job.node_list in {"n1", "n2"}
        assert job.batch_host == job.node_list
        assert (job.ends_at is None) == (job.time_limit is None)
    if is_over or job.time_limit is None:
        assert job.time_left is None
    elif job.state is not PENDING:
        assert job.time_limit - timedelta(minutes=2) <= job.time_left <= job.time_limit


def read_rows(path):
    """Return the rows of a recording as the stand-in for squeue prints them."""
    head, _, text = path.read_bytes().partition(b"\n")
    header = json.loads(head)
    records = text.split(header["record_separator"].encode() + b"\n")[:-1]
    rows = [record.decode("utf-8", "surrogateescape").split(header["field_separator"]) for record in records]
    assert all(len(row) == len(header["fields"]) for row in rows)
    return [dict(zip(header["fields"], row, strict=True)) for row in rows]


def read_polled_at(release):
    header = (release / "queue.squeue").read_bytes().partition(b"\n")[0]
    return datetime.fromisoformat(json.loads(header)["polled_at"])


def read_answers(release):
    names = {"show config": "config", "show job": "job", "--oneliner show": "reservation", "ping": "ping"}
    return {"answers": {words: (release / f"scontrol-{name}.txt").read_text() for words, name in names.items()}}


def read_jobs(source):
    snapshot = source.read_queue(NOW)
    assert isinstance(snapshot, QueueSnapshot), snapshot
    assert snapshot.cluster == "lab"
    return snapshot.jobs


def id_of(path):
    return "/".join([path.parts[-2] if path.name == "kinds" else path.parts[-3], path.stem])


@pytest.mark.parametrize("release", RELEASES, ids=id_of)
def test_squeue_tells_of_each_kind_of_job_at_the_first_poll_and_the_next(programs_in, release):
    directory, make = programs_in
    rows, fewer = (read_rows(release / f"{name}.squeue") for name in ("queue", "added-tasks"))
    retried = [row for row in rows if row["ArrayJobID"] == "5"]
    answers = read_answers(release)
    source = make(squeue={"jobs": rows}, scontrol=answers)
    check(read_jobs(source))
    stand_in.make_programs(directory, squeue={"jobs": fewer, "each": retried}, scontrol=answers)
    jobs = read_jobs(source)
    check(jobs)
    assert {job.name: job.array_task_limit for job in jobs if job.task_count > 1} == {"array": 2}
    adds_tasks = any(row["ArrayTaskID"] == "0,2" for row in fewer)
    calls = [argv for name, argv, _ in stand_in.read_calls(directory) if name == "squeue"]
    assert (["--array", "--jobs=5"] in [argv[5:7] for argv in calls]) == adds_tasks
    assert adds_tasks == (release.parent.name >= "25")


@pytest.mark.parametrize("release", RELEASES, ids=id_of)
def test_the_json_of_squeue_tells_the_same(release):
    check(read_snapshot(release / "squeue.json", read_polled_at(release), "lab").jobs)


@pytest.mark.parametrize("path", PAYLOADS, ids=id_of)
def test_slurmrestd_tells_the_same_in_each_of_its_versions(programs_in, tmp_path, path):
    _, make = programs_in
    make(scontrol=read_answers(path.parent))
    version = int(path.stem.rpartition(".")[2])
    job_list = f"/slurm/v0.0.{version}/jobs/"
    answers = {DESCRIPTION: offer(version, slash="/"), job_list: http(path.read_bytes())}
    with stand_in_slurmrestd.serve(answers, tmp_path) as server:
        snapshot = SlurmrestdSource(RestClient(url=server.url)).read_queue(read_polled_at(path.parent))
    check(snapshot.jobs)
    mailed = {job.name: job.mail_user for job in snapshot.jobs if job.mail_user}
    assert mailed == ({} if version == 38 else {"running": "alice@example.org"})


def test_every_version_from_0_0_38_to_the_newest_was_recorded():
    versions = {int(re.fullmatch(r"slurmrestd-v0\.0\.(\d+)", path.stem)[1]) for path in PAYLOADS}
    assert versions == set(range(38, 46))
    assert [release.parent.name for release in RELEASES] == ["22.05.8", "23.11.4", "24.11.5", "25.11.2", "26.05.5"]


@pytest.mark.parametrize("release", RELEASES, ids=id_of)
def test_sacct_tells_how_each_attempt_ended(programs_in, release):
    _, make = programs_in
    source = make(sacct={"stdout": (release / "sacct-ended.txt").read_text()})
    ended = [each for each in source.read_ended(sorted(ENDED), NOW - timedelta(days=1)) if each.state in ENDED.values()]
    assert {each.job_id: each.state for each in ended} == ENDED
    for each in ended:
        assert each.started_at <= each.ended_at < NOW
        assert (each.node_count, each.cpu_count, each.gpu_count) == (1, 1, 0)
        assert each.suspended == timedelta()


@pytest.mark.parametrize("release", RELEASES, ids=id_of)
def test_sacct_tells_of_past_jobs(release):
    newer = past_jobs.NEWER_FIELDS if release.parent.name >= "24.11" else past_jobs.NEWER_FIELDS[1:]
    reader = past_jobs.PastReader("lab", newer, delimiter=b"|fieldsx|")
    reader.feed((release / "sacct-past.txt").read_bytes())
    past = {each.job.job_id: each.job for each in reader.finish()}
    assert {job_id: job.state for job_id, job in past.items()} == ENDED
    assert (past[17].array_job_id, past[17].array_task_id) == (5, 0)
    for job in past.values():
        assert (job.user, job.uid, job.partition, job.is_batch, job.restart_count) == ("alice", 20001, "main", True, 0)
        assert job.time_limit == timedelta(minutes=45 if job.job_id == 2 else 15)
        assert job.work_dir == PurePosixPath("/home/alice")


@pytest.mark.parametrize("release", RELEASES, ids=id_of)
def test_scontrol_tells_of_cluster_clock_mail_and_maintenance(programs_in, release):
    _, make = programs_in
    rows = read_rows(release / "queue.squeue")
    source = make(squeue={"jobs": rows}, scontrol=read_answers(release))
    running = next(job for job in read_jobs(source) if job.name == "running")
    assert source.read_mail_user(running) == "alice@example.org"
    assert source.is_answering()
    assert abs(source.read_clock() - running.submitted_at) < timedelta(minutes=5)
    (found,) = source.read_maintenance()
    assert (found.name, found.ends_at - found.begins_at) == ("service", timedelta(hours=1))
    assert found.begins_at == datetime(2035, 1, 1, tzinfo=UTC)
