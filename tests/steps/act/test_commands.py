"""How Slurm's commands are run for a user's job."""

import json
import os
import pwd

import pytest

from ckptd.checkpoints.agent.job_commands import CommandError, run_command
from ckptd.slurm import commands
from core.histories import job


def test_a_command_names_one_task_and_never_its_whole_array():
    task = job(job_id=10, array_job_id=10, array_task_id=3)
    assert commands.format_signal(task, "B:USR1") == ["scancel", "--signal=USR1", "--state=RUNNING", "--batch", "10_3"]
    assert commands.format_signal(job(job_id=4), "TERM") == ["scancel", "--signal=TERM", "--state=RUNNING", "4"]


def test_a_federated_jobs_state_is_not_asked_for_where_it_was_submitted():
    """There it is revoked, and scancel would send nothing with status 0."""
    assert commands.format_signal(job(job_id=67108866), "TERM") == ["scancel", "--signal=TERM", "67108866"]


@pytest.mark.parametrize("argv", [["sh", "-c", "true"], ["/bin/scancel"], ["sbatch-x"]])
def test_only_slurms_own_commands_are_run(argv):
    with pytest.raises(CommandError, match="no command that is run for a job"):
        run_command({"argv": argv})


@pytest.mark.parametrize(
    ("complaint", "status"),
    [("no such job", 3), ("scontrol: error: no", 0), ("job script retrieval failed: Unable to contact it", 0)],
)
def test_a_command_that_fails_says_why(tmp_path, monkeypatch, complaint, status):
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\necho {complaint} >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(CommandError, match=f"scontrol ended with {status}: {complaint}"):
        run_command({"argv": ["scontrol", "1"]})


def test_a_command_has_the_environment_of_its_user_and_none_of_the_daemons(tmp_path, monkeypatch):
    program = tmp_path / "sbatch"
    program.write_text("#!/usr/bin/env -S python3 -IS\nimport json, os\nprint(json.dumps(dict(os.environ)))\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("CKPTD_STORE__URL", "CREDENTIALS_DIRECTORY", "SLURM_JWT", "SBATCH_ACCOUNT", "NOTIFY_SOCKET"):
        monkeypatch.setenv(name, "secret")
    told = json.loads(run_command({"argv": ["sbatch"]})["output"])
    assert set(told) <= {"PATH", "LANG", "LC_CTYPE", "SLURM_CONF", "HOME", "USER", "LOGNAME", "SHELL"}
    assert told["HOME"] == pwd.getpwuid(os.geteuid()).pw_dir


def test_a_command_gets_its_input_and_its_directory_and_other_bytes_stay_what_they_are(tmp_path, monkeypatch):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\npwd\ncat\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    answer = run_command({"argv": ["sbatch"], "input": "caf\udce9\n", "directory": str(tmp_path)})
    assert answer == {"output": f"{tmp_path}\ncaf\udce9\n"}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o027, 0o002, 0o000, 0o007, 0o026])
def test_a_command_makes_its_files_for_those_who_may_read_what_the_job_has_made(tmp_path, monkeypatch, umask):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\numask\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    output = tmp_path / "out"
    output.touch()
    output.chmod(0o666 & ~umask)
    told = run_command({"argv": ["sbatch"], "like": str(output)})["output"]
    assert int(told, 8) == {0o026: 0o027}.get(umask, umask)


@pytest.mark.parametrize("like", ["", "/dev/null", "/gone/out", "a\0b"])
def test_a_command_makes_its_files_for_nobody_else_where_no_file_tells_for_whom(tmp_path, monkeypatch, like):
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\numask\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert run_command({"argv": ["sbatch"], "like": like}) == {"output": "0077\n"}
