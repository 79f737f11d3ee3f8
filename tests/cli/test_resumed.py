import os
import time
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from ckptd.checkpoints.agent import abandonable_child
from ckptd.checkpoints.scanning import resumed_file
from ckptd.cli import main
from ckptd.cli import resumed as command
from ckptd.core.model import DeclaredResume

JOB = {
    "SLURM_JOB_ID": "4711",
    "SLURM_RESTART_COUNT": "2",
    "SLURM_CLUSTER_NAME": "alpha",
    "SLURM_PROCID": "0",
    "SLURM_SUBMIT_DIR": "",
}


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def resumed(*arguments, **environment):
    outcome = CliRunner().invoke(main, ["resumed", *map(str, arguments)], env={**JOB, **environment})
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def test_a_job_says_what_it_loaded(work):
    (work / "epoch_3.pt").write_text("")
    (work / "last.pt").symlink_to("epoch_3.pt")
    outcome = resumed("last.pt")
    assert (outcome.exit_code, outcome.output) == (0, "")
    (said,) = resumed_file.read(str(work))
    assert said.path == f"{work}/last.pt"
    assert said.real_path == os.path.realpath(work / "epoch_3.pt")
    assert (said.cluster, said.job_id, said.restart_count) == ("alpha", 4711, 2)
    assert abs(said.said_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_first_attempt_has_no_restart_count(work):
    resumed("/run/prefix", SLURM_RESTART_COUNT=None)
    assert resumed_file.read(str(work))[0].restart_count == 0


def test_the_directory_of_submission_and_the_current_one_both_get_the_line(work, tmp_path):
    (tmp_path / "submitted").mkdir()
    resumed("/run/a", SLURM_SUBMIT_DIR=str(tmp_path / "submitted"))
    assert len(resumed_file.read(str(work))) == len(resumed_file.read(str(tmp_path / "submitted"))) == 1
    resumed("/run/b", SLURM_SUBMIT_DIR=str(work))
    assert len(resumed_file.read(str(work))) == 2


def test_a_directory_can_be_named(work, tmp_path):
    (tmp_path / "other").mkdir()
    resumed("--directory", tmp_path / "other", "/run/a")
    assert len(resumed_file.read(str(tmp_path / "other"))) == 1
    assert not (work / ".ckptd").exists()


def test_one_task_of_a_step_writes(work):
    outcome = resumed("/run/a", SLURM_PROCID="3")
    assert (outcome.exit_code, outcome.output, list(work.iterdir())) == (0, "", [])


@pytest.mark.parametrize(
    ("path", "environment"),
    [("", {}), ("x" * 5000, {}), ("/a", {"SLURM_JOB_ID": None}), ("/a", {"SLURM_JOB_ID": "4711; rm"})],
)
def test_what_cannot_be_recorded_is_a_warning(path, environment, work):
    outcome = resumed(path, **environment)
    assert (outcome.exit_code, outcome.stdout, list(work.iterdir())) == (0, "", [])
    assert outcome.stderr.startswith("ckptd resumed: not recorded: ")


def test_a_link_in_the_way_is_a_warning_and_is_not_followed(work, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (work / ".ckptd").symlink_to(tmp_path / "elsewhere")
    outcome = resumed("/run/a")
    assert outcome.exit_code == 0
    assert "is a link" in outcome.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_dead_disk_is_a_warning_and_holds_nobody_up(work, monkeypatch):
    monkeypatch.setattr(resumed_file, "append", lambda *_: time.sleep(3600))
    monkeypatch.setattr(command, "_SECONDS", 0.5)
    began = time.monotonic()
    outcome = resumed("/run/a")
    assert outcome.exit_code == 0
    assert "did not answer" in outcome.stderr
    assert time.monotonic() - began < 30


def test_a_bug_is_a_warning(work, monkeypatch):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(abandonable_child, "run", fail)
    outcome = resumed("/run/a")
    assert (outcome.exit_code, "a bug" in outcome.stderr) == (0, True)


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--what", "a"]])
def test_wrong_usage_ends_with_2(arguments, work):
    assert resumed(*arguments).exit_code == 2


def test_the_line_is_that_of_the_reader(work):
    resumed("/run/a b\n.pt")
    assert resumed_file.read(str(work))[0] == DeclaredResume(
        path="/run/a b\n.pt",
        cluster="alpha",
        job_id=4711,
        restart_count=2,
        said_at=resumed_file.read(str(work))[0].said_at,
    )
