"""Which locations only nodes see, when they are scanned, and what is believed of what a step says."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import (
    Checkpoint,
    CheckpointState,
    FileIdentity,
    Grouping,
    Job,
    JobState,
    Level,
    RunKey,
    checkpoint_json,
)
from ckptd.core.node_scans import due_scans, step_policy, step_result
from ckptd.core.node_scans.due_scans import TriedScan
from ckptd.core.node_scans.node_directories import find_on_nodes, is_on_nodes
from ckptd.core.node_scans.step_policy import NodeScanPolicy

NOW = datetime(2026, 11, 26, tzinfo=UTC)
HERE = PurePosixPath("/local/ck")
UID = 1000


@pytest.mark.parametrize(
    ("path", "is_below"),
    [("/local", True), ("/local/a", True), ("/localx", False), ("/", False), ("/home/local", False)],
)
def test_a_location_is_on_nodes_if_it_is_below_a_directory_that_only_they_see(path, is_below):
    assert is_on_nodes(path, ("/nvme", "/local")) is is_below


@pytest.mark.parametrize(
    ("work_dir", "path", "found"),
    [
        ("/home/a", "/local/ck", "/local/ck"),
        ("/home/a", "/local//x/../ck/", "/local/ck"),
        ("/home/a", "/local/../home/a", None),
        ("/home/a", "ck", None),
        ("/local/a", "ck", "/local/a/ck"),
        ("/local/a", "../../etc", None),
        (None, "ck", None),
        ("/home/a", "", None),
        ("/home/a", "/local/$JOB", None),
        ("/home/a", "/local/a\0b", None),
    ],
)
def test_what_a_job_names_is_resolved_by_its_text_alone(work_dir, path, found):
    assert find_on_nodes(work_dir, path, ("/local",)) == found


def test_the_command_asks_for_one_task_that_takes_nothing_from_the_job():
    policy = NodeScanPolicy(partitions=("*",), seconds=90, python="/opt/bin/python3")
    argv = step_policy.plan_step(policy, 7, "n1", {"directory": "/local/a b;'"})
    assert argv[:2] == ["srun", "--overlap"]
    assert {"--jobid=7", "--nodelist=n1", "--mem=0", "--gres=none", "--ntasks=1", "--time=2"} <= set(argv)
    assert json.loads(argv[-1]) == {"directory": "/local/a b;'", "seconds": 90}


def key(name, uid=UID):
    return RunKey("c1", uid, f"/local/{name}")


def job(job_id, *, state=JobState.RUNNING, restart_count=0, uid=UID):
    return Job(cluster="c1", job_id=job_id, user="u", uid=uid, state=state, restart_count=restart_count)


def list_due(jobs, tried=None, minutes=30):
    found = due_scans.list_due([run for run, _ in jobs], jobs, tried or {}, timedelta(minutes=minutes), NOW)
    return {run.directory: job.job_id for run, job in found.jobs.items()}


def test_a_run_is_due_once_in_an_interval_and_at_once_for_another_attempt():
    pair = (key("a"), job(1))
    assert list_due([pair]) == {"/local/a": 1}
    for minutes, is_due in ((0, False), (29, False), (30, True), (-5, True)):  # -5: the clock was set back
        tried = {key("a"): TriedScan((1, 0), NOW - timedelta(minutes=minutes))}
        assert bool(list_due([pair], tried)) is is_due
    tried = {key("a"): TriedScan((1, 0), NOW)}
    assert list_due([(key("a"), job(1, restart_count=1))], tried) == {"/local/a": 1}


def test_each_owner_has_one_turn_and_who_waited_longest_for_one_goes_first():
    jobs = [(key("a"), job(1)), (key("b"), job(2)), (key("c", 7), job(3, uid=7))]
    tried = {
        key("a"): TriedScan((1, 0), NOW - timedelta(hours=1)),
        key("b"): TriedScan((2, 0), NOW - timedelta(hours=2)),
    }
    assert list_due(jobs, tried) == {"/local/c": 3, "/local/b": 2}


def test_an_owner_of_many_new_jobs_does_not_delay_the_others():
    """However long each step takes: who had a turn a moment ago comes last."""
    tried = {}
    jobs = [(key(f"many{number:02}"), job(number + 1)) for number in range(50)]
    jobs += [(key("z", uid), job(uid, uid=uid)) for uid in (2000, 3000)]
    order = []
    for at in range(6):
        now = NOW + timedelta(minutes=at)
        found = due_scans.list_due([run for run, _ in jobs], jobs, tried, timedelta(minutes=30), now)
        run = next(iter(found.jobs))
        order.append(run.uid)
        tried[run] = TriedScan((found.jobs[run].job_id, 0), now)
    assert order == [UID, 2000, 3000, UID, UID, UID]


def test_without_a_single_running_job_there_is_no_node_to_ask():
    assert list_due([(key("a"), job(1, state=JobState.PENDING))]) == {}
    pairs = [(key("a"), job(1)), (key("a"), job(2))]
    found = due_scans.list_due([key("a")], pairs, {}, timedelta(minutes=30), NOW)
    assert (found.jobs, found.ambiguous) == ({}, {key("a"): ("1", "2")})


def checkpoint(name="epoch_3.pt", **changes):
    values = {
        "path": HERE / name,
        "format": "torch",
        "files": (name,),
        "identities": (FileIdentity(1, 2, 100, 3, 4),),
        "owner_uids": frozenset({UID}),
        "size_bytes": 100,
        "modified_at": datetime(2026, 11, 25, 1, 2, 3, 456789, tzinfo=UTC),
        "state": CheckpointState.COMPLETE,
        "level": Level.STRUCTURE,
        "epoch": 3,
        "metrics": {"loss": 0.25},
        "grouping": Grouping(series="epoch_#.pt", progress=(3,)),
    }
    return Checkpoint(**{**values, **changes})


def document(*checkpoints, **changes):
    encoded = [checkpoint_json.encode_checkpoint(each) for each in checkpoints]
    scan = {"checkpoints": encoded, "problems": [], "free_bytes": 5, "total_bytes": 9, "filesystem_type": "xfs"}
    return {**json.loads(step_result.encode_result(scan)), **changes}


def decode(given):
    data = json.dumps(given).encode() if not isinstance(given, bytes) else given
    return step_result.decode_result(step_result.parse_document(data), HERE, UID)


def test_what_the_program_prints_is_read_as_it_was_found():
    found = decode(document(checkpoint(), checkpoint("epoch_4.pt")))
    assert found.checkpoints == (checkpoint(), checkpoint("epoch_4.pt"))
    assert (found.free_bytes, found.total_bytes, found.filesystem_type) == (5, 9, "xfs")


def test_what_a_task_prolog_prints_before_is_no_part_of_it():
    assert decode(b"module load x\n" + json.dumps(document()).encode() + b"\n").free_bytes == 5


def test_a_reason_of_the_program_is_the_reason():
    with pytest.raises(step_result.StepResultError, match="could not read it: Permission denied"):
        decode(step_result.encode_failure("Permission denied"))


def test_files_of_other_users_are_left_out_and_that_is_said():
    found = decode(document(checkpoint(), checkpoint("epoch_4.pt", owner_uids=frozenset({0, UID}))))
    assert [each.path.name for each in found.checkpoints] == ["epoch_3.pt"]
    assert found.problems[0].reason == "1 have files of other users"


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[" * 100_000,
        b"\xff",
        b'{"version": 1, "version": 1}',
        b'{"version": NaN}',
        b'{"version": 1e999}',
        [],
        3,
        {"version": 1},
        {"version": 1, "unknown": 7},
        {"version": 1, "unknown": "x" * 5000},
        document(version=2),
        document(more=1),
        document(checkpoints={}),
        document(checkpoints=[3]),
        document(problems=[["x"]]),
        document(problems=[["x", 3]]),
        document(problems=[["x", "\ud800"]]),
        document(problems=[["x", "y"]] * 100),
        document(free_bytes=-1),
        document(free_bytes=True),
        document(free_bytes=2**63),
        document(filesystem_type=3),
        document(checkpoint(), checkpoint()),
        document(*[checkpoint(f"{number}.pt") for number in range(2001)]),
    ],
)
def test_a_result_of_any_other_form_is_refused_whole(given):
    with pytest.raises(step_result.StepResultError):
        decode(given)


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "/etc/passwd"},
        {"path": "/local/ck"},
        {"path": "/local/ck/../../etc/x"},
        {"path": "/local/ckx/a"},
        {"path": "/local/ck/a\0b"},
        {"path": "/local/ck/a\ud800b"},
        {"path": "/local/ck/" + "x" * 5000},
        {"path": 3},
        {"files": ["/etc/passwd"]},
        {"files": ["../x"]},
        {"files": []},
        {"files": "ab"},
        {"identities": [[1, 2, -100, 3, 4]]},
        {"identities": [[1, 2, 3]]},
        {"identities": [[1, 2, "100", 3, 4]]},
        {"owner_uids": ["1000"]},
        {"size_bytes": -1},
        {"size_bytes": 2**64},
        {"size_bytes": "100"},
        {"modified_at": 1e300},
        {"modified_at": "now"},
        {"state": "pruned"},
        {"level": "full"},
        {"epoch": 10**30},
        {"epoch": "3"},
        {"metrics": {"loss": "0.1"}},
        {"is_pinned": True},
        {"verified_full_at": 1},
        {"parts": [{}]},
        {"grouping": {"doubt": 3}},
        {"grouping": {"other": 3}},
        {"reason": {"a": 1}},
    ],
)
def test_a_hostile_field_of_a_checkpoint_refuses_the_result(changes):
    given = document(checkpoint())
    given["checkpoints"][0].update(changes)
    with pytest.raises(step_result.StepResultError):
        decode(given)


def test_parts_are_checked_like_checkpoints():
    whole = checkpoint(parts=(checkpoint("epoch_3.a"), checkpoint("epoch_3.b")))
    assert decode(document(whole)).checkpoints == (whole,)
    given = document(whole)
    given["checkpoints"][0]["parts"][1]["path"] = "/etc/passwd"
    with pytest.raises(step_result.StepResultError):
        decode(given)


def test_on_a_job_of_several_nodes_nothing_is_damaged_for_sure():
    damaged = checkpoint("epoch_4.pt", state=CheckpointState.DAMAGED, reason="cut off")
    result = decode(document(checkpoint(), damaged))
    alone = step_result.make_scan(result, HERE, "n1", 1, NOW)
    assert [each.state for each in alone.checkpoints] == [CheckpointState.COMPLETE, CheckpointState.DAMAGED]
    several = step_result.make_scan(result, HERE, "n1", 4, NOW)
    assert [each.state for each in several.checkpoints] == [CheckpointState.COMPLETE, CheckpointState.UNKNOWN]
    assert several.checkpoints[1].reason == "only n1 of 4 nodes was scanned, and the others may have the rest"
