from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import JobState, PastJobs, Unknown
from ckptd.slurm import past_jobs, queue_text, times
from ckptd.slurm.past_jobs import PastReader
from slurm import stand_in

SINCE = times.from_epoch(1795000000)
UNTIL = times.from_epoch(1795003600)
OLD = {"unknown_fields": ["Restarts"]}  # 22.05
DISABLED = {"rc": 1, "stderr": "Slurm accounting storage is disabled\n"}
DOWN = {"rc": 1, "stderr": "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection\n"}


def read(make, *rows, since=SINCE, until=UNTIL, **step):
    return make(cluster="lab", sacct={"past": list(rows), **step}).read_past(since, until)


@pytest.fixture
def make(programs_in):
    return programs_in[1]


def test_all_that_a_job_was_is_told(make):
    row = stand_in.sacct_row(
        JobIDRaw="9", JobID="2_1", State="CANCELLED by 0", Suspended="00:00:09", Comment="ckpt=x", Restarts="2"
    )
    (each,) = read(make, row).jobs
    job = each.job
    assert (job.job_id, job.array_job_id, job.array_task_id, job.het_job_id) == (9, 2, 1, None)
    assert (job.user, job.uid, job.account, job.partition, job.qos, job.name) == (
        "alice", 1000, "lab", "main", "normal", "train",
    )  # fmt: skip
    assert (job.cluster, job.state, job.time_limit) == ("lab", JobState.CANCELLED, timedelta(minutes=30))
    assert [job.submitted_at, each.started_at, each.ended_at] == [
        times.from_epoch(1795000000 + seconds) for seconds in (0, 100, 200)
    ]
    assert (job.work_dir, job.comment, job.node_list) == (PurePosixPath("/home/alice"), "ckpt=x", "n1")
    assert (job.node_count, job.cpu_count, job.gpu_count, job.is_batch) == (1, 2, 1, True)
    assert (each.restart_count, each.suspended) == (2, timedelta(seconds=9))


def test_a_slurm_that_does_not_know_newer_fields_is_asked_for_the_others(make):
    (each,) = read(make, stand_in.sacct_row(), **OLD).jobs
    assert each.restart_count is None
    (each,) = read(make, stand_in.sacct_row(), unknown_fields=["Restarts", "SubmitLine"]).jobs
    assert each.job.is_batch
    answer = read(make, stand_in.sacct_row(), unknown_fields=["JobIDRaw"])
    assert isinstance(answer, Unknown)


@pytest.mark.parametrize("line", ["salloc -N1", "/usr/bin/srun -n 4 a.out"])
def test_what_was_no_script_is_none(make, line):
    (each,) = read(make, stand_in.sacct_row(SubmitLine=line)).jobs
    assert not each.job.is_batch


@pytest.mark.parametrize(
    "fields",
    [
        {"Start": "None", "NodeList": "None assigned", "State": "CANCELLED by 1000"},
        {"Start": "1795000200", "NodeList": "None assigned"},
        {"JobID": "7_[2-9]", "Start": "Unknown", "NodeList": "None assigned"},
        {"UID": "4294967294"},
        {"UID": ""},
        {"JobIDRaw": "4294967294", "JobID": "4294967294"},  # another cluster's of a federation
    ],
)
def test_what_never_ran_and_what_is_nobodys_is_left_out(make, fields):
    assert read(make, stand_in.sacct_row(**fields)).jobs == ()


@pytest.mark.parametrize(("shown", "limit"), [("UNLIMITED", None), ("Partition_Limit", None), ("", None), ("90", 90)])
def test_limits_are_minutes_or_none(make, shown, limit):
    (each,) = read(make, stand_in.sacct_row(TimelimitRaw=shown)).jobs
    assert each.job.time_limit == (limit and timedelta(minutes=limit))


def test_the_parts_of_a_heterogeneous_job_are_one(make):
    rows = [
        stand_in.sacct_row(JobIDRaw="6", JobID="6+0"),
        stand_in.sacct_row(JobIDRaw="7", JobID="6+1", NNodes="3", NCPUS="12"),
        stand_in.sacct_row(JobIDRaw="8", JobID="5+1"),  # whose first part is not told
    ]
    (each,) = read(make, *rows).jobs
    assert (each.job.job_id, each.job.node_count, each.job.cpu_count, each.job.gpu_count) == (6, 4, 14, 2)


def test_only_the_time_asked_about_is_asked_for_and_only_ends(programs_in):
    directory, make = programs_in
    read(make)
    [arguments] = [arguments for name, arguments, _ in stand_in.read_calls(directory) if name == "sacct"]
    asked = dict(pairwise(arguments))
    assert (asked["--starttime"], asked["--endtime"]) == ("2026-11-18T11:06:40", "2026-11-18T12:06:41")
    assert {"--allusers", "--duplicates", "--allocations", "--local"} <= set(arguments)
    assert "R" not in asked["--state"].split(",")


def test_a_daemon_of_one_user_asks_for_that_users_jobs(programs_in):
    directory, make = programs_in
    make(cluster="lab", only_user="alice", sacct={"past": []}).read_past(SINCE, UNTIL)
    [arguments] = [arguments for name, arguments, _ in stand_in.read_calls(directory) if name == "sacct"]
    assert "--user=alice" in arguments
    assert "--allusers" not in arguments


HOSTILE = [
    "a|b",
    "line\nbreak",
    "\n9|9|0|COMPLETED|1|2|3",
    "\x1f\x1e\r\t",
    "caf\udce9",
    "|" * 30 + "\n" + "|" * 30,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_looks_like_a_row_stays_in_its_field(make, text):
    rows = [
        stand_in.sacct_row(JobName=text, Comment=text, AdminComment=text, WorkDir=f"/{text}", SubmitLine=text),
        stand_in.sacct_row(JobIDRaw="8", JobID="8", UID="2000", User="bob"),
    ]
    eve, bob = read(make, *rows).jobs
    assert (eve.job.uid, eve.job.name, eve.job.comment, eve.job.admin_comment) == (1000, text, text, text)
    assert eve.job.work_dir == PurePosixPath(f"/{text}")
    assert (bob.job.job_id, bob.job.uid, bob.job.name) == (8, 2000, "train")


TEXT = st.text(st.characters(exclude_characters="\0"), max_size=30).map(
    lambda text: text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=5), st.integers(1, 40))
def test_any_text_in_any_pieces_is_read_as_it_was_written(texts, size):
    reader = PastReader("lab", past_jobs.NEWER_FIELDS)
    output = b""
    for number, (name, comment, line) in enumerate(texts, 1):
        row = stand_in.sacct_row(
            JobIDRaw=str(number), JobID=str(number), JobName=name, Comment=comment, SubmitLine=line
        )
        fields = (row[field].encode("utf-8", "surrogateescape") for field in reader.fields)
        output += b"".join(field + reader.delimiter for field in fields) + b"\n"
    for start in range(0, len(output), size):
        reader.feed(output[start : start + size])
    assert [(each.job.name, each.job.comment) for each in reader.finish()] == [text[:2] for text in texts]


def test_two_calls_never_have_the_same_delimiter():
    assert len({PastReader("lab").delimiter for _ in range(50)}) == 50


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text, end: text[:-9],  # cut short
        lambda text, end: text.replace(b"train", b"tr" + end + b"ain"),  # a delimiter that was guessed
        lambda text, end: text + b"sacct: error: gone",
        lambda text, end: text.replace(b"FAILED", b"FAILED" + end),
        lambda text, end: text.replace(b"\n7", b"77", 1),  # a row that begins on no line of its own
        lambda text, end: text.replace(b"1795000100", b"soon"),
        lambda text, end: text.replace(end + b"30" + end, end + b"18446744073709551614" + end),  # beyond any duration
        lambda text, end: text.replace(b"7" + end + b"7", b"7" + end + b"seven"),
    ],
)
def test_rows_of_another_form_are_refused_whole(spoil):
    reader = PastReader("lab")
    row = stand_in.sacct_row()
    text = (b"".join(row[name].encode() + reader.delimiter for name in reader.fields) + b"\n") * 2

    def read_all():
        reader.feed(spoil(text, reader.delimiter))
        reader.finish()

    with pytest.raises(queue_text.GarbledError):
        read_all()


def rows_at(*seconds):
    return [
        stand_in.sacct_row(JobIDRaw=str(n), JobID=str(n), End=str(1795000100 + at)) for n, at in enumerate(seconds, 1)
    ]


def read_on(source):
    """Ask until all of the time was told; return the answers."""
    answers = []
    while not answers or answers[-1].until < UNTIL:
        since = answers[-1].until if answers else SINCE
        answers.append(source.read_past(since, UNTIL))
        assert since < answers[-1].until <= UNTIL
    return answers


def test_of_too_many_the_earlier_part_of_the_time_is_told(make, monkeypatch):
    monkeypatch.setattr(past_jobs, "MAX_ROWS", 4)
    answers = read_on(make(cluster="lab", sacct={"past": rows_at(*range(0, 3200, 100))}))
    assert max(len(answer.jobs) for answer in answers) <= 4
    assert {each.job.job_id for answer in answers for each in answer.jobs} == set(range(1, 33))


def test_too_many_bytes_are_too_much_as_well(make, monkeypatch):
    source = make(cluster="lab", sacct={"past": rows_at(0, 3000)})
    assert [len(answer.jobs) for answer in read_on(source)] == [2]
    monkeypatch.setattr(past_jobs, "MAX_BYTES", 1000)
    answers = read_on(source)
    assert max(len(answer.jobs) for answer in answers) == 1
    assert {each.job.job_id for answer in answers for each in answer.jobs} == {1, 2}


def test_of_more_than_an_answer_holds_in_one_second_some_are_told(make, monkeypatch):
    monkeypatch.setattr(past_jobs, "MAX_ROWS", 4)
    answers = read_on(make(cluster="lab", sacct={"past": rows_at(*[0] * 9)}))
    assert max(len(answer.jobs) for answer in answers) == 4


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (DISABLED, "program missing: this cluster keeps no accounting"),
        (DOWN, "failed: sacct: error: slurm_persist_conn_open_without_init"),
        ({"rc": 0, "stderr": "sacct: error: Problem talking to the database: Connection refused\n"}, "slurmctld does"),
        ({"stdout": "7|7|1000"}, "garbled output"),
    ],
)
def test_where_accounting_does_not_answer_it_is_unknown(make, step, reason):
    answer = make(cluster="lab", sacct=step).read_past(SINCE, UNTIL)
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(reason)


def test_a_hung_database_is_unknown_in_time(make):
    answer = make(cluster="lab", sacct={"hang": True, "past": []}, timeout_seconds=0.5).read_past(SINCE, UNTIL)
    assert answer.reason.startswith("timed out")


@pytest.mark.parametrize(
    ("private", "level", "uid", "is_whole"),
    [
        ("jobs,usage", "None", "1000", False),
        ("jobs,usage", "None", "2000", True),  # another's job is shown
        ("jobs,usage", "Operator", "1000", True),
        ("none", "None", "1000", True),
    ],
)
def test_hidden_jobs_are_not_taken_for_none(make, monkeypatch, private, level, uid, is_whole):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    said = {"--noheader show": f"PrivateData = {private}\nSlurmUser = slurm(64030)\n"}
    sacctmgr = {"answers": said, "stdout": f"{level}\n"}
    rows = [stand_in.sacct_row(UID=uid)]
    answer = make(cluster="lab", sacctmgr=sacctmgr, sacct={"past": rows}).read_past(SINCE, UNTIL)
    assert isinstance(answer, PastJobs) is is_whole
    assert is_whole or answer.reason.startswith("not permitted")


def test_instants_are_asked_for_in_utc(programs_in):
    directory, make = programs_in
    berlin = datetime.fromisoformat("2026-11-18T12:06:40+01:00")
    read(make, since=berlin, until=UNTIL.astimezone(UTC))
    [arguments] = [arguments for name, arguments, _ in stand_in.read_calls(directory) if name == "sacct"]
    assert arguments[arguments.index("--starttime") + 1] == "2026-11-18T11:06:40"
