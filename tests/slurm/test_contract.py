"""What every source must keep to, over recordings of real Slurm and stand-ins that print them."""

import contextlib
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.core.model import ENDED_STATES, JobState, QueueSnapshot, Unknown
from ckptd.slurm.pyslurm_source import PyslurmSource
from ckptd.slurm.replay import ReplaySource
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.slurmrestd import DESCRIPTION, SlurmrestdSource
from ckptd.slurm.sources import SOURCES, SourceError, open_source
from slurm import stand_in, stand_in_pyslurm, stand_in_slurmrestd
from slurm.stand_in_slurmrestd import http, offer

DATA = Path(__file__).parent.parent / "data" / "slurm"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def copied(path, directory):
    directory.mkdir(exist_ok=True)
    (directory / path.name).write_bytes(path.read_bytes())
    return directory


def replay(path):
    return lambda make, directory: ReplaySource(copied(path, directory / "snapshots"))


def squeue(make, directory):
    rows = [
        stand_in.squeue_row(JobID="1"),
        stand_in.squeue_row(JobID="2", State="COMPLETED", TimeLeft="3:00"),
        stand_in.squeue_row(JobID="3", ArrayJobID="3", ArrayTaskID="1", State="PENDING", StartTime="N/A"),
        stand_in.squeue_row(JobID="3", ArrayJobID="3", ArrayTaskID="2", State="PENDING", StartTime="N/A"),
        stand_in.squeue_row(JobID="4", ArrayJobID="3", ArrayTaskID="0"),
    ]
    return make(squeue={"jobs": rows}, scontrol=SCONTROL)


def pyslurm(kind):
    def make_source(make, directory):
        make(scontrol=SCONTROL)
        stand_in_pyslurm.install(directory, kind)
        return PyslurmSource()

    return make_source


def slurmrestd(path):
    """Make a source of a server of the payload's release."""
    version = int(path.stem.rpartition(".")[2])
    job_list = f"/slurm/v0.0.{version}/jobs{'' if version == 38 else '/'}"

    def make_source(make, directory):
        make(scontrol=SCONTROL)
        answers = {DESCRIPTION: offer(version, slash="" if version == 38 else "/"), job_list: http(path.read_bytes())}
        server = SERVERS.enter_context(stand_in_slurmrestd.serve(answers, directory))
        return SlurmrestdSource(RestClient(url=server.url))

    return make_source


SERVERS = contextlib.ExitStack()
PAYLOADS = sorted(DATA.glob("*/kinds/slurmrestd-*.json"))
SCONTROL = {
    **stand_in.HEALTHY,
    "answers": {**stand_in.HEALTHY["answers"], "write batch_script": "#!/bin/sh\n"},
}
CASES = {
    "squeue": squeue,
    "pyslurm, modern": pyslurm("modern"),
    "pyslurm, older": pyslurm("older"),
    **{f"slurmrestd with {path.parts[-3]}/{path.name}": slurmrestd(path) for path in PAYLOADS},
    **{
        f"replay of {path.parent.name}/{path.name}": replay(path)
        for path in sorted(DATA.glob("*/*"))
        if path.suffix in {".squeue", ".json"}
    },
}


@pytest.fixture(params=CASES)
def source(request, programs_in, tmp_path, monkeypatch):
    _, make = programs_in
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/modules:{Path(__file__).parents[2] / 'daemon'}")
    with SERVERS:
        yield CASES[request.param](make, tmp_path)


@pytest.fixture
def jobs(source):
    snapshot = source.read_queue(NOW)
    assert isinstance(snapshot, QueueSnapshot), snapshot
    assert snapshot.polled_at == NOW
    assert snapshot.cluster == "lab"
    assert snapshot.jobs
    return snapshot.jobs


def test_a_source_is_known_by_its_name(source):
    assert SOURCES[source.name] is type(source)


def test_no_job_is_listed_twice(jobs):
    assert max(Counter(job.job_id for job in jobs).values()) == 1


def test_every_job_has_an_owner_a_cluster_and_a_state(jobs):
    for job in jobs:
        assert job.user
        assert job.uid >= 0
        assert job.cluster == "lab"
        assert job.state is not JobState.UNKNOWN


def test_a_task_of_an_array_knows_its_array_and_no_other_job_does(jobs):
    for job in jobs:
        assert job.array_task_id is None or job.array_job_id is not None
        assert job.task_count == 1 or (job.array_task_id is None and job.state is JobState.PENDING)
    assert any(job.array_task_id == 0 for job in jobs)


def test_times_agree_with_one_another(jobs):
    for job in jobs:
        if job.is_running:
            assert job.started_at is not None
            assert (job.ends_at is None) == (job.time_limit is None)
        if job.time_left is not None:
            assert timedelta() <= job.time_left <= job.time_limit
        if job.state in ENDED_STATES:
            assert job.time_left is None


def test_words_for_nothing_are_not_text(jobs):
    for job in jobs:
        for text in (job.comment, job.admin_comment, job.command, job.dependency, job.batch_host, job.reason):
            assert text not in {"(null)", "N/A", "n/a", "None", "None assigned"}


@pytest.mark.parametrize("kind", ["squeue", "pyslurm, modern", "pyslurm, older"])
def test_a_jobs_command_line_comes_with_its_arguments(programs_in, tmp_path, monkeypatch, kind):
    _, make = programs_in
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/modules:{Path(__file__).parents[2] / 'daemon'}")
    for job in CASES[kind](make, tmp_path).read_queue(NOW).jobs:
        assert job.command == "/home/alice/train.sh --resume epoch_3.pt"


def test_jobs_nobody_remembers_are_left_out(source):
    source.read_queue(NOW)
    assert source.read_ended([999_999], NOW - timedelta(days=30)) == ()


def test_what_is_over_is_told_for_a_time_or_a_reason_why_not(source):
    source.read_queue(NOW)
    answer = source.read_past(NOW - timedelta(days=1), NOW)
    assert isinstance(answer, Unknown) or (answer.jobs == () and answer.until == NOW)


def test_a_batch_script_is_text_or_a_reason(source):
    script = source.read_batch_script(source.read_queue(NOW).jobs[0])
    assert script.startswith("#!") if isinstance(script, str) else isinstance(script, Unknown)


def test_whom_a_job_wants_mailed_is_text_or_nothing_or_a_reason(source):
    (job, *_) = source.read_queue(NOW).jobs
    assert isinstance(source.read_mail_user(job), str | None | Unknown)


def test_it_answers_when_slurm_does(source):
    source.read_queue(NOW)
    assert source.is_answering()


def test_auto_takes_pyslurm_where_it_loads_and_squeue_where_not(programs_in, tmp_path, monkeypatch):
    _, make = programs_in
    make()
    daemon = str(Path(__file__).parents[2] / "daemon")
    monkeypatch.setenv("PYTHONPATH", daemon)
    assert open_source("auto").name == "squeue"
    stand_in_pyslurm.install(tmp_path, "modern")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/modules:{daemon}")
    assert open_source("auto").name == "pyslurm"
    (tmp_path / "modules" / "pyslurm.py").write_text("import os\nos._exit(1)  # as libslurm's fatal() does\n")
    assert open_source("auto").name == "squeue"
    assert open_source("pyslurm").name == "pyslurm"


def test_a_wrong_name_or_directory_is_said(tmp_path):
    with pytest.raises(SourceError, match="'sinfo' is none of auto, pyslurm, replay, slurmrestd, squeue"):
        open_source("sinfo")
    with pytest.raises(SourceError, match="needs rest_url"):
        open_source("slurmrestd")
    with pytest.raises(SourceError, match="needs a directory"):
        open_source("replay", replay_from=tmp_path / "missing")
    assert open_source("replay", replay_from=tmp_path).name == "replay"


def test_the_interpreter_of_the_child_is_this_one():
    assert PyslurmSource._argv("version")[0] == sys.executable


def test_the_time_of_the_controller_is_told_or_not_known_or_there_is_none(source):
    assert source.read_clock() is None or isinstance(source.read_clock(), datetime | Unknown)
