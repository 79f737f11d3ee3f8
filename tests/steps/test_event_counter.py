"""What is counted since the start: each event once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.fleet.event_counts import EventTotals
from ckptd.core.fleet.histogram import Distribution
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import CheckpointState, EndCause, Finding, Flag, RestartKind, Severity
from ckptd.core.queue import JobChanges
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.steps.event_counter import EventCounter, list_saves
from core.histories import RUN, at, attempt, saved

PROOF = (attempt().job, 0)


def mine(record):
    return replace(record, attempt=PROOF)


def count(events, recorded, changes):
    events.count_checkpoints(recorded, changes, list_saves(recorded))


def test_restarts_and_ends_are_counted_by_kind_and_cause():
    changes = JobChanges(
        cluster="c1",
        polled_at=at(0),
        begun=(attempt(), attempt(5, restart_count=1), attempt(6, kind=RestartKind.ARRAY)),
        ended=(attempt(0, 4), attempt(0, 4, cause=EndCause.NODE_FAILURE)),
    )
    events = EventCounter()
    events.count_jobs(changes)
    totals = events.read()
    assert totals.restarts == {RestartKind.REQUEUE: 1, RestartKind.ARRAY: 1, RestartKind.RESUBMIT: 0}
    assert totals.ended_attempts[EndCause.REQUEUE] == 1
    assert totals.ended_attempts[EndCause.NODE_FAILURE] == 1
    assert EventTotals().restarts[RestartKind.REQUEUE] == 0


def test_flags_are_counted_where_they_open_and_resolve():
    flag = Flag(
        finding=Finding(
            rule="at-risk", severity=Severity.WARNING, run=RUN, job_id=1, user="alice", evidence={}, recorded_advice=""
        ),
        opened_at=at(0),
    )
    events = EventCounter()
    events.count_flags(FlagChanges(opened=(flag,), worsened=(flag,), updated=(flag,)))
    events.count_flags(FlagChanges(resolved=(flag,)))
    totals = events.read()
    assert {name: count for name, count in totals.opened_flags.items() if count} == {("at-risk", Severity.WARNING): 1}
    assert totals.opened_flags["restart-loop", Severity.CRITICAL] == 0  # so that the first one is an increase
    assert totals.resolved_flags == {"at-risk": 1}


def test_the_counters_of_a_format_begin_with_0_before_its_first_event():
    events = EventCounter()
    count(events, [saved(10)], CheckpointChanges())
    totals = events.read()
    assert totals.completed_checkpoints == totals.completed_bytes == totals.damaged_checkpoints == {"torch": 0}


def test_a_save_is_counted_when_it_becomes_complete_and_not_again():
    writing = mine(saved(10, state=CheckpointState.WRITING, took=2))
    complete = replace(
        writing, checkpoint=replace(writing.checkpoint, state=CheckpointState.COMPLETE), completed_at=at(10)
    )
    events = EventCounter()
    count(events, [], CheckpointChanges(appeared=(writing,)))
    assert events.read().completed_checkpoints == {"torch": 0}
    count(events, [writing], CheckpointChanges(changed=(complete,)))
    touched = replace(complete, is_pinned=True)
    count(events, [complete], CheckpointChanges(changed=(touched,)))
    totals = events.read()
    assert totals.completed_checkpoints == {"torch": 1}
    assert totals.completed_bytes == {"torch": 100}
    assert totals.save_seconds.total == 120


def test_old_files_that_are_seen_for_the_first_time_are_no_saves():
    events = EventCounter()
    count(events, [], CheckpointChanges(appeared=(saved(10), saved(20))))
    totals = events.read()
    assert totals.completed_checkpoints == totals.completed_bytes == totals.damaged_checkpoints == {"torch": 0}
    assert totals.save_seconds == EventTotals().save_seconds
    assert totals.interval_seconds == EventTotals().interval_seconds


def test_the_interval_is_that_to_the_save_before_in_the_same_attempt():
    other = replace(saved(29), attempt=(attempt().job, 1))
    known = [mine(saved(10)), mine(saved(20)), other]
    events = EventCounter()
    count(events, known, CheckpointChanges(appeared=(mine(saved(30)),)))
    totals = events.read()
    assert totals.interval_seconds.total == 600
    assert totals.interval_seconds.count == 1


def test_a_checkpoint_that_turns_out_damaged_is_counted_once():
    damaged = mine(saved(10, state=CheckpointState.DAMAGED))
    events = EventCounter()
    count(events, [], CheckpointChanges(appeared=(damaged,)))
    count(events, [damaged], CheckpointChanges(changed=(replace(damaged, is_pinned=True),)))
    assert events.read().damaged_checkpoints == {"torch": 1}


@given(st.lists(st.floats(min_value=0, max_value=1e6)))
def test_a_distribution_counts_every_value_at_or_below_its_bound(values):
    bounds = (1.0, 10.0, 1000.0)
    cumulative = Distribution.empty(bounds).plus(values).cumulative()
    expected = [sum(value <= bound for value in values) for bound in bounds]
    assert [count for _, count in cumulative] == [*expected, len(values)]
