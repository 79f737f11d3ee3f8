from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from ckptd.core.discovery import past_candidates
from ckptd.core.discovery.nearby_candidates import FoundDirectory, Neighbour, sort_neighbours
from ckptd.core.discovery.past_candidates import NearbyJobs
from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.ownership import CLOCK_TOLERANCE
from support.queue_facts import CLUSTER, at, make_job

HOME = PurePosixPath("/home/alice")
FOUND = HOME / "checkpoints"


def past(started=10, ended=20, **changes):
    job = make_job(1, name="train", work_dir=HOME, **changes)
    key = JobKey(CLUSTER, 1, at(started))
    run = RunKey(CLUSTER, 1000, "job:1@x")
    return TrackedJob(key=key, job=job, attempt=None, run=run, last_seen_at=at(ended), ended_at=at(ended))


def beside(started, ended, *, directory=None, name="other", work_dir=HOME, **changes):
    job = make_job(2, name=name, work_dir=work_dir, **changes)
    run = RunKey(CLUSTER, 1000, directory or "job:2@x")
    key = JobKey(CLUSTER, 2, at(started))
    return Neighbour(key, job, run, at(started), None if ended is None else at(ended))


def test_only_files_of_the_time_in_which_it_ran_are_looked_for():
    found = past_candidates.plan_search(past(), [])
    assert (found.since, found.until) == (at(10), at(20) + CLOCK_TOLERANCE)


def test_without_a_working_directory_there_is_nowhere_to_look():
    known = past()
    assert past_candidates.plan_search(replace(known, job=replace(known.job, work_dir=None)), []) is None


@pytest.mark.parametrize(
    ("started", "ended", "is_rival"),
    [
        (0, 5, False),
        (0, 15, True),
        (12, 15, True),
        (15, None, True),
        (0, None, True),
        (25, 30, False),
        (25, None, False),
    ],
)
def test_other_work_counts_where_it_ran_at_the_same_time(started, ended, is_rival):
    other = beside(started, ended)
    rival = past_candidates.find_rival(past(), FOUND, [other])
    assert rival == (other.job if is_rival else None)
    located = beside(started, ended, directory=str(FOUND))
    assert past_candidates.plan_search(past(), [located]).excluded == ((str(FOUND),) if is_rival else ())


def test_other_work_in_another_place_is_no_rival():
    assert past_candidates.find_rival(past(), FOUND, [beside(0, None, work_dir=PurePosixPath("/scratch"))]) is None


def test_what_was_found_through_a_link_may_be_of_other_work_in_the_same_place():
    found, other = FoundDirectory(PurePosixPath("/real/ck"), at(15), at(16), is_only=True), beside(0, None)
    known, nothing = past(), sort_neighbours([])
    around = NearbyJobs(nothing, {known.run: known}, {}, at(200), [other])
    sought = around.plan_search(known.run)
    assert around.find_rival(known.run, sought, found) == other.job
    assert around.find_rival(known.run, sought, found._replace(is_named_for_job=True)) is None


def test_the_same_script_submitted_again_is_the_same_work():
    same = beside(15, None, name="train", directory=str(FOUND))
    assert past_candidates.plan_search(past(), [same]).excluded == ()
    assert past_candidates.find_rival(past(), FOUND, [beside(15, None, name="train")]) is None


def test_a_job_is_not_its_own_rival():
    known = past()
    own = Neighbour(known.key, replace(known.job, name="renamed"), known.run, at(10), at(20))
    assert past_candidates.find_rival(known, FOUND, [own]) is None
