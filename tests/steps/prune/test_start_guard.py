"""Jobs that begin while a step is moving checkpoints aside, or just before: what they may be loading is there."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent import trash_client
from ckptd.core.model import Unknown
from ckptd.steps.prune import audit_entries, step
from support.prune_facts import UID, own, workshop

EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]


@pytest.fixture
def shop():
    with workshop() as shop:
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.end_jobs()
        shop.wait(90)
        yield shop


def elsewhere(shop, name="other"):
    path = shop.root / name
    path.mkdir(exist_ok=True)
    return PurePosixPath(path)


def wait_and_act(shop, minutes=5):
    shop.wait(minutes)
    return shop.act()


def save_and_act(shop):
    """Let the new job save an epoch of its own: until then, it may have resumed from any that was there."""
    shop.train([7])
    return wait_and_act(shop, 90)


def test_a_step_asks_for_the_queue_once_before_and_once_after_a_move_and_never_where_nothing_may_go(shop):
    assert shop.act().moved_count == 4
    assert shop.poll_count == 2
    assert wait_and_act(shop) == step.PruneResult()
    assert shop.poll_count == 2


def test_a_job_that_began_since_the_last_look_at_the_queue_keeps_what_it_may_resume_from(shop):
    shop.arriving = [[shop.make_job(2)]]
    assert shop.act() == step.PruneResult()
    assert shop.names() == EPOCHS
    assert shop.audit(audit_entries.PRUNE) == []
    assert wait_and_act(shop) == step.PruneResult()  # it may still be loading
    assert wait_and_act(shop, 50) == step.PruneResult()  # nothing tells which one it has loaded
    assert save_and_act(shop).moved_count == 3
    assert shop.names() == [f"epoch_{number}.npz" for number in (4, 5, 6, 7)]  # at its rate it loaded 4, 5 or 6


def test_a_job_of_the_same_owner_whose_directory_nobody_knows_keeps_all_that_lies_where_it_works(shop):
    shop.arriving = [[shop.make_job(2, comment="")]]
    assert shop.act() == step.PruneResult()
    assert wait_and_act(shop) == step.PruneResult()
    assert shop.names() == EPOCHS
    assert wait_and_act(shop, 50).moved_count == 4


def test_a_job_that_works_elsewhere_keeps_nothing_once_its_directory_was_looked_for(shop):
    shop.arriving = [[shop.make_job(2, comment="", work_dir=elsewhere(shop))]]
    assert shop.act().moved_count == 4


def test_a_job_whose_directory_could_not_be_looked_for_keeps_all_of_its_owner(shop):
    shop.parts = replace(shop.parts, runner=replace(shop.parts.runner, search=lambda *_, **__: None))
    shop.arriving = [[shop.make_job(2, comment="", work_dir=elsewhere(shop))]]
    assert shop.act() == step.PruneResult()
    assert shop.names() == EPOCHS


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_job_of_somebody_else_keeps_only_the_directory_in_which_it_works_and_not_for_long(shop, is_inside):
    work_dir = PurePosixPath(shop.directory) if is_inside else PurePosixPath("/")
    shop.arriving = [[shop.make_job(2, uid=UID + 1, user="bob", comment="", work_dir=work_dir)]]
    assert shop.act().moved_count == (0 if is_inside else 4)
    assert wait_and_act(shop).moved_count == (4 if is_inside else 0)


def test_what_was_moved_comes_back_when_a_job_began_before_that(shop):
    shop.arriving = [[], [shop.make_job(2)]]
    before = {name: (shop.directory / name).read_bytes() for name in EPOCHS}
    done = shop.act()
    assert (done.moved_count, done.moved_bytes, done.failed_count) == (0, 0, 4)
    assert {name: (shop.directory / name).read_bytes() for name in shop.names()} == before
    assert shop.trashed() == []
    restored = shop.audit(audit_entries.RESTORE)
    assert {entry.target for entry in restored} == {str(shop.directory / name) for name in EPOCHS[:4]}
    assert {entry.outcome for entry in restored} == {"restored"}
    assert all("job 2 has just started" in entry.reasons[0] for entry in restored)
    assert not any(record.pruned_at or record.deleted_at for record in shop.record().values())
    assert wait_and_act(shop) == step.PruneResult()
    assert save_and_act(shop).moved_count == 4


def test_what_was_moved_stays_in_the_trash_when_the_job_that_began_works_elsewhere(shop):
    shop.arriving = [[], [shop.make_job(2, comment="", work_dir=elsewhere(shop))]]
    assert shop.act().moved_count == 4


def test_what_was_moved_comes_back_when_the_queue_cannot_be_read_after_it(shop):
    read, asked = shop.queue.read_queue, []

    def read_queue(now):
        asked.append(now)
        return read(now) if len(asked) < 3 else Unknown(what="queue", reason="down")

    shop.queue.read_queue = read_queue
    shop.act()
    assert len(asked) == 3
    assert shop.names() == EPOCHS
    shop.queue.read_queue = read
    assert wait_and_act(shop).moved_count == 4


def test_nothing_is_moved_when_the_look_just_before_it_fails(shop):
    read, asked = shop.queue.read_queue, []

    def read_queue(now):
        asked.append(now)
        return read(now) if len(asked) < 2 else Unknown(what="queue", reason="down")

    shop.queue.read_queue = read_queue
    assert shop.act() == step.PruneResult()
    assert shop.audit() == []


def test_a_job_that_the_schedule_sees_between_two_removals_stops_the_next(shop, monkeypatch):
    other = shop.root / "home/second"
    first = shop.directory
    other.mkdir()
    shop.directory = other
    own(other)
    shop.start_job(3, comment="ckpt=second")
    shop.train(range(1, 7), saves_per_look=6)
    shop.end_jobs()
    shop.wait(90)
    moved = []
    move_aside = trash_client.move_aside

    def move(agent, requests, now, deadline):
        if not moved:
            shop.now += timedelta(seconds=1)
            shop.queue.jobs = (shop.make_job(4, comment="ckpt=second"),)
            shop.poll()
        moved.extend(str(request.path) for request in requests)
        return move_aside(agent, requests, now, deadline)

    monkeypatch.setattr(trash_client, "move_aside", move)
    shop.act()
    assert {path.rpartition("/")[0] for path in moved} == {str(first)}


def test_a_name_that_the_new_job_has_taken_is_the_jobs_and_the_old_file_stays_in_the_trash(shop):
    read, asked = shop.queue.read_queue, []

    def read_queue(now):
        asked.append(now)
        if len(asked) == 3:  # after the move
            (shop.directory / "epoch_1.npz").write_bytes(b"the job's own")
            shop.queue.jobs = (shop.make_job(2),)
        return read(now)

    shop.queue.read_queue = read_queue
    shop.act()
    assert (shop.directory / "epoch_1.npz").read_bytes() == b"the job's own"
    assert len(shop.trashed()) == 1
    assert shop.names() == EPOCHS
    assert shop.memory.pruned.unconfirmed_run_count == 1
    wait_and_act(shop, 15)
    assert shop.memory.pruned.unconfirmed_run_count == 0
    assert [entry for entry in shop.audit() if entry.outcome is None] == []
