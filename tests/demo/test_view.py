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
    "advice": "Save [now]:",
    "command": "scontrol update JobId=7 TimeLimit=+6",
}


def render(jobs, flags=(), width=80):
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(format_view(jobs, flags, ["somebody did something"], "the footer"))
    return captured.get()


def test_a_job_is_shown_with_its_time_left_epoch_and_flags():
    shown = render([JOB], [FLAG])
    words = "critical: at-risk, job 7 of ck-a\n    Save [now]: scontrol update JobId=7 TimeLimit=+6"
    for expected in ("1 h 2 min", "RUNNING", "1 min 1 s ago", words, "somebody", "the footer"):
        assert expected in "\n".join(line.rstrip() for line in shown.splitlines())


def test_a_terminal_of_80_columns_shows_every_number_whole():
    job = JOB | {"user": "ckdemo-alice", "name": "shared-directory", "time_left_seconds": 3557, "job_id": 71234}
    heading, row, *_ = render([job]).splitlines()
    assert heading.split() == ["job", "user", "name", "state", "left", "restarts", "epoch", "saved"]
    for expected in ("71234", "RUNNING", "59 min 17 s", " 2 ", " 4 ", "1 min 1 s ago"):
        assert expected in row


def test_what_is_not_known_is_a_dash_and_never_a_zero():
    unknown = {"time_left_seconds": None, "epoch": None, "newest_checkpoint_age_seconds": None, "flags": []}
    row = next(line for line in render([{**JOB, **unknown}]).splitlines() if "train" in line)
    assert row.count("-") == 3  # one of them in the user's name
    assert "never" in row


def test_array_tasks_are_shown_as_slurm_writes_them():
    assert "5_0" in render([{**JOB, "array_job_id": 5, "array_task_id": 0}])


def test_a_hostile_job_name_is_shown_as_it_is():
    assert "[/red]" in render([{**JOB, "name": "[/red]"}])
