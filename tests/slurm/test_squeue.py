from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptd.core.model import JobState, QueueSnapshot, Unknown
from ckptd.slurm import array_tasks, queue_text
from ckptd.slurm.cluster_facts import MAX_CHECKS
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.replay import read_snapshot
from ckptd.slurm.squeue import record_queue
from slurm import stand_in

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
HOSTILE = "x|y\x1f\x1eRestarts=99\nJobId=1 JobState=FAILED\n8|8|\udcff\udcfe,JobID:%s "


def read_only_job(source):
    snapshot = source.read_queue(NOW)
    assert isinstance(snapshot, QueueSnapshot), snapshot
    (job,) = snapshot.jobs
    return job


def reason_of(answer):
    assert isinstance(answer, Unknown), answer
    return answer.reason


def test_one_call_of_squeue_is_made_per_poll(programs_in):
    directory, make = programs_in
    source = make(squeue={"jobs": [stand_in.squeue_row()]})
    source.read_queue(NOW)
    source.read_queue(NOW)
    assert [call[0] for call in stand_in.read_calls(directory)] == ["scontrol", "squeue", "squeue"]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("Configuration data as of 1795242021", datetime(2026, 11, 21, 6, 20, 21, tzinfo=UTC)),
        ("Configuration data as of 2026-11-21T06:20:21", None),
        ("", None),
    ],
)
def test_the_controllers_time_is_what_its_configuration_is_dated_by(programs_in, head, told):
    _, make = programs_in
    answers = {"show config": f"{head}\nClusterName = lab\nBOOT_TIME = 1795242020\n"}
    found = make(squeue={"jobs": []}, scontrol={"answers": answers}).read_clock()
    if told:
        assert found == told
    else:
        assert reason_of(found).startswith(FailureReason.GARBLED)


def test_a_controller_that_does_not_answer_tells_no_time(programs_in):
    _, make = programs_in
    source = make(scontrol={"rc": 1, "stderr": "slurm_load_ctl_conf error: Unable to contact slurm controller\n"})
    assert reason_of(source.read_clock()).startswith(FailureReason.DOWN)


def test_a_refused_ping_at_the_end_of_the_configuration_is_no_failure(programs_in):
    _, make = programs_in
    text = "Configuration data as of 1795242021\nClusterName = lab\n\nSlurmctld(primary) at n1 is DOWN\n"
    source = make(squeue={"jobs": []}, scontrol={"answers": {"show config": text}, "rc": 1})
    assert source.read_clock() == datetime(2026, 11, 21, 6, 20, 21, tzinfo=UTC)
    assert source.read_queue(NOW) == QueueSnapshot(cluster="lab", polled_at=NOW, jobs=())


@pytest.mark.parametrize("returncode", [1, 2, 137])
@pytest.mark.parametrize("rest", ["", "SlurmUser = slurm(64030)\n"])
def test_a_configuration_without_its_end_is_not_used(programs_in, returncode, rest):
    _, make = programs_in
    answers = {"show config": f"Configuration data as of 1795242021\nClusterName = lab\n{rest}"}  # without PrivateData
    source = make(cluster="lab", squeue={"jobs": []}, scontrol={"answers": answers, "rc": returncode})
    assert f"exit status {returncode}" in reason_of(source.read_clock())
    assert f"exit status {returncode}" in reason_of(source.read_queue(NOW))


def test_the_separators_are_drawn_anew_for_each_call(programs_in):
    directory, make = programs_in
    source = make(cluster="lab", squeue={"jobs": []})
    source.read_queue(NOW)
    source.read_queue(NOW)
    first, second = (call[1][-1] for call in stand_in.read_calls(directory) if call[0] == "squeue")
    assert first != second


def test_a_queue_has_slurms_own_name_if_the_configured_one_differs_and_is_asked_once(programs_in):
    directory, make = programs_in
    source = make(cluster="other", only_user="alice", squeue={"jobs": []})
    found = QueueSnapshot(cluster="other", polled_at=NOW, jobs=(), slurm_name="lab")
    assert [source.read_queue(NOW) for _ in range(2)] == [found] * 2
    assert count_asked(directory) == 1
    assert make(cluster="Lab", only_user="alice", squeue={"jobs": []}).read_queue(NOW).slurm_name is None


def test_without_an_answer_the_configured_name_counts_and_is_not_checked_for_ever(programs_in):
    directory, make = programs_in
    source = make(cluster="other", only_user="alice", squeue={"jobs": []}, scontrol={"rc": 1})
    for _ in range(2 * MAX_CHECKS):
        assert source.read_queue(NOW) == QueueSnapshot(cluster="other", polled_at=NOW, jobs=())
    assert count_asked(directory) == MAX_CHECKS


def count_asked(directory):
    return len([call for call in stand_in.read_calls(directory) if call[1] == ["show", "config"]])


def test_a_sites_settings_do_not_change_the_output(programs_in, monkeypatch):
    directory, make = programs_in
    for name in ("SQUEUE_SORT", "SQUEUE_STATES", "SQUEUE_PARTITION", "SLURM_CLUSTERS", "SACCT_FORMAT", "LC_TIME"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    make(cluster="lab", squeue={"jobs": []}).read_queue(NOW)
    environment = stand_in.read_calls(directory)[0][2]
    assert not {"SQUEUE_SORT", "SQUEUE_STATES", "SQUEUE_PARTITION", "SLURM_CLUSTERS", "LC_TIME"} & environment.keys()
    assert [environment[name] for name in ("LC_ALL", "TZ", "SLURM_TIME_FORMAT")] == ["C", "UTC", "%s"]


@pytest.mark.parametrize("field", ["Name", "Comment", "Command", "admin_comment", "Dependency"])
def test_hostile_text_arrives_whole_and_changes_nothing_else(programs_in, field):
    _, make = programs_in
    job = read_only_job(make(squeue={"jobs": [stand_in.squeue_row(**{field: HOSTILE})]}))
    assert getattr(job, field.lower()) == HOSTILE
    assert (job.job_id, job.restart_count, job.state) == (7, 0, JobState.RUNNING)


# squeue passes on C strings: any byte but NUL. Bytes that are no UTF-8 are lone surrogates here.
BYTES = st.binary(max_size=60).map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(BYTES, min_size=1, max_size=5), comment=BYTES, path=BYTES)
def test_any_text_survives_the_way_through_squeue(programs_in, names, comment, path):
    _, make = programs_in
    rows = [
        stand_in.squeue_row(JobID=str(number + 1), Name=name, Comment=comment, WorkDir=f"/{path}")
        for number, name in enumerate(names)
    ]
    snapshot = make(cluster="lab", squeue={"jobs": rows}).read_queue(NOW)
    empty = queue_text.ABSENT
    assert [job.name for job in snapshot.jobs] == ["" if name in empty else name for name in names]
    assert {job.comment for job in snapshot.jobs} == {"" if comment in empty else comment}
    assert {job.work_dir for job in snapshot.jobs} == {PurePosixPath(f"/{path}")}


def test_a_guess_of_the_field_separator_is_refused_and_not_believed():
    separators = queue_text.Separators(b"|abc", b"|end")
    row = stand_in.squeue_row(Name="x|abcevil")
    record = b"|abc".join(row[name].encode() for name in queue_text.FIELDS) + b"|end\n"
    reader = queue_text.QueueReader("lab", separators, NOW)
    with pytest.raises(queue_text.GarbledError, match=f"{len(queue_text.FIELDS) + 1} fields"):
        reader.feed(record)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_output_may_arrive_in_any_pieces(size):
    separators = queue_text.Separators.draw()
    rows = [stand_in.squeue_row(JobID=str(number), Name="a\nb") for number in (1, 2, 3)]
    text = b"".join(
        separators.field.join(row[name].encode() for name in queue_text.FIELDS) + separators.record + b"\n"
        for row in rows
    )
    reader = queue_text.QueueReader("lab", separators, NOW)
    for start in range(0, len(text), size):
        reader.feed(text[start : start + size])
    assert list(reader.finish().jobs) == [1, 2, 3]


def test_pending_tasks_of_an_array_are_one_job_with_their_number(programs_in):
    _, make = programs_in
    tasks = [
        stand_in.squeue_row(JobID="3", ArrayJobID="3", ArrayTaskID=str(task), State="PENDING") for task in range(2, 6)
    ]
    running = stand_in.squeue_row(JobID="4", ArrayJobID="3", ArrayTaskID="0")
    snapshot = make(squeue={"jobs": [*tasks, running]}).read_queue(NOW)
    described = [(job.job_id, job.array_job_id, job.array_task_id, job.task_count) for job in snapshot.jobs]
    assert described == [(3, 3, None, 4), (4, 3, 0, 1)]


def test_waiting_tasks_are_read_from_one_record_and_a_requeued_one_from_its_own(programs_in):
    directory, make = programs_in
    rows = [
        stand_in.squeue_row(JobID="3", ArrayJobID="3", ArrayTaskID="2-4,6%2", State="PENDING"),
        stand_in.squeue_row(JobID="4", ArrayJobID="3", ArrayTaskID="0", State="PENDING", RestartCnt="1"),
        stand_in.squeue_row(JobID="8", ArrayJobID="8", ArrayTaskID="9%1", State="PENDING"),
    ]
    snapshot = make(squeue={"jobs": rows}).read_queue(NOW)
    jobs = sorted(snapshot.jobs, key=lambda job: job.job_id)
    described = [(job.job_id, job.array_task_id, job.task_count, job.array_task_limit) for job in jobs]
    assert described == [(3, None, 4, 2), (4, 0, 1, None), (8, 9, 1, 1)]
    assert [job.restart_count for job in jobs] == [0, 1, 0]
    _, _, environment = next(call for call in stand_in.read_calls(directory) if call[0] == "squeue")
    assert environment["SLURM_BITSTR_LEN"] == "0"
    assert environment["SQUEUE_ARRAY_UNIQUE"] == "1"


def test_only_the_first_poll_and_arrays_with_requeued_tasks_print_a_row_for_each_waiting_task(programs_in):
    directory, make = programs_in

    def row(job_id, task, state="PENDING", restarts="0"):
        return stand_in.squeue_row(JobID=job_id, ArrayJobID="3", ArrayTaskID=task, State=state, RestartCnt=restarts)

    running, other = row("4", "0", "RUNNING"), stand_in.squeue_row(JobID="9")
    each = [row("3", str(task)) for task in range(1, 5)]
    source = make(squeue={"jobs": [row("3", "1-4"), running, other], "each": [*each, running]})
    polls = [
        ([row("3", "1-4"), running, other], [*each, running]),  # the first
        ([row("3", "1-4"), running, other], None),
        (
            [row("3", "0-4"), other],
            [*each, row("4", "0", restarts="1")],
        ),  # 0 was requeued, squeue adds it
        ([row("3", "0,2-4"), row("5", "1", "RUNNING"), other], [*each[1:], row("4", "0", restarts="1"), row("5", "1")]),
        ([row("3", "2-4"), row("5", "1", "RUNNING"), row("4", "0", "RUNNING", "1"), other], None),
        ([row("3", "2-4"), row("5", "1", "RUNNING"), other], None),  # 4 is over
    ]
    described, asked = [], []
    for folded, separate in polls:
        stand_in.make_programs(directory, squeue={"jobs": folded, "each": separate})
        (directory / "calls").unlink(missing_ok=True)
        snapshot = source.read_queue(NOW)
        described.append(sorted((job.job_id, job.restart_count, job.task_count) for job in snapshot.jobs))
        calls = [argv for name, argv, _ in stand_in.read_calls(directory) if name == "squeue"]
        asked.append([[option for option in argv if option.startswith(("--array", "--jobs"))] for argv in calls])
    again = [[], ["--array", "--jobs=3"]]
    assert asked == [again, [[]], again, again, [[]], [[]]]
    assert described == [
        [(3, 0, 4), (4, 0, 1), (9, 0, 1)],
        [(3, 0, 4), (4, 0, 1), (9, 0, 1)],
        [(3, 0, 4), (4, 1, 1), (9, 0, 1)],
        [(3, 0, 3), (4, 1, 1), (5, 0, 1), (9, 0, 1)],
        [(3, 0, 3), (4, 1, 1), (5, 0, 1), (9, 0, 1)],
        [(3, 0, 3), (5, 0, 1), (9, 0, 1)],
    ]


def test_the_first_poll_counts_the_task_that_squeue_omits_where_it_prints_a_row_for_each(programs_in):
    """As squeue of 22.05 does: for `--array=1-100:7%2` it prints no row of the task 99."""
    _, make = programs_in

    def row(job_id, task, state="PENDING", restarts="0"):
        return stand_in.squeue_row(JobID=job_id, ArrayJobID="3", ArrayTaskID=task, State=state, RestartCnt=restarts)

    requeued = row("4", "8", restarts="1")
    each = [row("3", str(task)) for task in range(1, 99, 7) if task != 8]
    described = []
    for folded in ("1,15-99:7%2", "1-99:7%2"):  # the second one is of a release that adds a requeued task
        separate = folded.startswith("1,")
        plan = {"jobs": [row("3", folded), *([requeued] if separate else [])], "each": [*each, requeued]}
        jobs = make(squeue=plan).read_queue(NOW).jobs
        described.append([(job.job_id, job.task_count, job.array_task_limit, job.restart_count) for job in jobs])
    assert described == [[(3, 14, 2, 0), (4, 1, None, 1)]] * 2


def test_a_failed_query_of_arrays_with_requeued_tasks_is_unknown(programs_in):
    directory, make = programs_in
    task = stand_in.squeue_row(JobID="4", ArrayJobID="3", ArrayTaskID="0")
    rest = stand_in.squeue_row(JobID="3", ArrayJobID="3", ArrayTaskID="0-4", State="PENDING")
    source = make(squeue={"jobs": [task]})
    assert source.read_queue(NOW).jobs
    stand_in.make_programs(directory, squeue={"jobs": [rest], "each_fails": "slurm_load_jobs error: Socket timed out"})
    assert reason_of(source.read_queue(NOW)).startswith(FailureReason.TIMED_OUT)
    stand_in.make_programs(directory, squeue={"jobs": [rest], "each_fails": "error: Invalid job id specified"})
    assert source.read_queue(NOW).jobs == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [("0-4", {0, 1, 2, 3, 4}), ("7", {7}), ("1,3-9:3%2", {1, 3, 6, 9}), ("0-1,...", {0, 1}), ("x-y,", set())],
)
def test_the_tasks_that_an_expression_names_are_found(text, named):
    assert {task for task in range(12) if array_tasks.includes(text, task)} == named


def test_a_job_printed_twice_that_is_no_array_is_garbled(programs_in):
    _, make = programs_in
    row = stand_in.squeue_row()
    assert reason_of(make(squeue={"jobs": [row, row]}).read_queue(NOW)).startswith(FailureReason.GARBLED)


@pytest.mark.parametrize(
    ("fields", "limit", "left"),
    [
        ({"TimeLimit": "30:00", "TimeLeft": "20:00"}, timedelta(minutes=30), timedelta(minutes=20)),
        ({"TimeLimit": "UNLIMITED", "TimeLeft": "UNLIMITED", "EndTime": "NONE"}, None, None),
        ({"TimeLimit": "30:00", "TimeLeft": "INVALID", "EndTime": str(int(NOW.timestamp()) - 9)}, 1800, timedelta()),
        (
            {"TimeLimit": "INVALID", "TimeLeft": "INVALID", "EndTime": str(int(NOW.timestamp()) + 400 * 86400)},
            "until the end",
            timedelta(days=400),
        ),
        ({"TimeLimit": "NOT_SET", "TimeLeft": "NOT_SET", "State": "PENDING"}, None, None),
        ({"TimeLimit": "Partition_Limit", "TimeLeft": "INVALID", "State": "PENDING", "EndTime": "N/A"}, None, None),
        ({"TimeLimit": "30:00", "TimeLeft": "12:00", "State": "COMPLETED"}, 1800, None),
        ({"TimeLimit": "30:00", "TimeLeft": "29:00", "State": "SUSPENDED"}, 1800, timedelta(minutes=29)),
    ],
)
def test_time_left_is_told_in_every_case(programs_in, fields, limit, left):
    _, make = programs_in
    job = read_only_job(make(squeue={"jobs": [stand_in.squeue_row(**fields)]}))
    assert job.time_left == left
    if limit == "until the end":
        assert job.time_limit == job.ends_at - job.started_at
    else:
        assert job.time_limit == (timedelta(seconds=limit) if isinstance(limit, int) else limit)


def test_an_unknown_state_word_is_unknown_and_no_error(programs_in):
    _, make = programs_in
    assert read_only_job(make(squeue={"jobs": [stand_in.squeue_row(State="NEWEST")]})).state is JobState.UNKNOWN


def test_a_job_that_did_not_change_is_the_same_object_in_the_next_snapshot(programs_in):
    directory, make = programs_in
    rows = [stand_in.squeue_row(JobID="1"), stand_in.squeue_row(JobID="2")]
    source = make(cluster="lab", squeue={"jobs": rows})
    first = source.read_queue(NOW)
    rows[1] |= {"TimeLeft": "19:00"}
    stand_in.write_plan(directory, squeue={"jobs": rows})
    second = source.read_queue(NOW)
    assert second.jobs[0] is first.jobs[0]
    assert second.jobs[1].time_left == timedelta(minutes=19)


def test_time_left_that_is_reckoned_from_now_is_reckoned_anew(programs_in):
    _, make = programs_in
    row = stand_in.squeue_row(TimeLimit="INVALID", TimeLeft="INVALID", EndTime=str(int(NOW.timestamp()) + 10**8))
    source = make(cluster="lab", squeue={"jobs": [row]})
    first = read_only_job(source)
    (second,) = source.read_queue(NOW + timedelta(minutes=5)).jobs
    assert first.time_left - second.time_left == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("plan", "trouble"),
    [
        ({"rc": 1, "stderr": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}, "DOWN"),
        ({"rc": 1, "stderr": "slurm_load_jobs error: Socket timed out on send/recv operation"}, "TIMED_OUT"),
        ({"rc": 1, "stderr": "squeue: error: Munge encode failed: Failed to access socket"}, "NOT_PERMITTED"),
        ({"rc": 1, "stderr": "slurm_load_jobs error: Access/permission denied"}, "NOT_PERMITTED"),
        ({"rc": 1, "stderr": "slurm_load_jobs error: something else"}, "FAILED"),
        ({"rc": 0, "stderr": "slurm_load_jobs error: Unable to contact slurm controller"}, "DOWN"),
        ({"rc": 0, "stdout": "JOBID PARTITION\n7 main\n"}, "GARBLED"),
        ({"rc": 0, "jobs": [stand_in.squeue_row()], "unknown_fields": ["RestartCnt"]}, "GARBLED"),
        ({"rc": 0, "jobs": [stand_in.squeue_row(RestartCnt="many")]}, "GARBLED"),
        ({"rc": 1, "jobs": [stand_in.squeue_row()], "stderr": "error: Zero Bytes were transmitted"}, "FAILED"),
    ],
)
def test_each_trouble_is_told_apart(programs_in, plan, trouble):
    _, make = programs_in
    assert reason_of(make(cluster="lab", squeue=plan).read_queue(NOW)).startswith(FailureReason[trouble])


def test_a_program_that_hangs_is_given_up_and_ended(programs_in):
    _, make = programs_in
    source = make(cluster="lab", timeout_seconds=0.5, squeue={"hang": True})
    assert reason_of(source.read_queue(NOW)).startswith(FailureReason.TIMED_OUT)


def test_a_missing_program_is_named(tmp_path, monkeypatch, programs_in):
    _, make = programs_in
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    source = make(cluster="lab")
    assert reason_of(source.read_queue(NOW)) == f"{FailureReason.MISSING}: squeue is not on PATH"


def test_no_jobs_is_an_empty_queue(programs_in):
    _, make = programs_in
    assert make(squeue={"jobs": []}).read_queue(NOW) == QueueSnapshot(cluster="lab", polled_at=NOW, jobs=())


def test_a_plugins_remark_beside_sound_records_is_no_trouble(programs_in):
    _, make = programs_in
    plan = {"jobs": [stand_in.squeue_row()], "stderr": "squeue: error: spank: old option ignored\n"}
    assert read_only_job(make(squeue=plan)).job_id == 7


def test_a_recording_reads_back_as_the_poll_it_was(programs_in, tmp_path):
    _, make = programs_in
    source = make(squeue={"jobs": [stand_in.squeue_row(Name=HOSTILE), stand_in.squeue_row(JobID="8")]})
    polled = source.read_queue(NOW)
    path = tmp_path / "1.squeue"
    assert record_queue(path, NOW) is None
    assert read_snapshot(path, NOW) == polled


def test_a_recording_that_fails_leaves_no_file(programs_in, tmp_path):
    _, make = programs_in
    make(squeue={"rc": 1, "stderr": "error: Unable to contact slurm controller"})
    assert reason_of(record_queue(tmp_path / "1.squeue", NOW)).startswith(FailureReason.DOWN)
    assert not (tmp_path / "1.squeue").exists()
