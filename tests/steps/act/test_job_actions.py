"""Acts are on record before they are done, and what is on record is not done again."""

import itertools
from dataclasses import replace

import pytest

from ckptd.checkpoints.agent.lease_memory import NOT_BEGUN
from ckptd.core.job_actions import action_policy
from ckptd.core.job_actions.action_policy import ActionKind, DeferReason
from ckptd.core.model import JobState, Unknown
from ckptd.steps import act as acting
from core.histories import RUN, at
from support.job_action_facts import (
    AWAY,
    LOOPING,
    Recorder,
)
from support.recorded import note_run


def test_an_act_is_on_record_before_it_is_done_as_the_user_and_never_done_again(parts, run_on_record):
    ((act, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done
    assert (act.kind, outcome) == (ActionKind.HOLD, "done")
    ((uid, argv, before),) = parts.agent.asked
    assert (uid, argv) == (1000, ["scontrol", "requeuehold", "1_7"])
    assert [(entry.action, entry.target, entry.plan_id) for entry in before] == [("hold-job", "job 1_7", act.name)]
    assert acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done == ()
    (entry,) = parts.store.audit.list_newest("c1")
    assert (entry.outcome, entry.run, entry.actor) == ("done", RUN, "actions")


def test_an_act_that_failed_or_was_cut_off_is_not_tried_again(parts, run_on_record):
    parts.agent.told = Unknown(what="command", reason="scontrol ended with 1: Access denied")
    ((_, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done
    assert outcome == "failed: scontrol ended with 1: Access denied"
    assert acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done == ()


@pytest.mark.parametrize(
    ("state", "restart_count", "outcome", "command"),
    [
        ("COMPLETED", 0, "not needed: the job has ended", None),
        ("CANCELLED", 0, "not needed: the job has ended", None),
        ("RUNNING", 1, "not needed: another attempt of the job runs", None),
        ("PENDING", 1, "done", "hold"),
        ("RUNNING", 0, "done", "requeuehold"),
        ("garbled", "x", "failed: a restart count of 'x'", None),
    ],
)
def test_a_job_is_held_as_it_is_now_and_one_that_has_ended_is_not_brought_back(
    parts, run_on_record, state, restart_count, outcome, command
):
    parts.agent.now = (state, restart_count)
    assert [told for _, told in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [outcome]
    assert [argv[1] for _, argv, _ in parts.agent.asked] == ([command] if command else [])


def test_a_job_that_is_held_already_is_not_held_once_more(parts, run_on_record):
    parts.agent.now = ("PENDING", 1, "JobHeldUser")
    assert [told for _, told in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [
        "not needed: the job is held already"
    ]
    assert parts.agent.asked == []


class Killed(Recorder):
    """An agent whose daemon is killed while it acts."""

    def run(self, batches):
        super().run(batches)
        raise KeyboardInterrupt


def interrupt_a_hold(parts):
    with pytest.raises(KeyboardInterrupt):
        acting.act(replace(parts, agent=Killed(parts.store, {"output": ""})), {RUN: LOOPING}, {}, {}, at(5))


def test_a_hold_that_was_interrupted_is_known_to_be_done_once_the_queue_shows_it(parts, run_on_record):
    interrupt_a_hold(parts)
    waiting = replace(LOOPING.jobs[0], state=JobState.PENDING, restart_count=3)
    assert acting.act(parts, {RUN: replace(LOOPING, jobs=(waiting,))}, {}, {}, at(6)).done == ()
    held = replace(waiting, reason="JobHeldUser")
    acted = acting.act(parts, {RUN: replace(LOOPING, jobs=(held,))}, {}, {}, at(7))
    assert [(act.kind, outcome) for act, outcome in acted.done] == [(ActionKind.HOLD, "done")]
    ((key, hold),) = action_policy.list_holds(acted.done)
    assert (key, hold.is_own) == (LOOPING.attempts[-1].job, True)
    (entry,) = parts.store.audit.list_newest("c1")
    assert entry.outcome == "done"
    assert acting.act(parts, {RUN: replace(LOOPING, jobs=(held,))}, {}, {}, at(8)).done == ()


def test_a_hold_that_was_interrupted_and_does_not_show_is_given_up(parts, run_on_record):
    interrupt_a_hold(parts)
    assert acting.act(parts, {RUN: LOOPING}, {}, {}, at(20)).done == ()
    (entry,) = parts.store.audit.list_newest("c1")
    assert entry.outcome == "cut off: it is not known to have been done"


def test_what_the_agent_refused_because_the_lease_was_over_is_tried_again(parts, run_on_record):
    parts.agent.told = Unknown(what="agent", reason=f"refused: {NOT_BEGUN}")
    ((_, outcome),) = acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done
    assert outcome == f"failed: refused: {NOT_BEGUN}"
    parts.agent.told = {"output": ""}
    assert [outcome for _, outcome in acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done] == ["done"]


def looping_since(restart_count):
    """The same loop, later: acts are named by attempts."""
    later = tuple(replace(each, restart_count=each.restart_count + restart_count) for each in LOOPING.attempts)
    return replace(LOOPING, attempts=later)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("failed: scontrol: error: no", "failed: scontrol: error: no"),
        ("scontrol ended with 1: no", "failed: scontrol ended with 1: no"),
        ("failed: Job/step already completing or completed for job 1", "not needed: the job has ended"),
        ("failed: Invalid job id specified", "not needed: the job has ended"),
    ],
)
def test_what_slurm_refused_is_told_once_and_a_job_that_has_ended_is_no_failure(parts, run_on_record, reason, outcome):
    parts.agent.told = Unknown(what="command", reason=reason)
    assert [told for _, told in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [outcome]


def test_no_more_acts_an_hour_than_the_site_allows(parts, run_on_record):
    for number in range(5):
        again = looping_since(number)
        acted = acting.act(parts, {RUN: again}, {}, {}, at(5 + number))
    assert len(parts.agent.asked) == 2
    assert [act.kind for act in acted.deferred] == [ActionKind.HOLD]
    acting.act(parts, {RUN: looping_since(9)}, {}, {}, at(70))
    assert len(parts.agent.asked) == 3
    assert parts.store.audit.count_by_owner("c1", "actions", at(0)) == {("hold-job", 1000): 3}


def test_while_slurm_is_silent_nothing_is_done_and_what_is_due_waits(parts, run_on_record):
    for minute in (5, 6):
        acted = acting.wait_for_slurm(parts, {RUN: LOOPING}, {}, at(minute))
        assert ([act.kind for act in acted.deferred], acted.waits_for) == ([ActionKind.HOLD], DeferReason.SLURM)
    assert (parts.agent.asked, parts.store.audit.list_newest("c1")) == ([], ())
    acting.act(parts, {RUN: LOOPING}, {}, {}, at(7))
    assert acting.wait_for_slurm(parts, {RUN: LOOPING}, {}, at(8)).deferred == ()


def test_whoever_keeps_one_act_waiting_has_the_others_wait_for_the_next_time(parts, run_on_record, monkeypatch):
    def looping(run, restart_count):
        note_run(parts.store, run, at(0))
        return replace(looping_since(restart_count), key=run, jobs=(replace(LOOPING.jobs[0], uid=run.uid),))

    parts = replace(parts, permits=replace(parts.permits, max_per_hour=100))
    runs = [RUN, RUN._replace(directory="/scratch/alice/more"), RUN._replace(uid=1001)]
    loops = {run: looping(run, number) for number, run in enumerate(runs)}
    clock = itertools.count(0, 11)
    monkeypatch.setattr(acting.time, "monotonic", lambda: next(clock))
    acting.act(parts, loops, {}, {}, at(5))
    assert [uid for uid, _, _ in parts.agent.asked] == [1000, 1001]
    acting.act(parts, loops, {}, {}, at(6))
    assert [uid for uid, _, _ in parts.agent.asked] == [1000, 1001, 1000]


def test_a_hold_that_slurm_was_not_there_for_is_tried_again(parts, run_on_record):
    parts.agent.told = Unknown(what="command", reason=AWAY)
    assert [outcome for _, outcome in acting.act(parts, {RUN: LOOPING}, {}, {}, at(5)).done] == [f"failed: {AWAY}"]
    parts.agent.told = {"output": ""}
    assert [outcome for _, outcome in acting.act(parts, {RUN: LOOPING}, {}, {}, at(6)).done] == ["done"]
