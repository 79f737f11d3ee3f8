from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.core.model import JobState, Unknown
from ckptd.slurm import accounting, queue_text
from slurm import stand_in
from support.queue_facts import make_job

DATA = Path(__file__).parent.parent / "data" / "slurm"
NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
RECORDED = (DATA / "22.05.8" / "sacct.txt").read_text()
HETEROGENEOUS = (DATA / "22.05.8" / "sacct-heterogeneous.txt").read_text()
DISABLED = {"rc": 1, "stderr": "Slurm accounting storage is disabled\n"}
DOWN = {"rc": 1, "stderr": "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection\n"}


def test_every_attempt_of_a_requeued_job_is_told_oldest_first(programs_in):
    _, make = programs_in
    attempts = make(sacct={"stdout": RECORDED}).read_ended([3], NOW - timedelta(days=1))
    assert [attempt.state for attempt in attempts] == [JobState.REQUEUED, JobState.CANCELLED]
    assert attempts[0].ended_at <= attempts[1].started_at
    assert {attempt.job_id for attempt in attempts} == {3}


def test_nodes_ends_and_suspended_time_are_read(programs_in):
    _, make = programs_in
    first, second, third = sorted(make(sacct={"stdout": RECORDED}).read_ended([1, 2, 4], NOW))
    assert (first.cpu_count, first.node_list, first.state) == (2, "n1", JobState.COMPLETED)
    assert first.ended_at - first.started_at == timedelta(seconds=5)
    assert (second.state, second.suspended) == (JobState.TIMEOUT, timedelta(0))
    assert (third.state, third.suspended) == (JobState.CANCELLED, timedelta(seconds=7))


def test_gpus_are_counted_and_days_of_suspension_read():
    row = "7|NODE_FAIL|1|2|3|n1|1|1|billing=2,cpu=2,gres/gpu=4,node=1|1-02:00:03|7"
    (attempt,) = accounting.parse_sacct(row, [7])
    assert (attempt.gpu_count, attempt.suspended) == (4, timedelta(days=1, hours=2, seconds=3))


def test_a_heterogeneous_job_has_the_nodes_and_gpus_of_all_parts_that_lasted(programs_in):
    _, make = programs_in
    rows = make(sacct={"stdout": HETEROGENEOUS}).read_ended([1], NOW)
    requeued, cancelled = rows
    assert (requeued.state, requeued.node_list, requeued.node_count) == (JobState.REQUEUED, "n1,n2,n3", 3)
    assert (requeued.cpu_count, requeued.gpu_count) == (8, 2)
    assert (cancelled.state, cancelled.node_list, cancelled.node_count) == (JobState.CANCELLED, "n3,n1", 2)
    assert (cancelled.cpu_count, cancelled.gpu_count) == (4, 1)
    (other,) = make(sacct={"stdout": HETEROGENEOUS}).read_ended([4], NOW)
    assert (other.job_id, other.node_count, other.cpu_count, other.gpu_count) == (4, 2, 5, 2)


def test_a_part_that_still_runs_when_the_first_has_ended_counts_and_alone_is_no_job():
    tail = "1|2|gres/gpu=1,node=1|00:00:00"
    first, part = f"7|COMPLETED|1|2|30|n1|{tail}|7+0\n", f"8|RUNNING|1|3|Unknown|n2|{tail}|7+1\n"
    (whole,) = accounting.parse_sacct(first + part, [7])
    assert (whole.job_id, whole.node_count, whole.cpu_count, whole.gpu_count) == (7, 2, 4, 2)
    assert accounting.parse_sacct(part, [7]) == ()


def test_what_still_runs_or_was_not_asked_for_is_left_out():
    tail = "n1|1|1||00:00:00"
    rows = f"7|RUNNING|1|2|Unknown|{tail}|7\n8|COMPLETED|1|2|3|{tail}|8\n8.batch|COMPLETED|1|2|3|{tail}|8.batch\n"
    assert accounting.parse_sacct(rows, [7]) == ()


def test_rows_of_another_form_are_refused():
    for row in ("7|COMPLETED", "7|COMPLETED|soon|2|3|n1|1|1||00:00:00|7"):
        with pytest.raises(queue_text.GarbledError):
            accounting.parse_sacct(row, [7])


def test_only_the_asked_jobs_and_time_are_asked_for(programs_in):
    directory, make = programs_in
    make(cluster="lab").read_ended([9, 3], NOW)
    arguments = stand_in.read_calls(directory)[0][1]
    assert arguments[arguments.index("--jobs") + 1] == "3,9"
    assert arguments[arguments.index("--starttime") + 1] == "2026-11-21T01:00:00"


def test_without_accounting_slurmctlds_memory_answers(programs_in):
    _, make = programs_in
    rows = [stand_in.squeue_row(JobID="7", State="TIMEOUT"), stand_in.squeue_row(JobID="8")]
    (attempt,) = make(sacct=DISABLED, squeue={"jobs": rows}).read_ended([7, 8, 9], NOW)
    assert (attempt.job_id, attempt.state, attempt.gpu_count) == (7, JobState.TIMEOUT, 1)
    assert attempt.suspended is None


def test_slurmctlds_memory_of_a_heterogeneous_job_is_that_of_all_its_parts(programs_in):
    _, make = programs_in
    rows = [
        stand_in.squeue_row(JobID="7", HetJobID="7", State="TIMEOUT"),
        stand_in.squeue_row(JobID="8", HetJobID="7", State="TIMEOUT"),
        stand_in.squeue_row(JobID="9", HetJobID="7", State="CANCELLED", EndTime="1795001000"),
    ]
    (attempt,) = make(sacct=DISABLED, squeue={"jobs": rows}).read_ended([7], NOW)
    assert (attempt.job_id, attempt.node_count, attempt.cpu_count, attempt.gpu_count) == (7, 2, 4, 2)


def test_while_accounting_is_down_a_part_of_an_answer_is_none(programs_in):
    _, make = programs_in
    rows = [stand_in.squeue_row(JobID="7", State="TIMEOUT")]
    source = make(sacct=DOWN, squeue={"jobs": rows})
    assert isinstance(source.read_ended([7, 8], NOW), Unknown)
    assert [attempt.job_id for attempt in source.read_ended([7], NOW)] == [7]


def test_where_neither_answers_it_is_unknown(programs_in):
    _, make = programs_in
    source = make(sacct=DISABLED, squeue={"rc": 1, "stderr": "error: Unable to contact slurm controller"})
    assert isinstance(source.read_ended([7], NOW), Unknown)


def test_jobs_that_slurmctld_has_forgotten_are_no_trouble(programs_in):
    _, make = programs_in
    forgotten = {"rc": 1, "stderr": "slurm_load_jobs error: Invalid job id specified\n"}
    assert make(sacct=DISABLED, squeue=forgotten).read_ended([7], NOW) == ()


def test_no_jobs_need_no_program(programs_in):
    directory, make = programs_in
    assert make(cluster="lab").read_ended([], NOW) == ()
    assert stand_in.read_calls(directory) == []


def test_a_script_comes_from_slurmctld_else_from_accounting(programs_in):
    _, make = programs_in
    script = "#!/bin/bash\n# caf\udce9\n"
    assert make(scontrol={"answers": {"write batch_script": script}}).read_batch_script(make_job(7)) == script
    refused = {"stderr": "job script retrieval failed: Invalid job id specified\n"}
    stored = {"script": f"Batch Script for 7\n{'-' * 80}\n{script}"}
    assert make(scontrol=refused, sacct=stored).read_batch_script(make_job(7)) == script
    answer = make(scontrol=refused, sacct={"script": f"Batch Script for 7\n{'-' * 80}\nNONE\n"}).read_batch_script(
        make_job(7)
    )
    assert "Invalid job id" in answer.reason


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("JobId=7 JobName=train\n   MailUser=alice@example.org MailType=FAIL\n", "alice@example.org"),
        ("JobId=7 JobName=x MailUser=eve@example.org\n   MailUser=alice MailType=NONE\n", "alice"),
        ("JobId=7 JobName=train\n   Power=\n", None),
        ("JobId=7\n   MailUser=(null) MailType=NONE\n", None),
    ],
)
def test_whom_a_job_wants_mailed_is_asked_of_slurmctld(programs_in, shown, expected):
    _, make = programs_in
    job = make_job(7)
    assert make(scontrol={"answers": {"show job": shown}}).read_mail_user(job) == expected


def test_whom_a_job_wants_mailed_is_unknown_where_slurmctld_does_not_say(programs_in):
    _, make = programs_in
    refused = {"rc": 1, "stderr": "slurm_load_jobs error: Invalid job id specified\n"}
    assert isinstance(make(scontrol=refused).read_mail_user(make_job(7)), Unknown)


def test_a_ping_tells_up_from_down(programs_in):
    _, make = programs_in
    assert make().is_answering()
    down = {"rc": 1, "answers": {"ping": "Slurmctld(primary) at host is DOWN\n"}}
    assert not make(scontrol=down).is_answering()
