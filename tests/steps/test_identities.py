"""Jobs whose numbers mean more or less than one job: parts, siblings in a federation, numbers used again."""

from dataclasses import replace
from pathlib import Path

import pytest

from ckptd.core.model import EndCause, JobKey, RestartKind
from ckptd.core.queue import accounting_merge
from ckptd.core.queue.job_records import JobChanges, TrackedJob
from ckptd.slurm import accounting, queue_json
from ckptd.steps.polled_queue import PolledQueue
from support.queue_facts import CLUSTER, NOON, RUN, STATES, at, make_checkpoint, make_job, make_row

DATA = Path(__file__).parents[1] / "data/slurm/22.05.8/federation"
FEDERATED = (3 << 26) + 41  # a federation's clusters give out numbers with their own in the high bits


def attempts_of(history):
    return [(a.job.job_id, a.restart_count, a.kind, a.cause) for a in history.attempts]


def rules_of(service):
    flags = service.parts.store.flags.read(CLUSTER, include_resolved=True)
    return {flag.finding.rule for flag in flags if flag.finding.run == RUN}


def test_a_heterogeneous_job_is_one_run_of_one_job_and_its_parts_are_no_restarts(lives):
    service = lives(0)

    def parts(state=STATES.RUNNING, restart_count=0, **changes):
        return [make_job(number, state, restart_count, het_job_id=1, **changes) for number in (1, 2, 3)]

    service.run(0, *parts())
    service.parts.agent.checkpoints = (make_checkpoint(written=5),)
    history = service.run(10, *parts())
    assert attempts_of(history) == [(1, 0, None, None)]
    assert history.attempts[0].node_count == 3
    service.run(11, *parts(STATES.PENDING, 1, submitted_at=at(10.5), started_at=None))
    history = service.run(13, *parts(STATES.RUNNING, 1, submitted_at=at(10.5), started_at=at(12)))
    assert attempts_of(history) == [(1, 0, None, EndCause.REQUEUE), (1, 1, RestartKind.REQUEUE, None)]
    assert rules_of(service) == set()
    [line] = service.parts.store.lost_work.list_lines(RUN)
    assert line.loss.node_seconds == 3 * line.loss.lost.total_seconds()


def test_a_sibling_that_started_on_another_cluster_is_none_of_this_one(lives):
    service = lives(0)
    sibling = make_job(FEDERATED, STATES.PENDING, started_at=None, ends_at=None, node_list="", node_count=0)
    service.run(0, sibling)
    for minute in (1, 2, 3):  # the times are always those of a start just now
        service.run(minute, replace(sibling, state=STATES.REVOKED, started_at=at(minute), ends_at=at(minute + 60)))
    service.run(4)
    assert service.parts.store.histories.read(CLUSTER, [RUN]) == []
    assert FEDERATED not in service.state.latest(PolledQueue).tracked


def test_a_federated_job_that_goes_away_and_comes_back_is_the_same_job(lives):
    service = lives(0)
    service.run(0, make_job(FEDERATED))
    service.parts.agent.checkpoints = (make_checkpoint(written=5),)
    service.run(10, make_job(FEDERATED))
    waits = make_job(FEDERATED, STATES.REQUEUE_FED, 1, submitted_at=at(11), started_at=None, node_list="")
    service.run(11, waits)
    for minute in (12, 13):
        service.run(minute, replace(waits, state=STATES.REVOKED, started_at=at(minute), ends_at=at(minute + 60)))
    again = make_job(FEDERATED, STATES.PENDING, 2, submitted_at=at(30), started_at=None, node_list="")
    service.run(31, again)
    history = service.run(33, make_job(FEDERATED, STATES.RUNNING, 2, submitted_at=at(30), started_at=at(32)))
    assert attempts_of(history) == [
        (FEDERATED, 0, None, EndCause.REQUEUE),
        (FEDERATED, 2, RestartKind.REQUEUE, None),  # the one between them was the other cluster's
    ]
    assert len({attempt.job for attempt in history.attempts}) == 1
    assert service.state.latest(PolledQueue).tracked[FEDERATED].is_open


def test_a_job_that_went_on_elsewhere_between_two_looks_was_requeued_and_not_cancelled(lives):
    service = lives(0)
    service.run(0, make_job(FEDERATED))
    elsewhere = make_job(FEDERATED, STATES.REVOKED, 1, submitted_at=at(5), started_at=at(9), ends_at=at(69))
    service.run(9, replace(elsewhere, node_list=""))
    [history] = service.parts.store.histories.read(CLUSTER, [RUN])
    assert attempts_of(history) == [(FEDERATED, 0, None, EndCause.REQUEUE)]


@pytest.mark.parametrize(
    ("cluster", "job", "states"),
    [
        ("origin", 67108865, [STATES.CANCELLED]),
        ("other", 67108865, [STATES.REQUEUED, STATES.REQUEUED]),
        ("origin", 134217729, []),
    ],
)
def test_accounting_tells_of_each_cluster_what_ran_there(cluster, job, states):
    """In between it has a line for each time that the job began on the other one."""
    text = (DATA / f"{cluster}.sacct.txt").read_text()
    rows = accounting.parse_sacct(text, [job])
    assert STATES.REVOKED in {row.state for row in rows}
    gone = TrackedJob(key=JobKey(CLUSTER, job, at(0)), job=make_job(job), attempt=None, run=RUN, last_seen_at=at(0))
    now = rows[-1].ended_at
    settled = accounting_merge.merge_accounting(JobChanges(cluster=CLUSTER, polled_at=now, vanished=(gone,)), rows, now)
    assert [attempt.state for attempt in settled.ended] == states


def test_a_number_used_again_while_nobody_looked_is_another_job_and_accounting_is_not_mixed_up(lives):
    """MaxJobId was reached: the same user's next job in the same directory has the number of the first one."""
    first = lives(0)
    first.run(0, make_job(1))
    second = lives(30)
    rows = (
        make_row(1, -1, 20, STATES.NODE_FAIL),
        make_row(1, 24, 28, STATES.FAILED),
        make_row(1, 30, 40, STATES.FAILED),
    )
    second.parts.source.ended = rows[:2]
    wrapped = make_job(1, submitted_at=at(29), started_at=at(30), ends_at=at(90))
    history = second.run(31, wrapped)
    assert [(a.started_at, a.cause, a.kind) for a in history.attempts] == [
        (at(-1), EndCause.NODE_FAILURE, None),
        (at(30), None, RestartKind.RESUBMIT),
    ]
    assert len({attempt.job for attempt in history.attempts}) == 2
    second.parts.source.ended = rows
    second.run(41, replace(wrapped, state=STATES.FAILED, ends_at=at(40)))
    [history] = second.parts.store.histories.read(CLUSTER, [RUN])
    assert [(a.cause, a.ended_at) for a in history.attempts] == [
        (EndCause.NODE_FAILURE, at(20)),
        (EndCause.FAILURE, at(40)),
    ]


def test_numbers_are_read_as_slurm_prints_them():
    lines = "\n".join(
        f"{number}|{state}|1779278401|1779278402|1779278409|n1|1|2|cpu=2,node=1|00:00:00|{number}"
        for number, state in ((1, "REQUEUED"), (2, "CANCELLED by 0"), (FEDERATED, "REVOKED"))
    )
    rows = accounting.parse_sacct(lines, [1, 2, FEDERATED])
    assert [(row.job_id, row.state) for row in rows] == [
        (1, STATES.REQUEUED),
        (2, STATES.CANCELLED),
        (FEDERATED, STATES.REVOKED),
    ]


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        (0, None),
        (1, 1),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": False, "number": 1}, 1),
    ],
)
def test_the_first_part_is_named_in_every_shape_of_json(printed, meant):
    row = {
        "job_id": 2,
        "job_state": ["RUNNING"],
        "het_job_id": printed,
        "het_job_offset": 1,
        "user_name": "alice",
        "user_id": 1000,
        "restart_cnt": 0,
        "requeue": True,
    }
    assert queue_json.build(row, CLUSTER, NOON).het_job_id == meant
