"""Parts as squeue shows them, recorded from a job of two parts on Slurm 22.05."""

import pytest

from ckptd.core import queue
from ckptd.core.model import EndCause, JobState
from ckptd.core.queue.heterogeneous import join_parts
from support.queue_facts import at, follow, look, make_job


def part(job_id, state=JobState.RUNNING, restart_count=0, **changes):
    return make_job(job_id, state, restart_count, **({"het_job_id": 1, "cpu_count": 2, "gpu_count": 1} | changes))


@pytest.mark.parametrize(
    ("states", "nodes"),
    [
        (("RUNNING", "RUNNING"), 2),
        (("RUNNING", "CANCELLED"), 1),
        (("CANCELLED", "CANCELLED"), 2),
        (("PENDING", "PENDING"), 2),
    ],
)
def test_parts_are_one_job_with_the_nodes_of_all_that_go_on(states, nodes):
    first, second = (part(number, JobState(state)) for number, state in enumerate(states, 1))
    other = make_job(7)
    for order in ((first, second, other), (second, first, other)):
        (whole, alone) = join_parts(order)
        assert (whole.job_id, whole.state.value, alone) == (1, states[0], other)
        assert (whole.node_count, whole.cpu_count, whole.gpu_count) == (nodes, 2 * nodes, nodes)


def test_a_part_that_ended_before_the_others_is_not_counted_with_their_end():
    parts = [part(number, JobState.CANCELLED, ends_at=at(9)) for number in (1, 2)]
    early = part(3, JobState.CANCELLED, ends_at=at(2))
    (whole,) = join_parts([*parts, early])
    assert (whole.node_count, whole.cpu_count, whole.gpu_count) == (2, 4, 2)


def test_parts_without_their_first_one_are_no_job():
    assert join_parts([part(2), make_job(7)]) == (make_job(7),)


def test_a_queue_without_such_jobs_is_as_it_was():
    jobs = (make_job(1), make_job(2))
    assert join_parts(jobs) == jobs


def test_a_requeue_of_all_parts_is_one_attempt_after_another():
    """The first part completes while the second waits already."""
    looks = (
        (0, part(1), part(2)),
        (1, part(1, JobState.COMPLETING, 1), part(2, JobState.PENDING, 1, submitted_at=at(0.9), started_at=at(1.1))),
        (2, *(part(number, JobState.PENDING, 1, submitted_at=at(0.9), started_at=at(1.1)) for number in (1, 2))),
        (3, *(part(number, JobState.RUNNING, 1, submitted_at=at(0.9), started_at=at(2.5)) for number in (1, 2))),
        (4, *(part(number, JobState.CANCELLED, 1, started_at=at(2.5), ends_at=at(4)) for number in (1, 2))),
    )
    tracked, ended = {}, []
    for minutes, *jobs in looks:
        changes = queue.compare(tracked, look(minutes, *join_parts(jobs)))
        tracked = queue.apply(tracked, changes)
        ended += [(attempt.job.job_id, attempt.restart_count, attempt.cause) for attempt in changes.ended]
    assert ended == [(1, 0, EndCause.REQUEUE), (1, 1, EndCause.CANCEL)]
    assert set(tracked) == {1}
    assert (tracked[1].attempt.node_count, tracked[1].attempt.started_at) == (2, at(2.5))


def test_a_part_that_ends_early_takes_its_nodes_along():
    _, tracked = follow(
        look(0, *join_parts([part(1), part(2)])), look(1, *join_parts([part(1), part(2, JobState.CANCELLED)]))
    )
    assert (tracked[1].attempt.node_count, tracked[1].is_open) == (1, True)
