import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.core.model import JobState, QueueSnapshot, Unknown
from ckptd.slurm import array_tasks, queue_json
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.replay import ReplaySource, list_snapshots

DATA = Path(__file__).parent.parent / "data" / "slurm"
NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
AGAIN = 18


def test_a_recorded_requeue_is_played_in_order_and_its_end_is_remembered():
    source = ReplaySource(DATA / "22.05.8")
    seen = []
    for _ in range(5):
        jobs = {job.job_id: job for job in source.read_queue(NOW).jobs}
        seen.append((jobs[AGAIN].state, jobs[AGAIN].restart_count))
    assert seen[0] == (JobState.RUNNING, 0)
    assert seen[1][1] == 1
    assert seen[2] == (JobState.PENDING, 1)
    assert seen[4] == (JobState.CANCELLED, 1)
    (ended,) = source.read_ended([AGAIN], NOW - timedelta(days=1))
    assert ended.state is JobState.CANCELLED


def test_hostile_text_of_a_real_job_arrives_whole():
    jobs = ReplaySource(DATA / "22.05.8").read_queue(NOW).jobs
    (evil,) = (job for job in jobs if job.name.startswith("evil"))
    assert evil.name == "evil\x1f|Restarts=99\nJobId=1"
    assert evil.comment == "line1\nline2\udcff\x1e"
    assert evil.restart_count == 0


def test_a_recording_of_before_command_lines_were_asked_for_is_still_played(tmp_path):
    old = (DATA / "22.05.8/1-running.squeue").read_bytes()
    assert b'"Command"' not in old
    assert {job.command for job in ReplaySource(DATA / "22.05.8").read_queue(NOW).jobs} == {""}
    head, _, rest = old.partition(b"\n")
    header = json.loads(head)
    header["fields"].remove("Name")
    (tmp_path / "1.squeue").write_bytes(json.dumps(header).encode() + b"\n" + rest)
    answer = ReplaySource(tmp_path).read_queue(NOW)
    assert isinstance(answer, Unknown)
    assert "another version" in answer.reason


def test_the_words_of_a_job_without_a_script_file_are_its_command_line():
    document = json.loads((DATA / "26.05.5/squeue.json").read_text())
    row = document["jobs"][0] | {"command": "", "submit_line": "sbatch --wrap python train.py --resume epoch_3.pt"}
    (job,) = queue_json.parse(json.dumps(document | {"jobs": [row]}), NOW).jobs
    assert job.command == "sbatch --wrap python train.py --resume epoch_3.pt"
    (job,) = queue_json.parse(json.dumps(document | {"jobs": [row | {"command": "/home/a/t.sh x"}]}), NOW).jobs
    assert job.command == "/home/a/t.sh x"


def test_what_another_cluster_of_a_federation_runs_has_no_number_and_is_left_out(tmp_path):
    """Slurm prints it twice over, with its word for no value in the place of its number."""
    text = (DATA / "22.05.8/federation/other.squeue").read_bytes()
    assert text.count(b"4294967294|ZIzGhq4294967294") == 2
    (tmp_path / "1.squeue").write_bytes(text)
    (job,) = ReplaySource(tmp_path).read_queue(NOW).jobs
    assert (job.job_id, job.state, job.restart_count) == (67108865, JobState.RUNNING, 1)
    document = json.loads((DATA / "22.05.8/squeue.json").read_text())
    count = len(queue_json.parse(json.dumps(document), NOW).jobs)
    document["jobs"] += [{**document["jobs"][0], "job_id": None, "job_state": "REVOKED"}] * 2
    assert len(queue_json.parse(json.dumps(document), NOW).jobs) == count


@pytest.mark.parametrize("version", ["22.05.8", "24.11.5", "26.05.5"])
def test_each_shape_of_json_tells_the_same(version):
    text = (DATA / version / "squeue.json").read_text()
    jobs = {job.job_id: job for job in queue_json.parse(text, NOW).jobs}
    assert jobs[1].time_limit == timedelta(minutes=30)
    assert jobs[1].ends_at - jobs[1].started_at == timedelta(minutes=30)
    assert jobs[3].time_limit is None
    assert jobs[3].ends_at is None
    assert (jobs[8].array_job_id, jobs[8].array_task_id) == (4, 0)
    assert (jobs[4].array_task_id, jobs[4].task_count, jobs[4].array_task_limit) == (None, 4, 2)
    assert jobs[5].state is JobState.PENDING


def test_snapshots_play_in_the_order_of_their_numbers_and_the_last_stays(tmp_path):
    for number in (10, 2, 1):
        document = {"errors": [], "meta": {"slurm": {"cluster": f"c{number}"}}, "jobs": []}
        (tmp_path / f"queue-{number}.json").write_text(json.dumps(document))
    (tmp_path / "README").write_text("not a snapshot")
    assert [path.stem for path in list_snapshots(tmp_path)] == ["queue-1", "queue-2", "queue-10"]
    source = ReplaySource(tmp_path)
    assert [source.read_queue(NOW).cluster for _ in range(4)] == ["c1", "c2", "c10", "c10"]


@pytest.mark.parametrize(
    ("name", "text", "trouble"),
    [
        ("1.json", '{"errors": [{"error": "Unable to contact slurm controller"}], "jobs": []}', FailureReason.DOWN),
        ("1.json", "{", FailureReason.GARBLED),
        ("1.json", "[]", FailureReason.GARBLED),
        ("1.json", '{"errors": [], "jobs": [{"job_id": 1}]}', FailureReason.GARBLED),
        ("1.squeue", "no header\n", FailureReason.GARBLED),
        ("1.squeue", '{"fields": ["JobID"]}\n', FailureReason.GARBLED),
    ],
)
def test_a_poll_in_trouble_is_unknown_and_the_next_one_counts_again(tmp_path, name, text, trouble):
    (tmp_path / name).write_text(text)
    (tmp_path / "2.json").write_bytes((DATA / "24.11.5" / "squeue.json").read_bytes())
    source = ReplaySource(tmp_path)
    answer = source.read_queue(NOW)
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(trouble)
    assert not source.is_answering()
    assert isinstance(source.read_queue(NOW), QueueSnapshot)


def test_an_empty_directory_is_unknown(tmp_path):
    assert isinstance(ReplaySource(tmp_path).read_queue(NOW), Unknown)


def test_a_cut_recording_is_garbled(tmp_path):
    recorded = (DATA / "22.05.8" / "1-running.squeue").read_bytes()
    (tmp_path / "1.squeue").write_bytes(recorded[:-40])
    answer = ReplaySource(tmp_path).read_queue(NOW)
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(FailureReason.GARBLED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, 1)),
        ("4", (4, 1)),
        ("0-4%2", (None, 5)),
        ("0-9:3", (None, 4)),
        ("1-1000:7%50", (None, 143)),
        ("0-9:0", (None, 10)),  # no Slurm prints this
        ("1,3,5-6%1", (None, 4)),
        ("1,3,...", (None, 2)),
        ("7,...", (None, 1)),
        ("0-9,1...", (None, 10)),
    ],
)
def test_the_tasks_of_an_array_are_counted(text, expected):
    assert array_tasks.parse(text)[:2] == expected


def test_a_directory_that_cannot_be_read_is_unknown(tmp_path):
    source = ReplaySource(tmp_path / "gone", cluster="c")
    assert isinstance(source.read_queue(datetime(2026, 11, 20, tzinfo=UTC)), Unknown)
