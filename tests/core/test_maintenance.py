"""Maintenance reservations: whom they concern, what they excuse, and what is not said meanwhile."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.model import EndCause, JobKey, JobState, Maintenance, Severity
from ckptd.core.queue import JobChanges, TrackedJob, maintenance
from ckptd.core.text import hostlist
from ckptd.present.formatting import format_instant
from core.histories import RUN, START, at, attempt, history, job, saved, scan_at, text_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", {"n1"}),
        ("n[1-3,07],gpu05", {"n1", "n2", "n3", "n07", "gpu05"}),
        ("med[0099-0101]", {"med0099", "med0100", "med0101"}),
        ("r[1-2]c[1-2]-x", {"r1c1-x", "r1c2-x", "r2c1-x", "r2c2-x"}),
        ("", set()),
        ("n[,m", {"n", "m"}),
        ("n[a-b],[3-1],m", {"m"}),
    ],
)
def test_a_list_of_nodes_is_what_slurm_means_by_it(text, names):
    assert hostlist.expand(text) == names


def test_a_list_of_nodes_that_never_ends_is_cut_off():
    assert len(hostlist.expand("n[0-999999999]")) == hostlist.MAX_NODES


def reserved(begin, end, *nodes, name="maint"):
    return Maintenance(name, at(begin), at(end), frozenset(nodes or {"n1"}))


def run_on(node, now, *reservations, limit=1440.0, **changes):
    one = job(node_list=node, time_limit=timedelta(minutes=limit), ends_at=at(limit))
    return history(now=now, jobs=[one], maintenance=reservations, **changes)


ENDS = {
    "none": ([], (1440, None)),
    "of other nodes": ([reserved(600, 900, "n9")], (1440, None)),
    "before the limit": ([reserved(600, 900, "n1", "n9")], (600, "maint")),
    "behind the limit": ([reserved(1500, 1900)], (1440, None)),
    "that lasts already": ([reserved(50, 900)], (1440, None)),
    "two": ([reserved(900, 950, name="late"), reserved(600, 650, name="early")], (600, "early")),
}


@pytest.mark.parametrize(("reservations", "expected"), ENDS.values(), ids=ENDS)
def test_a_maintenance_of_its_nodes_may_end_a_job_before_its_limit(reservations, expected):
    given = run_on("n[1-2]", 100, *reservations)
    ends_at, found = maintenance.next_end(given, given.jobs[0], at(100))
    assert (ends_at, found and found.name) == (at(expected[0]), expected[1])


def test_a_job_without_a_limit_ends_with_a_maintenance_or_not_at_all():
    unlimited = job(node_list="n1", time_limit=None, ends_at=None)
    given = history(jobs=[unlimited], maintenance=(reserved(600, 900),))
    assert maintenance.next_end(given, unlimited, at(0))[0] == at(600)
    assert maintenance.next_end(history(jobs=[unlimited]), unlimited, at(0)) is None


def test_a_maintenance_that_slurm_has_forgotten_is_remembered_for_the_grace_after_it():
    daily, early, coming = reserved(0, 60, name="daily"), reserved(10, 900), reserved(300, 400, name="coming")
    next_day = reserved(1440, 1500, name="daily")
    known = maintenance.remember((), (daily, early, coming), at(20))
    assert known == (daily, early, coming)
    known = maintenance.remember(known, (next_day,), at(65))
    assert known == (next_day, daily, reserved(10, 65))
    assert maintenance.is_under_way(run_on("n1", 89, *known), at(89))
    assert maintenance.remember(known, (next_day,), at(92)) == (next_day, reserved(10, 65))
    assert maintenance.remember(known, (next_day,), at(95)) == (next_day,)


HOURLY = [saved(minute, step=minute, took=2) for minute in (60, 120, 180)]


def test_work_that_a_maintenance_may_take_is_told_and_never_as_certain():
    for minute, severity in ((100, None), (205, Severity.INFO), (222, Severity.WARNING), (224.5, Severity.WARNING)):
        there = [each for each in HOURLY if each.first_seen_at <= at(minute)]
        given = run_on("n1", minute, reserved(225, 500), checkpoints=there)
        found = [
            (finding.severity, finding.evidence["maintenance"]) for finding in AtRisk().evaluate(given, at(minute))
        ]
        assert found == ([(severity, "maint")] if severity else [])
    [finding] = AtRisk().evaluate(given, at(224.5))
    assert f"(maint) from {format_instant(at(225))}, before its time limit" in text_of(finding)
    assert "About 45 min of work may be lost" in text_of(finding)
    [finding] = AtRisk().evaluate(run_on("n1", 205, limit=225, checkpoints=HOURLY), at(205))
    assert finding.evidence["maintenance"] is None


@pytest.mark.parametrize(("minute", "is_silent"), [(50, False), (100, True), (209, True), (211, False)])
def test_nothing_is_judged_while_the_nodes_are_in_maintenance_and_a_while_after(minute, is_silent):
    minute += 60  # an hour without a checkpoint has passed
    given = run_on("n1", minute, reserved(150, 240), limit=9999)
    found = health.evaluate(
        given, [NoCheckpointYet()], at(minute), max_age=timedelta(minutes=5), min_job_duration=timedelta(0)
    )
    assert (bool(found.undecided), bool(found.findings)) == (is_silent, not is_silent)


def test_a_job_that_waits_for_the_end_of_a_maintenance_is_accused_of_nothing():
    waiting = job(state=JobState.PENDING, reason="ReqNodeNotAvail, Reserved for maintenance", ends_at=None)
    ended = [attempt(0, 300, cause=EndCause.MAINTENANCE)]
    given = history(
        now=400,
        jobs=[waiting],
        attempts=ended,
        checkpoints=HOURLY,
        scan=scan_at(400, free_bytes=10**12, total_bytes=10**13),
        maintenance=(reserved(300, 900),),
    )
    found = health.evaluate(
        given,
        [kind() for kind in health.RULES.values()],
        at(400),
        max_age=timedelta(minutes=5),
        min_job_duration=timedelta(0),
    )
    assert (found.findings, found.undecided) == ((), frozenset())


def known(one):
    return TrackedJob(key=JobKey("c1", 1, START), job=job(node_list="n1"), run=RUN, attempt=one, last_seen_at=at(295))


EXCUSED = {
    "a failed node": (EndCause.NODE_FAILURE, 301, EndCause.MAINTENANCE),
    "requeued by an administrator a little early": (EndCause.REQUEUE, 297, EndCause.MAINTENANCE),
    "long before": (EndCause.NODE_FAILURE, 200, EndCause.NODE_FAILURE),
    "its own failure": (EndCause.FAILURE, 301, EndCause.FAILURE),
    "its own end": (EndCause.COMPLETED, 301, EndCause.COMPLETED),
}


@pytest.mark.parametrize(("cause", "minute", "expected"), EXCUSED.values(), ids=EXCUSED)
def test_an_attempt_that_ends_with_its_nodes_was_ended_by_the_maintenance(cause, minute, expected):
    one = attempt(0, minute, cause=cause)
    changes = JobChanges(cluster="c1", polled_at=at(310), ended=(one,), changed=(known(one),))
    before = {1: known(replace(one, ended_at=None, cause=None))}
    found = maintenance.excuse(changes, before, (reserved(300, 900),))
    assert (found.ended[0].cause, found.changed[0].attempt.cause) == (expected, expected)
    elsewhere = maintenance.excuse(changes, before, (reserved(300, 900, "n9"),))
    assert elsewhere == maintenance.excuse(changes, before, ()) == changes


def test_what_maintenance_ended_is_no_storm_of_restarts():
    attempts = [
        attempt(number * 4.0, number * 4.0 + 3, restart_count=number, cause=EndCause.MAINTENANCE) for number in range(5)
    ]
    attempts.append(attempt(20, restart_count=5))
    assert not list(RestartLoop().evaluate(history(now=24, attempts=attempts), at(24)))
