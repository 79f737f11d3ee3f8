from rich.console import Console

from demo.view import format_view

JOB = {
    "job_id": 7,
    "array_job_id": None,
    "array_task_id": None,
    "user": "ck-a",
    "name": "train",
    "state": "RUNNING",
    "time_left_seconds": 3725,
    "restart_count": 2,
    "epoch": 4,
    "checkpoints": 3,
    "newest_checkpoint_age_seconds": 61,
    "flags": ["at-risk"],
}
FLAG = {
    "rule": "at-risk",
    "severity": "critical",
    "job_id": 7,
    "user": "ck-a",
    "statement": "",
    "advice": "Save [now].",
}


def render(jobs, flags=()):
    console = Console(width=160, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(format_view(jobs, flags, ["somebody did something"], "the footer"))
    return captured.get()


def test_a_job_is_shown_with_its_time_left_epoch_and_flags():
    shown = render([JOB], [FLAG])
    for expected in ("1:02:05", "RUNNING", "0:01:01 ago", "at-risk", "Save [now].", "somebody", "the footer"):
        assert expected in shown


def test_what_is_not_known_is_a_dash_and_never_a_zero():
    unknown = {"time_left_seconds": None, "epoch": None, "newest_checkpoint_age_seconds": None, "flags": []}
    row = next(line for line in render([{**JOB, **unknown}]).splitlines() if "train" in line)
    assert row.count("-") == 4  # one of them in the user's name


def test_array_tasks_are_shown_as_slurm_writes_them():
    assert "5_0" in render([{**JOB, "array_job_id": 5, "array_task_id": 0}])


def test_a_hostile_job_name_is_shown_as_it_is():
    assert "[/red]" in render([{**JOB, "name": "[/red]"}])
