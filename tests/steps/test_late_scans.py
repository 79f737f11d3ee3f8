"""Lost work where the next attempt overwrites the only file before a scan has seen what the one before saved last."""

from datetime import timedelta

import pytest

from ckptd.core.model import JobState
from steps.replayed_fleet import minute
from steps.test_resumes_of_programs import Run, cpt, gromacs_save


@pytest.fixture
def simulation(fleet):
    """It saves every two minutes; the save of minute 8 was not seen when the job is requeued at minute 9."""
    made = Run(fleet, cpt, "state.cpt")
    made.poll(1, 0, 0)
    for number in (1, 2, 3):
        gromacs_save(made, 100 * number, 2 * number)
        made.poll(2 * number + 1, 0, 0)
    gromacs_save(made, 400, 8)
    return made


def in_minutes(*durations):
    return tuple(round(each / timedelta(minutes=1), 2) for each in durations)


def read_line(run):
    [key] = run.fleet.parts.store.runs.list_keys()
    return min(run.fleet.parts.store.lost_work.list_lines(key), key=lambda each: each.ended_at)


def unsaved(run):
    loss = read_line(run).loss
    return in_minutes(loss.lost, loss.most)


def redone(run):
    found = read_line(run).redone
    return in_minutes(found.low, found.high)


def test_a_save_that_the_next_attempt_overwrote_unseen_makes_a_bound(simulation):
    gromacs_save(simulation, 500, 11, part=2)
    simulation.poll(11.5, 1, 9, submitted_at=minute(9))
    assert unsaved(simulation) == (0, 3)
    gromacs_save(simulation, 600, 13, part=2)
    simulation.poll(14, 1, 9, submitted_at=minute(9))
    assert unsaved(simulation) == (0, 3)


def test_so_does_the_work_that_a_start_over_computes_again(simulation):
    gromacs_save(simulation, 100, 11)
    simulation.poll(11.5, 1, 9, submitted_at=minute(9))
    assert unsaved(simulation) == (0, 3)
    assert redone(simulation) == (6, 9)


def test_what_a_scan_sees_before_it_is_overwritten_is_certain(simulation):
    simulation.poll(10, 1, 9, submitted_at=minute(9))
    gromacs_save(simulation, 500, 11, part=2)
    simulation.poll(11.5, 1, 9, submitted_at=minute(9))
    assert unsaved(simulation) == (1, 1)


def test_a_first_save_that_the_next_attempt_overwrote_unseen_makes_a_bound(fleet):
    run = Run(fleet, cpt, "state.cpt")
    run.poll(1, 0, 0)
    gromacs_save(run, 100, 2)
    gromacs_save(run, 200, 6, part=2)
    run.poll(6.5, 1, 3, submitted_at=minute(3))
    assert unsaved(run) == (0, 3)


def test_files_that_stay_are_certain_however_late_the_scan_comes(fleet):
    run = Run(fleet, cpt, "state_step{}.cpt")
    run.poll(1, 0, 0)
    for number in (1, 2, 3):
        run.save(100 * number, 2 * number)
        run.poll(2 * number + 1, 0, 0)
    run.save(500, 11, part=2)
    run.poll(11.5, 1, 9, submitted_at=minute(9))
    assert unsaved(run) == (3, 3)


def test_a_save_that_ends_after_a_scan_of_the_end_is_counted(fleet):
    """Slurm states the end when it begins to end a job, whose processes may then take time to save."""
    run = Run(fleet, cpt, "state_step{}.cpt")
    run.first([100, 200])
    assert unsaved(run) == (35, 35)
    run.save(300, 55.4)
    run.fleet.run(57, run.fleet.job(state=JobState.PENDING, restart_count=1, started_at=None))
    assert unsaved(run) == (0, 0)


def test_a_save_in_the_second_of_the_restart_stays_the_earlier_attempts(fleet):
    """A scan sees it before a poll shows the next attempt."""
    run = Run(fleet, cpt, "state_step{}.cpt")
    run.poll(1, 0, 0)
    run.save(100, 8 + 0.5 / 60)
    run.poll(8.1, 0, 0)
    run.poll(8.2, 1, 8, submitted_at=minute(8))
    run.save(200, 18, part=2)
    run.poll(19, 1, 8, submitted_at=minute(8))
    assert run.resume.path == run.place(100)
    assert unsaved(run) == (0, 0)
