from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from ckptd.core.discovery import nearby_candidates
from ckptd.core.discovery.nearby_candidates import FoundDirectory, Neighbour
from ckptd.core.model import JobKey, RunKey, Scan, Unknown
from ckptd.core.queue import TrackedJob
from core.histories import START, at, attempt, history, job, saved

HOME = PurePosixPath("/home/alice")
FOUND = HOME / "checkpoints"


def tracked(job_id, *, name="train", directory=None, start=0.0, work_dir=HOME, ended=False, **changes):
    key = JobKey("c1", job_id, START)
    run = RunKey("c1", 1000, directory or f"job:{job_id}@x")
    return TrackedJob(
        key=key,
        job=job(job_id, name=name, work_dir=work_dir, **changes),
        attempt=attempt(start, job_id=job_id),
        run=run,
        last_seen_at=START,
        ended_at=at(100) if ended else None,
    )


def plan(mine, *others, histories=None, now=200.0):
    return nearby_candidates.plan_search(
        mine.run, nearby_candidates.sort_neighbours([mine, *others]), histories or {}, at(now)
    )


def test_files_count_since_the_first_attempt_of_the_run():
    mine = tracked(1, start=50)
    assert plan(mine).since == at(50)
    earlier = history(attempts=[attempt(10, 20), attempt(50, restart_count=1)])
    assert plan(mine, histories={mine.run: earlier}).since == at(10)


def task(number, *, start, **changes):
    return tracked(number, start=start, array_job_id=1, array_task_id=number, **changes)


def test_an_array_task_may_continue_what_an_earlier_task_saved():
    assert plan(task(2, start=150), task(1, start=5, ended=True)).since == at(5)


def test_a_task_continues_nothing_where_several_of_the_array_run_at_once():
    assert plan(task(3, start=150), task(1, start=5, ended=True), task(2, start=140)).since == at(150)
    assert plan(task(2, start=150, array_task_limit=4), task(1, start=5, ended=True)).since == at(150)


def test_a_directory_of_another_running_job_is_not_looked_at():
    other = tracked(2, name="evaluate", directory=str(FOUND))
    assert plan(tracked(1), other).excluded == (str(FOUND),)


def test_only_directories_that_a_search_may_come_to_are_named_to_it():
    names = ("/home/alice", "/home/alice-2/a", "/home/alice/a", "/home/alice/a/b", "/home/alice0", "/home/bob/c")
    others = [tracked(number, name=f"other{number}", directory=name) for number, name in enumerate(names, 2)]
    same = tracked(9, directory="/scratch/same")
    found = plan(tracked(1), *others, same)
    assert found.excluded == ("/home/alice", "/home/alice/a", "/home/alice/a/b")
    assert {*found.exclude_all().excluded} == {*names}
    assert found.exclude_all().shared == ("/scratch/same",)
    assert plan(tracked(1, work_dir=PurePosixPath("/")), *others).excluded == tuple(sorted(names))


@pytest.mark.parametrize(("located_by", "is_all"), [("discovery", True), ("comment", False)])
def test_where_working_directories_are_links_all_other_directories_are_named_at_once(located_by, is_all):
    others = [tracked(number, name=f"other{number}", directory=f"/gpfs/home/alice/{number}") for number in (2, 3)]
    histories = {others[1].run: history(key=others[1].run, located_by=located_by)}
    found = plan(tracked(1), *others, histories=histories).excluded
    assert {*found} == ({"/gpfs/home/alice/2", "/gpfs/home/alice/3"} if is_all else set())


def saved_first_after(minutes):
    return {RunKey("c1", 1000, str(FOUND)): history(attempts=[attempt(0)], checkpoints=[saved(minutes)])}


@pytest.mark.parametrize(
    ("histories", "minute", "is_shared"),
    [
        ({}, 500, False),
        (saved_first_after(5), 64, False),
        (saved_first_after(5), 65, True),
        (saved_first_after(30), 109, False),
        (saved_first_after(30), 110, True),
    ],
)
def test_two_of_one_script_that_run_at_once_share_a_directory_once_each_had_time_for_its_own(
    histories, minute, is_shared
):
    found = plan(tracked(1, start=50), tracked(2, directory=str(FOUND)), histories=histories, now=minute)
    assert (found.excluded, found.shared, {*found.holders}) == ((), (str(FOUND),), {str(FOUND)})
    assert found.undecided == (set() if is_shared else {str(FOUND)})


def test_the_directory_of_the_same_script_that_waits_again_is_looked_at():
    other = tracked(2, directory=str(FOUND))
    other = replace(other, attempt=attempt(0, 40, job_id=2))
    found = plan(tracked(1, start=50), other)
    assert (found.excluded, found.shared) == ((), ())


def test_the_directory_of_a_job_that_has_ended_is_free():
    assert plan(tracked(1), tracked(2, name="evaluate", directory=str(FOUND), ended=True)).excluded == ()


def test_without_a_working_directory_there_is_nothing_to_look_at():
    assert plan(tracked(1, work_dir=None)) is None


def found(first, newest=None, *, is_only=True):
    return FoundDirectory(FOUND, at(first), at(first if newest is None else newest), is_only)


def find_rival(mine, *others, seen=None, beside=(), now=60.0):
    sought = plan(mine, *others)
    rival = nearby_candidates.find_rival(
        sought, seen or found(40), nearby_candidates.sort_neighbours([mine, *others]), beside, at(now)
    )
    return rival.job_id if rival else None


def test_two_different_jobs_in_one_working_directory_cannot_be_told_apart():
    assert find_rival(tracked(1), tracked(2, name="evaluate")) == 2


@pytest.mark.parametrize(
    ("work_dir", "is_above"),
    [
        ("/u/alice", True),
        ("/u", True),
        ("/u/alice/checkpoints", True),
        ("/home/alice", True),
        ("/u/alice/other", False),
        ("/u/alice-2", False),
        ("/u/bob", False),
    ],
)
def test_through_a_link_the_names_of_working_directories_tell_who_may_write(work_dir, is_above):
    mine = tracked(1, work_dir=PurePosixPath("/u/alice"))  # a link to /home/alice
    other = tracked(2, name="evaluate", work_dir=PurePosixPath(work_dir))
    assert find_rival(mine, other) == (2 if is_above else None)


def test_no_rival_is_one_that_could_not_have_written_there():
    assert find_rival(tracked(1)) is None
    assert find_rival(tracked(1), tracked(2, name="evaluate", work_dir=PurePosixPath("/home/alice/other"))) is None
    assert find_rival(tracked(1), tracked(2, name="evaluate", directory="/scratch/x")) is None
    assert find_rival(tracked(1), tracked(2, name="evaluate", ended=True)) is None
    bob = tracked(2, name="evaluate")
    assert find_rival(tracked(1), replace(bob, job=replace(bob.job, uid=1001))) is None


def test_no_rival_is_a_job_that_began_when_something_was_there():
    late = tracked(2, name="evaluate", start=50)
    late = replace(late, key=late.key._replace(first_seen_at=at(50)))
    assert find_rival(tracked(1), late, seen=found(40, 55)) is None
    assert find_rival(tracked(1), late, seen=found(51, 55)) == 2


@pytest.mark.parametrize(
    ("first", "is_only", "now", "rival"),
    [(5, True, 14, 2), (5, True, 15, None), (30, True, 59, 2), (30, True, 60, None), (5, False, 60, 2)],
)
def test_two_of_one_script_write_to_one_place_once_each_had_time_for_its_own(first, is_only, now, rival):
    seen = found(first, is_only=is_only)
    assert find_rival(tracked(1), tracked(2), seen=seen, now=now) == rival


def ran(ended, *, directory=None, name="train", job_id=2):
    run = RunKey("c1", 1000, directory or f"job:{job_id}@x")
    key = JobKey("c1", job_id, START)
    return Neighbour(key, job(job_id, name=name, work_dir=HOME), run, START, None if ended is None else at(ended))


@pytest.mark.parametrize(
    ("ended", "is_its"), [(90, True), (59.5, True), (57, False), (50, False), (None, False)]
)  # mine began at 50, and what was found was written at 60
def test_a_job_that_ended_meanwhile_may_have_written_what_was_there_by_then(ended, is_its):
    mine, seen = tracked(1, start=50), found(55, 60)
    assert find_rival(mine, seen=seen, beside=[ran(ended)]) == (2 if is_its else None)
    beside = [ran(ended, directory=str(FOUND))]
    assert nearby_candidates.is_anothers(plan(mine), seen, beside) == is_its
    assert find_rival(mine, seen=seen, beside=beside) is None


def test_what_an_earlier_attempt_of_the_job_itself_wrote_is_its_own():
    assert not nearby_candidates.is_anothers(
        plan(tracked(1, start=50)), found(60), [ran(90, directory=str(FOUND), job_id=1)]
    )


def test_what_a_search_says_is_bounded():
    found = Scan(
        directory=PurePosixPath("/w"),
        scanned_at=START,
        checkpoints=(),
        problems=tuple(Unknown(what="search", reason="x" * 5000) for _ in range(500)),
    )
    told = nearby_candidates.summarize_doubt(found)
    assert told.reason.endswith("; and 497 more")
    assert len(told.reason) < 3100
    assert nearby_candidates.summarize_doubt(replace(found, problems=())) is None
