from dataclasses import replace
from pathlib import PurePosixPath

from ckptd.core import search
from ckptd.core.model import JobKey, RunKey, Scan, Unknown
from ckptd.core.tracking import TrackedJob
from core.histories import START, at, attempt, history, job

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


def plan(mine, *others, given=None):
    return search.plan_search(mine.run, search.sort_neighbours([mine, *others]), given)


def test_files_count_since_the_first_attempt_of_the_run():
    mine = tracked(1, start=50)
    assert plan(mine).since == at(50)
    earlier = history(attempts=[attempt(10, 20), attempt(50, restart_count=1)])
    assert plan(mine, given=earlier).since == at(10)


def test_an_array_task_may_continue_what_an_earlier_task_saved():
    mine = tracked(2, start=50, array_job_id=1, array_task_id=2)
    assert plan(mine, tracked(1, start=5, array_job_id=1, array_task_id=1, ended=True)).since == at(5)


def test_a_directory_of_another_running_job_is_not_looked_at():
    other = tracked(2, name="evaluate", directory=str(FOUND))
    assert plan(tracked(1), other).excluded == (FOUND,)


def test_the_directory_of_the_same_script_submitted_again_is_looked_at():
    assert plan(tracked(1), tracked(2, directory=str(FOUND))).excluded == ()


def test_the_directory_of_a_job_that_has_ended_is_free():
    assert plan(tracked(1), tracked(2, name="evaluate", directory=str(FOUND), ended=True)).excluded == ()


def test_without_a_working_directory_there_is_nothing_to_look_at():
    assert plan(tracked(1, work_dir=None)) is None


def find_rival(mine, *others):
    rival = search.find_rival(mine.job, FOUND, search.sort_neighbours([mine, *others]))
    return rival.job_id if rival else None


def test_two_different_jobs_in_one_working_directory_cannot_be_told_apart():
    assert find_rival(tracked(1), tracked(2, name="evaluate")) == 2


def test_no_rival_is_one_that_could_not_have_written_there():
    assert find_rival(tracked(1)) is None
    assert find_rival(tracked(1), tracked(2)) is None  # the same script: both write there
    assert find_rival(tracked(1), tracked(2, name="evaluate", work_dir=PurePosixPath("/home/alice/other"))) is None
    assert find_rival(tracked(1), tracked(2, name="evaluate", directory="/scratch/x")) is None
    assert find_rival(tracked(1), tracked(2, name="evaluate", ended=True)) is None
    bob = tracked(2, name="evaluate")
    assert find_rival(tracked(1), replace(bob, job=replace(bob.job, uid=1001))) is None


def test_what_a_search_says_is_bounded():
    found = Scan(
        directory=PurePosixPath("/w"),
        scanned_at=START,
        checkpoints=(),
        problems=tuple(Unknown(what="search", reason="x" * 5000) for _ in range(500)),
    )
    told = search.summarize_doubt(found)
    assert told.reason.endswith("; and 497 more")
    assert len(told.reason) < 3100
    assert search.summarize_doubt(replace(found, problems=())) is None
