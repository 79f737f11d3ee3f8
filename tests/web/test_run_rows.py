"""Jobs become rows of a list: one for each run, and one for the tasks of an array whose directories are unknown."""

from dataclasses import replace
from datetime import timedelta

from ckptd.core.model import Finding, Flag, JobKey, JobState, RunKey, Severity
from ckptd.core.model.records import JobRow
from ckptd.web.app import count_rows
from ckptd.web.cache import RatedJob, group
from ckptd.web.pages import ENVIRONMENT
from ckptd.web.query import Query, select_runs
from web.samples import NOW


def make_row(directory="/near"):
    return JobRow(
        key=JobKey("c", 7, NOW),
        run=RunKey("c", 1, directory),
        array_job_id=None,
        array_task_id=None,
        user="alice",
        name="x",
        partition="gpu",
        state=JobState.RUNNING,
        restart_count=0,
        time_left=timedelta(hours=1),
        directory=directory,
        located_by="comment",
        epoch=None,
        step=None,
        newest_checkpoint_at=None,
        checkpoint_count=0,
        checkpoint_bytes=0,
        flags=(),
    )


def test_jobs_of_one_run_are_one_row_and_the_worst_of_them_gives_it_its_place():
    (one, other) = (RatedJob(replace(make_row(), key=JobKey("c", number, NOW)), None) for number in (1, 2))
    far = RatedJob(replace(make_row(directory="/far"), time_left=None), Severity.WARNING)
    bad = replace(other, severity=Severity.CRITICAL, row=replace(other.row, time_left=timedelta(minutes=3)))
    runs = group([bad, far, one])
    assert [[job.row.key.job_id for job in run.jobs] for run in runs] == [[2, 1], [7]]
    assert (runs[0].severity, runs[0].time_left) == (Severity.CRITICAL, timedelta(minutes=3))
    assert (runs[1].severity, runs[1].time_left) == (Severity.WARNING, None)


def make_task(number, array=104, severity=None, directory=None):
    row = make_row(directory or f"job:{number}@x")
    key, left = JobKey("c", number, NOW), timedelta(hours=number)
    return RatedJob(replace(row, key=key, array_job_id=array, array_task_id=number, time_left=left), severity)


def test_tasks_of_an_array_without_a_directory_are_one_row_of_a_list_and_paging_counts_rows():
    bad = make_task(9, severity=Severity.CRITICAL)
    jobs = [bad, make_task(1), make_task(2), make_task(3, array=105), make_task(4, directory="/there")]
    runs = group(jobs)
    found = select_runs(runs, Query(sort="time_left"), is_folding=True)
    assert [run.folded_array for run in found.items] == [104, None, None]
    assert found.items[0].severity == Severity.CRITICAL
    assert [job.row.key.job_id for job in found.items[0].jobs] == [9, 1, 2]
    pages = [select_runs(runs, Query(limit=1, offset=place), is_folding=True) for place in range(4)]
    assert [len(page.items) for page in pages] == [1, 1, 1, 0]
    assert {page.total for page in pages} == {3}


def test_who_searches_or_reads_documents_gets_each_task():
    runs = group([make_task(1), make_task(2), make_task(3, severity=Severity.CRITICAL)])
    assert select_runs(runs, Query(q="104"), is_folding=True).total == 3
    assert select_runs(runs, Query()).total == 3
    (critical,) = select_runs(runs, Query(severity=Severity.CRITICAL), is_folding=True).items
    assert critical.folded_array is None


def test_a_folded_row_leads_to_the_list_of_its_tasks():
    now, query = NOW, Query(severity=Severity.INFO, offset=50)
    runs = select_runs(group([make_task(1), make_task(2)]), Query(), is_folding=True).items
    macros = ENVIRONMENT.get_template("macros.html").module
    table = macros.run_table(runs, now, "", query)
    assert '<a href="/?q=104&amp;user=alice&amp;severity=info">Array 104 (x), 2 tasks, directory unknown</a>' in table
    assert "104_1, 104_2" in table


def test_tiles_count_the_rows_of_lists_where_severities_mix_and_arrays_fold():
    def rate(number, severity, run=None, array=None, state=JobState.RUNNING):
        row = replace(make_row(), key=JobKey("c", number, NOW), array_job_id=array, array_task_id=number, state=state)
        return RatedJob(replace(row, run=RunKey("c", 1, run or f"job:{number}@x")), severity)

    runs = group(
        [
            rate(1, Severity.CRITICAL, "/a"),
            rate(2, Severity.WARNING, "/a"),
            rate(3, Severity.WARNING, "/b"),
            *(rate(number, Severity.WARNING, array=9) for number in (4, 5)),
            rate(6, Severity.INFO, "/c", state=JobState.SUSPENDED),
            rate(7, None, "/d"),
        ]
    )
    counts = count_rows(runs)
    for severity, count in ((Severity.CRITICAL, 1), (Severity.WARNING, 3), (Severity.INFO, 4)):
        assert counts[severity.value] == select_runs(runs, Query(severity=severity), is_folding=True).total == count
    assert counts["runs"] == select_runs(runs, Query(), is_folding=True).total == 5
    assert counts["running"] == select_runs(runs, Query(state=JobState.RUNNING), is_folding=True).total == 4


def test_a_flag_on_a_page_names_the_task_of_an_array_as_commands_do():
    finding = Finding(
        rule="job-held",
        severity=Severity.WARNING,
        run=RunKey("c", 1, "job:23@x"),
        job_id=23,
        user="alice",
        evidence={"slurm_job": "23_7", "release_with": "scontrol release 23_7"},
    )
    shown = ENVIRONMENT.get_template("macros.html").module.flag_list([Flag(finding=finding, opened_at=NOW)])
    assert "job 23_7 of" in shown
    assert "Job 23_7, directory unknown" in shown
