from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.core.model import JobState, Unknown
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.pyslurm_source import PyslurmSource
from slurm import stand_in_pyslurm

NOW = datetime.fromtimestamp(1795176000 + 600, UTC)


@pytest.fixture
def install(programs_in, tmp_path, monkeypatch):
    _, make = programs_in
    make()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/modules:{Path(__file__).parents[2] / 'daemon'}")
    (tmp_path / "modules").mkdir()
    return lambda form: stand_in_pyslurm.install(tmp_path, form), tmp_path / "modules" / "pyslurm.py"


@pytest.mark.parametrize("form", ["modern", "older"])
def test_both_interfaces_tell_the_same_of_a_job(install, form):
    install[0](form)
    jobs = {job.job_id: job for job in PyslurmSource().read_queue(NOW).jobs}
    assert jobs[1].time_limit == timedelta(minutes=30)
    assert jobs[1].time_left == timedelta(minutes=20)
    assert jobs[1].gpu_count == 1
    assert (jobs[2].time_limit, jobs[2].time_left, jobs[2].ends_at) == (None, None, None)
    assert (jobs[3].array_task_id, jobs[3].task_count, jobs[3].array_task_limit) == (None, 2, 2)
    assert (jobs[4].array_job_id, jobs[4].array_task_id) == (3, 0)
    assert (jobs[5].state, jobs[5].time_left) == (JobState.SUSPENDED, timedelta(minutes=29))
    assert jobs[5].dependency == "afterok:1:2"
    assert jobs[6].time_left is None


def test_a_comment_that_is_not_utf_8_survives(install):
    install[0]("modern")
    assert {job.comment for job in PyslurmSource().read_queue(NOW).jobs} == {"broken \udcff"}


@pytest.mark.parametrize(
    ("module", "trouble"),
    [
        ("raise ImportError('no libslurm')", FailureReason.MISSING),
        ("import os; os._exit(1)", FailureReason.FAILED),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", FailureReason.FAILED),
        ("class Jobs:\n def load(): raise RuntimeError('Unable to contact slurm controller')", FailureReason.DOWN),
        ("class Jobs:\n def load(): print('noise'); return {}", FailureReason.GARBLED),
        ("import sys\nclass Jobs:\n def load(): sys.exit(0)", FailureReason.GARBLED),
    ],
)
def test_whatever_befalls_libslurm_is_an_unknown(install, module, trouble):
    install[1].write_text(module)
    answer = PyslurmSource().read_queue(NOW)
    assert isinstance(answer, Unknown), answer
    assert answer.reason.startswith(trouble)
