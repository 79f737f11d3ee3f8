"""Verification jobs: their tasks, their command line, and how far they have come."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import CheckpointState, JobState, Level
from ckptd.core.runs import progress
from ckptd.core.verification.followed_tasks import RESULT_DELAY, judge_tasks
from ckptd.core.verification.job_policy import VerifyJobPolicy, format_script, plan_submission
from ckptd.core.verification.split_tasks import split_tasks
from ckptd.core.verification.ticket import VerificationTicket
from support.queue_facts import RUN, at, make_checkpoint, make_scan, merge

POLICY = VerifyJobPolicy(
    partition="verify", account="storage", qos="low", time_limit_minutes=30, nice=500, max_running=2, python="/o/python"
)
RUNNING, PENDING, COMPLETED = JobState.RUNNING, JobState.PENDING, JobState.COMPLETED
FAILED, CANCELLED = JobState.FAILED, JobState.CANCELLED


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 8), st.integers(1, 60))
def test_every_piece_is_in_exactly_one_task_and_no_task_is_empty(sizes, most, least):
    pieces = [make_checkpoint(f"{place}.pt", size_bytes=size) for place, size in enumerate(sizes)]
    tasks = split_tasks(pieces, most, least)
    assert sorted(piece.path for task in tasks for piece in task) == sorted(piece.path for piece in pieces)
    assert all(tasks)
    assert len(tasks) <= most
    loads = [sum(piece.size_bytes for piece in task) for task in tasks]
    assert max(loads) - min(loads) <= max(sizes)


@pytest.mark.parametrize(
    ("sizes", "most", "least", "expected"),
    [([10, 10, 10, 10], 64, 100, 1), ([10, 10, 10, 10], 64, 10, 4), ([10, 10, 10, 10], 2, 1, 2), ([0, 0], 64, 10, 1)],
)
def test_a_job_has_as_many_tasks_as_its_bytes_are_worth(sizes, most, least, expected):
    pieces = [make_checkpoint(f"{place}.pt", size_bytes=size) for place, size in enumerate(sizes)]
    assert len(split_tasks(pieces, most, least)) == expected


def test_the_command_has_what_the_site_names_and_nothing_of_the_request():
    assert plan_submission(POLICY, "00112233aabbccdd", [0, 1, 2, 5]) == [
        "sbatch",
        "--parsable",
        "--propagate=NONE",
        "--no-requeue",
        "--job-name=ckptd-verify-00112233aabbccdd",
        "--comment=ckpt=none ckptd-verify",
        "--array=0-2,5%2",
        "--partition=verify",
        "--account=storage",
        "--qos=low",
        "--time=30",
        "--nice=500",
        "--ntasks=1",
        "--chdir=/",
        "--output=/dev/null",
    ]


def test_what_the_site_leaves_open_is_left_to_slurm():
    words = plan_submission(replace(POLICY, account="", qos=""), "00112233aabbccdd", [0])
    assert not any(word.startswith(("--account", "--qos")) for word in words)


def test_the_script_quotes_the_home_of_its_owner():
    script = format_script(POLICY, "/home/o'neil/.ckptd-verify/00112233aabbccdd")
    assert script.splitlines()[1].endswith("""'/home/o'"'"'neil/.ckptd-verify/00112233aabbccdd'""")


def make_ticket(count=2, **changes):
    tasks = tuple((make_checkpoint(f"{number}.pt"),) for number in range(count))
    return VerificationTicket(name="0" * 16, run=RUN, requested_at=at(0), tasks=tasks, job_id=7, **changes)


LONG_AGO = at(0) - RESULT_DELAY
CASES = {
    "both wait": ([], {0: PENDING, 1: PENDING}, None, (False, (), False, False)),
    "one runs": ([], {0: RUNNING, 1: PENDING}, None, (True, (), False, False)),
    "one has a result, the other waits": ([0], {0: COMPLETED, 1: PENDING}, None, (True, (), False, False)),
    "both have results": ([0, 1], {}, None, (True, (), False, False)),
    "one ended just now": ([0], {0: COMPLETED, 1: COMPLETED}, None, (True, (), True, False)),
    "one ended long ago": ([0], {0: COMPLETED, 1: FAILED}, LONG_AGO, (True, (1,), True, False)),
    "the queue forgot both just now": ([], {}, None, (False, (), True, False)),
    "the queue forgot both long ago": ([], {}, LONG_AGO, (False, (0, 1), True, False)),
    "one failed, the other still runs": ([], {0: FAILED, 1: RUNNING}, LONG_AGO, (True, (), False, False)),
    "one was cancelled": ([0], {0: COMPLETED, 1: CANCELLED}, LONG_AGO, (True, (1,), True, True)),
    "results of tasks that do not exist": ([0, 1, 2, 99], {}, LONG_AGO, (True, (), False, False)),
    "a state of a newer Slurm": ([], {0: JobState.UNKNOWN, 1: PENDING}, LONG_AGO, (True, (), False, False)),
}


@pytest.mark.parametrize(("results", "states", "silent_since", "expected"), CASES.values(), ids=CASES.keys())
def test_a_task_is_lost_when_it_left_the_queue_and_no_result(results, states, silent_since, expected):
    found = judge_tasks(make_ticket(silent_since=silent_since), results, states, at(0))
    assert (found.has_begun, found.lost, found.is_silent, found.is_cancelled) == expected


def record(*checkpoints):
    return merge((), make_scan(1, *checkpoints)).appeared


def read_whole(checkpoint, **changes):
    return replace(checkpoint, level=Level.FULL, **changes)


def test_what_a_job_of_the_owner_calls_complete_has_a_time_of_its_own():
    known = make_checkpoint()
    (before,) = record(known)
    before = replace(before, verified_full_at=at(2))
    (after,) = progress.merge_owner_verified([before], [read_whole(known)], at(9)).changed
    assert after == replace(before, owner_verified_at=at(9))


def test_what_it_calls_damaged_changes_no_state_and_no_time_of_this_node():
    known = make_checkpoint()
    (before,) = record(known)
    before = replace(before, verified_full_at=at(2), owner_verified_at=at(3))
    damaged = read_whole(known, state=CheckpointState.DAMAGED, reason="a block of zeros")
    (after,) = progress.merge_owner_verified([before], [damaged], at(9)).changed
    assert after == replace(before, owner_verified_at=None, owner_damage="a block of zeros")


def test_what_it_says_about_other_files_is_left_to_the_next_scan():
    known = make_checkpoint()
    other = read_whole(known, identities=make_checkpoint("other.pt").identities)
    assert progress.merge_owner_verified(record(known), [other], at(9)).is_empty


def test_this_nodes_own_verification_ends_what_a_job_called_damaged():
    known = make_checkpoint()
    (before,) = record(known)
    before = replace(before, owner_damage="a block of zeros")
    (after,) = progress.merge_verified([before], [read_whole(known)], at(9)).changed
    assert (after.owner_damage, after.verified_full_at) == (None, at(9))


def test_a_file_that_was_touched_ends_what_a_job_said_about_it():
    known = make_checkpoint()
    (before,) = record(known)
    before = replace(before, owner_verified_at=at(3), owner_damage="x")
    (identity,) = known.identities
    touched = replace(known, identities=(identity._replace(changed_ns=identity.changed_ns + 1),))
    (after,) = merge([before], make_scan(9, touched)).changed
    assert (after.owner_verified_at, after.owner_damage) == (None, None)


def test_a_ticket_waits_no_longer_for_a_result_than_a_network_file_system_delays_it():
    late = timedelta(seconds=1)
    ticket = make_ticket(silent_since=at(0))
    assert judge_tasks(ticket, [], {}, at(0) + RESULT_DELAY - late).lost == ()
    assert judge_tasks(ticket, [], {}, at(0) + RESULT_DELAY).lost == (0, 1)
