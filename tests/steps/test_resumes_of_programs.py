"""What is said of restarts of programs, by files of theirs: what they loaded, and which work they do again."""

import io
import struct

import numpy as np
import pytest

from checkpoints.formats.real_files import DATA
from ckptd.core.model import Certainty, JobState
from ckptd.core.runs.cadence import measure_rhythm
from steps.replayed_fleet import minute


class Run:
    """A job of one directory that saves each ten minutes, is ended at minute 55, and starts again at minute 60."""

    def __init__(self, fleet, content, name="epoch_{}.npz"):
        self.fleet = fleet
        self.name = name
        self.content = content

    def save(self, number, minutes, **changes):
        self.fleet.save(f"ckpts/{self.name.format(number)}", minutes, self.content(number, **changes))

    def place(self, number):
        return f"{self.fleet.work_dir}/ckpts/{self.name.format(number)}"

    def first(self, numbers=(1, 2, 3, 4, 5), end=55, state=JobState.PENDING):
        self.poll(1, 0, 0)
        for index, number in enumerate(numbers, 1):
            self.save(number, 10 * index)
            self.poll(10 * index + 1, 0, 0)
        self.fleet.run(end, self.fleet.job(state=state, restart_count=1, started_at=None, work_dir=self.fleet.work_dir))

    def poll(self, minutes, restart_count, start, **changes):
        changes = {"comment": f"ckpt={self.fleet.work_dir}/ckpts", **changes}
        return self.fleet.run(minutes, self.fleet.job(start=start, restart_count=restart_count, **changes))

    def again(self, *saves):
        """Start again at minute 60; each save is a number and a minute."""
        self.poll(60.5, 1, 60)
        for number, minutes in saves:
            self.save(number, minutes)
            self.poll(minutes + 1, 1, 60)

    @property
    def resume(self):
        (run,) = self.fleet.parts.store.runs.list_keys()
        (history,) = self.fleet.parts.store.histories.read("c1", [run])
        return history.attempts[-1].resumed_from

    @property
    def lost(self):
        """The lost work of the first attempt: minutes unsaved, and at least and at most redone."""
        (run,) = self.fleet.parts.store.runs.list_keys()
        line = min(self.fleet.parts.store.lost_work.list_lines(run), key=lambda each: each.ended_at)
        redone = line.redone
        return tuple(
            None if each is None else round(each.total_seconds() / 60)
            for each in (line.loss.lost, redone.low, redone.high)
        )


def epoch(number):
    content = io.BytesIO()
    np.savez(content, **{"opt/mu": np.arange(10.0)}, weights=np.arange(100.0), epoch=number)
    return content.getvalue()


def cpt(step, part=1):
    content = (DATA / "gromacs/state_step6700.cpt").read_bytes()
    return content.replace(struct.pack(">iq", 1, 6700), struct.pack(">iq", part, step))


@pytest.fixture
def training(fleet):
    made = Run(fleet, epoch)
    made.first()
    return made


def lammps(step):
    content = (DATA / "lammps/melt.600.rst").read_bytes()
    assert content.count(struct.pack("<iq", 5, 600)) == 1
    return content.replace(struct.pack("<iq", 5, 600), struct.pack("<iq", 5, step))


def test_a_restart_that_resumes_does_no_saved_work_again(training):
    training.again((6, 70), (7, 80))
    assert (training.resume.certainty, training.resume.path) == (Certainty.INFERRED, training.place(5))
    assert training.lost == (5, 0, 0)


def test_a_wrong_path_loses_all_that_was_saved(training):
    training.again((1, 70), (2, 80))
    assert training.resume.is_fresh
    assert training.lost == (5, 50, 50)


def test_an_older_file_loses_what_was_saved_after_it(training):
    training.again((3, 70), (4, 80))
    assert training.resume.path == training.place(2)
    assert training.lost == (5, 30, 30)


def test_other_names_of_a_start_over_lose_all_that_was_saved(training):
    training.name = "model-{}.npz"
    training.again((1, 70), (2, 80))
    assert training.resume.is_fresh
    assert training.lost == (5, 50, 50)


def test_a_start_over_after_a_node_failure_loses_all_that_was_saved(fleet):
    run = Run(fleet, epoch)
    run.first(state=JobState.NODE_FAIL)
    run.again((1, 70), (2, 80))
    assert run.resume.is_fresh
    assert run.lost == (5, 50, 50)


def test_lammps_without_read_restart_that_writes_the_same_step_again_loses_all(fleet):
    run = Run(fleet, lammps, "poly.restart.{}")
    run.first([20_000])
    run.again((20_000, 70))
    assert run.resume.is_fresh
    assert run.lost == (45, 10, 10)
    assert ("not-resuming", 1) in run.fleet.flags()


def gromacs_save(run, step, minutes, part=1):
    """Save as mdrun does: state.cpt, and milliseconds later the one before as state_prev.cpt."""
    target = run.fleet.work_dir / "ckpts/state.cpt"
    before = target.read_bytes() if target.exists() else None
    run.fleet.save("ckpts/state.cpt", minutes, cpt(step, part))
    if before is not None:
        run.fleet.save("ckpts/state_prev.cpt", minutes + 0.0001, before)


@pytest.fixture
def simulation(fleet):
    made = Run(fleet, cpt)
    made.poll(1, 0, 0)
    for number in range(1, 6):
        gromacs_save(made, 1010 * number, 10 * number)
        made.poll(10 * number + 1, 0, 0)
    fleet.run(55, fleet.job(state=JobState.PENDING, restart_count=1, started_at=None))
    made.poll(60.5, 1, 60)
    return made


def test_gromacs_without_cpi_proves_that_it_started_from_nothing(simulation):
    gromacs_save(simulation, 1015, 70)
    simulation.poll(71, 1, 60)
    assert (simulation.resume.certainty, simulation.resume.path) == (Certainty.PROVEN, None)
    assert simulation.lost == (5, 50, 50)
    assert ("not-resuming", 1) in simulation.fleet.flags()


def test_gromacs_with_cpi_resumed_from_state_cpt_not_from_its_backup(simulation):
    gromacs_save(simulation, 6055, 70, part=2)
    simulation.poll(71, 1, 60)
    resume = simulation.resume
    assert (resume.certainty, resume.path) == (Certainty.INFERRED, f"{simulation.fleet.work_dir}/ckpts/state.cpt")
    assert resume.evidence["continued_count"] == 1
    assert simulation.lost == (5, 0, 0)
    assert simulation.fleet.flags() == []


def test_gromacs_saves_as_often_as_it_does_and_not_twice(simulation):
    (run,) = simulation.fleet.parts.store.runs.list_keys()
    (history,) = simulation.fleet.parts.store.histories.read("c1", [run])
    assert measure_rhythm(history).interval.total_seconds() == pytest.approx(600, abs=1)


def test_what_progress_does_not_tell_is_a_bound_that_contains_the_truth(training):
    """It saves nothing of its own before it is over: from what it resumed is not known."""
    training.again()
    assert training.resume.certainty is Certainty.UNKNOWN
    assert training.lost == (5, None, None)


def test_a_save_in_the_second_of_the_restart_is_the_earlier_attempts(fleet):
    """Slurm states whole seconds, and mdrun saves once more when it is asked to end."""
    run = Run(fleet, cpt, "state.cpt")
    run.poll(1, 0, 0)
    for number in range(1, 6):
        gromacs_save(run, 1010 * number, 10 * number)
        run.poll(10 * number + 1, 0, 0)
    gromacs_save(run, 5900, 58 + 0.5 / 60)
    run.poll(58.1, 1, 58, submitted_at=minute(58))
    gromacs_save(run, 6910, 68, part=2)
    run.poll(69, 1, 58)
    assert run.resume.path == run.place(0)
    assert run.lost == (0, 0, 0)
