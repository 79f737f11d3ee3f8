"""What an attempt saved last, where the next one overwrites it first, or its end came while ckptd looked."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import CheckpointState, JobState
from ckptd.steps import poll, record_scans
from ckptd.steps.state import begin
from steps.replayed_fleet import minute
from steps.test_resumes_of_programs import Run, cpt, gromacs_save
from support.checkpoint_bytes import adam
from support.shared_agent import get_agent
from support.torch_pickle import torch_file


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


OPTIMIZER = torch_file(adam())


@pytest.fixture
def saving(fleet):
    """A job that names its directory and saved at minute 10 and 20."""
    job = fleet.job(comment="ckpt=ck")
    fleet.run(1, job)
    for at in (10, 20):
        fleet.save(f"ck/a_{at}.pt", at, OPTIMIZER)
        fleet.run(at + 1, job)
    return fleet, job


def read_states(fleet):
    [key] = fleet.parts.store.runs.list_keys()
    return {each.checkpoint.path.name: each.checkpoint.state for each in fleet.parts.store.checkpoints.read(key)}


def test_what_a_job_saved_in_its_end_while_slurm_was_asked_is_found(saving):
    fleet, job = saving
    read_queue, begun = fleet.source.read_queue, {}

    def scan_meanwhile(now):
        begun["due"] = list(fleet.state.watchlist.all)
        begun["before"] = record_scans._read_record(fleet.parts, fleet.state, begun["due"])
        begun["at"] = now + timedelta(seconds=1)
        begun["found"] = record_scans._scan(fleet.parts, begun["due"], begun["before"], begun["at"])
        fleet.save("ck/a_30.pt", 30.02, OPTIMIZER)
        fleet.source.jobs = (replace(job, state=JobState.FAILED),)
        return read_queue(now)

    fleet.source.read_queue = scan_meanwhile
    poll.poll(fleet.parts, fleet.state, minute(30))
    fleet.source.read_queue = read_queue
    record_scans._decode_and_record(
        fleet.parts, fleet.state, *(begun[each] for each in ("due", "before", "found", "at"))
    )
    fleet.run(31)
    assert read_states(fleet)["a_30.pt"] is CheckpointState.COMPLETE
    [key] = fleet.parts.store.runs.list_keys()
    [line] = fleet.parts.store.lost_work.list_lines(key)
    assert in_minutes(line.loss.lost) == (0,)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_the_end_of_a_job_cut_off_is_damaged_and_not_written_for_ever(saving, is_restarted):
    fleet, job = saving
    fleet.parts = replace(fleet.parts, agent=get_agent(write_grace="60s"))
    fleet.save("ck/a_30.pt", 29.8, OPTIMIZER[: len(OPTIMIZER) * 2 // 3])
    ended = replace(job, state=JobState.FAILED)
    fleet.run(30, ended)
    assert read_states(fleet)["a_30.pt"] is CheckpointState.WRITING
    if is_restarted:
        fleet.state = begin(fleet.parts, minute(30.5))
    fleet.run(31, ended)
    fleet.run(32, ended)
    assert read_states(fleet)["a_30.pt"] is CheckpointState.DAMAGED
