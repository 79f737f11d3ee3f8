from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.job_actions import action_policy
from ckptd.core.job_actions.action_policy import ActionKind, ActionPermits
from ckptd.core.job_actions.resubmit_policy import TimedOutRun
from ckptd.core.model import AttemptProgress, EndCause, Hold, JobState, Unknown, UserSettings
from core.histories import RUN, at, attempt, history, job, saved
from support.run_builder import change

ALL = ActionPermits(partitions=dict.fromkeys(ActionKind, ("gpu*",)))
LIMITED = {"partition": "gpu1", "time_limit": timedelta(minutes=60), "ends_at": at(60)}


def plan(runs, finished, permits, now):
    return action_policy.plan(runs, finished, permits, now, loop_rule=lambda _: RestartLoop())


def kinds(*histories, finished=None, permits=ALL, now=5):
    return [act.kind for act in plan(histories, finished or {}, permits, at(now))]


def near_its_limit(now=59.5, comment="ckpt-signal=B:USR1", **changes):
    saves = [saved(minute, step=minute) for minute in (10, 20, 30, 40)]
    return history(now=now, jobs=[job(comment=comment, **{**LIMITED, **changes})], checkpoints=saves)


def test_a_signal_is_sent_when_the_time_left_is_just_enough_and_work_is_at_risk():
    (act,) = plan([near_its_limit()], {}, ALL, at(59.5))
    assert (act.kind, act.word, act.job.job_id) == (ActionKind.SIGNAL, "B:USR1", 1)
    assert act.reasons[0].startswith("30 s are left")


@pytest.mark.parametrize(
    ("changes", "now"),
    [
        pytest.param({}, 50, id="too early"),
        pytest.param({}, 60, id="too late"),
        pytest.param({"comment": ""}, 59.5, id="no handler declared"),
        pytest.param({"comment": "ckpt-signal=KILL"}, 59.5, id="a signal that saves nothing"),
        pytest.param({"comment": "ckpt-signal=USR1x"}, 59.5, id="another word"),
        pytest.param({"partition": "cpu"}, 59.5, id="another partition"),
        pytest.param({"partition": "gpu1,cpu"}, 59.5, id="not in every partition"),
        pytest.param({"state": JobState.SUSPENDED}, 59.5, id="suspended"),
        pytest.param({"time_limit": None}, 59.5, id="no limit"),
    ],
)
def test_no_signal_otherwise(changes, now):
    assert kinds(near_its_limit(now, **changes), now=now) == []


def test_no_signal_where_little_would_be_lost_or_the_directory_is_unknown():
    fresh = replace(near_its_limit(), checkpoints=(saved(59, step=1),))
    assert kinds(fresh, now=59.5) == []
    assert kinds(replace(near_its_limit(), scan=Unknown(what="x", reason="y")), now=59.5) == []


def test_the_users_file_declares_a_signal_too_and_the_comment_wins():
    wished = replace(near_its_limit(comment=""), user_settings=UserSettings(signal="SIGTERM"))
    assert [act.word for act in plan([wished], {}, ALL, at(59.5))] == ["TERM"]
    both = replace(near_its_limit(), user_settings=UserSettings(signal="TERM"))
    assert [act.word for act in plan([both], {}, ALL, at(59.5))] == ["B:USR1"]


def test_a_job_is_to_be_signalled_where_it_declares_a_signal_and_the_site_sends_it():
    jobs = [
        job(1, partition="gpu1", comment="ckpt-signal=USR1"),
        job(2, partition="cpu", comment="ckpt-signal=USR1"),
        job(3, partition="gpu1"),
    ]
    assert action_policy.list_signalled(history(jobs=jobs), ALL) == {1: timedelta(minutes=1)}
    assert action_policy.list_signalled(history(jobs=jobs, user_settings=UserSettings(signal="TERM")), ALL).keys() == {
        1,
        3,
    }
    slow = history(jobs=jobs, checkpoints=[saved(minute, step=minute, took=2) for minute in (10, 20, 30)])
    assert action_policy.list_signalled(slow, ALL) == {1: timedelta(minutes=4)}  # when it is sent


def test_a_job_whose_signal_could_not_be_sent_is_not_expected_to_save():
    near, signalled = near_its_limit(), {1: timedelta(minutes=1)}
    (act,) = plan([near], {}, ALL, at(59.5))
    assert action_policy.is_signal_due(near, signalled, at(59.5))
    assert not action_policy.is_signal_due(near, signalled, at(58))
    assert action_policy.without_failed(near, signalled, {act.name: "failed: scancel ended with 1"}) == {}
    for outcomes in ({act.name: "done"}, {act.name: None}, {"signal-job/other": "failed: no"}, {}):
        assert action_policy.without_failed(near, signalled, outcomes) == signalled


def test_nothing_is_planned_where_the_site_has_not_opted_in():
    assert kinds(near_its_limit(), permits=ActionPermits(partitions={}), now=59.5) == []
    only_hold = ActionPermits(partitions={ActionKind.HOLD: ("*",)})
    assert kinds(near_its_limit(), permits=only_hold, now=59.5) == []


LOOP = frozenset({("restart-loop", 1)})


def requeued(count, *, job_id=1):
    return [attempt(number, number + 0.9, restart_count=number, job_id=job_id) for number in range(count)]


def looping(attempts=None, *, now=5, own=None, **changes):
    jobs = [own or job(partition="gpu1", restart_count=3)]
    return history(now=now, jobs=jobs, attempts=attempts or requeued(3), **{"flagged": LOOP, **changes})


def running(restart_count, start=None, *, job_id=1):
    return attempt(restart_count if start is None else start, restart_count=restart_count, job_id=job_id)


RELEASED = {requeued(1)[0].job: Hold(3, frozenset(), is_own=True)}
HELD = job(partition="gpu1", state=JobState.PENDING, reason="JobHeldUser", restart_count=3)
HOLDS = {
    "the third requeue saved nothing": (looping(), True),
    "only two": (looping(requeued(2)), False),
    "the third has not failed yet, long as it runs": (looping([*requeued(2), running(2)], now=90), False),
    "the directory was not read since": (looping(now=2.5), False),
    "no flag is open": (looping(flagged=frozenset()), False),
    "it is held already": (looping(own=HELD), False),
    "released, and running": (looping([*requeued(3), running(3)], holds=RELEASED), False),
    "released, and failed twice": (looping([*requeued(5), running(5)], now=7, holds=RELEASED), False),
    "released, and failed three times": (looping([*requeued(6), running(6)], now=7, holds=RELEASED), True),
    "submitted anew, and running": (looping([*requeued(3, job_id=9), running(0, 4)]), False),
    "three submissions that failed": (
        looping([*(attempt(n, n + 0.9, job_id=7 + n) for n in range(3)), running(0, 4)]),
        False,
    ),
    "what the last hold broke off is no failure": (
        looping([*requeued(5), running(5)], now=7, holds={requeued(1)[0].job: Hold(0, frozenset({0, 1, 2}))}),
        False,
    ),
}


@pytest.mark.parametrize(("run", "is_held"), HOLDS.values(), ids=HOLDS)
def test_a_job_is_held_for_its_own_requeues_since_it_was_submitted_or_let_go_on(run, is_held):
    only_hold = ActionPermits(partitions={ActionKind.HOLD: ("*",)})
    assert kinds(run, permits=only_hold, now=100) == [ActionKind.HOLD] * is_held


def test_nobodys_job_is_held_where_the_site_has_turned_the_rule_off():
    assert (
        action_policy.plan(
            [looping()], {}, ActionPermits(partitions={ActionKind.HOLD: ("*",)}), at(5), loop_rule=lambda _: None
        )
        == ()
    )


def test_what_was_held_is_read_from_the_name_of_its_act():
    (act, *_) = plan([looping([*requeued(3), running(3)])], {}, ALL, at(5))
    key = requeued(1)[0].job
    assert action_policy.read_hold("c1", act.name, act.word) == (key, Hold(4, frozenset({3}), is_own=True))
    assert (
        list(action_policy.list_holds([(act, "failed: no"), (replace(act, kind=ActionKind.SIGNAL, name="x"), "done")]))
        == []
    )
    (act, *_) = plan([looping()], {}, ALL, at(5))
    assert list(action_policy.list_holds([(act, "done")])) == [(key, Hold(3, frozenset(), is_own=True))]


def test_a_loop_is_held_and_told_in_the_admin_comment():
    acts = plan([looping()], {}, ALL, at(5))
    assert [act.kind for act in acts] == [ActionKind.HOLD, ActionKind.SUMMARY]
    assert acts[1].word == "ckptd: restart-loop; no checkpoint"


def test_a_job_that_saves_every_minute_gets_another_summary_once_an_hour_and_for_every_change_of_flags():
    def summary(minutes, shown, rules=("checkpoint-overdue",)):
        flagged = frozenset((rule, 1) for rule in rules)
        own = replace(job(partition="gpu1"), admin_comment=shown)
        saving = history(jobs=[own], checkpoints=[saved(minutes, step=minutes)], flagged=flagged, now=minutes)
        return next(iter(plan([saving], {}, ALL, at(minutes))), None)

    first = summary(5, "")
    assert first.word == "ckptd: checkpoint-overdue; newest checkpoint step 5, 2026-03-01 12:05 UTC"
    assert summary(6, first.word) is None
    assert summary(59, first.word) is None
    assert summary(60, first.word).word.endswith("step 60, 2026-03-01 13:00 UTC")
    more = summary(7, first.word, ("checkpoint-overdue", "at-risk"))
    assert more.name == first.name, "within minutes it is not written again"


def test_a_federated_job_is_held_without_a_summary_that_would_stand_on_another_cluster():
    number = 67108866
    there = replace(looping(requeued(3, job_id=number)), jobs=(job(number, partition="gpu1"),))
    assert kinds(change(there, flagged=frozenset({("restart-loop", number)}))) == [ActionKind.HOLD]


def test_what_the_site_wrote_into_the_admin_comment_stays():
    there = replace(looping(), jobs=(job(partition="gpu1", admin_comment="ckpt=/data"),))
    assert kinds(there) == [ActionKind.HOLD]
    same = replace(looping(), jobs=(job(partition="gpu1", admin_comment="ckptd: restart-loop; no checkpoint"),))
    assert kinds(same) == [ActionKind.HOLD]


WISHES = UserSettings(is_resubmitted=True, max_resubmits=3)


def timed_out(*, saves=((10, 1), (50, 5)), user_settings=WISHES, finished=None, **changes):
    ended = replace(attempt(0, 60, cause=EndCause.TIME_LIMIT), state=JobState.TIMEOUT, partition="gpu1")
    run = history(jobs=(), attempts=[ended], checkpoints=[saved(minute, step=step) for minute, step in saves])
    facts = {"is_final": True, "has_successor": False, "resubmit_count": 0, **(finished or {})}
    own = job(partition="gpu1", state=JobState.TIMEOUT)
    return replace(run, user_settings=user_settings, **changes), {RUN: TimedOutRun(job=own, attempt=ended, **facts)}


def test_a_run_that_its_limit_ended_and_that_moved_on_is_submitted_again():
    run, finished = timed_out()
    (act,) = plan([run], finished, ALL, at(61))
    assert (act.kind, act.reasons[1]) == (ActionKind.RESUBMIT, "it reached step 5")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"saves": ()}, id="nothing saved"),
        pytest.param({"saves": ((-5, 9), (50, 5))}, id="below what there was"),
        pytest.param({"saves": ((70, 5),)}, id="saved by somebody else after its end"),
        pytest.param({"user_settings": UserSettings()}, id="not wished"),
        pytest.param({"user_settings": UserSettings(is_resubmitted=True)}, id="no maximum"),
        pytest.param({"finished": {"resubmit_count": 3}}, id="as often as wished"),
        pytest.param({"finished": {"has_successor": True}}, id="another job waits"),
        pytest.param({"finished": {"is_final": False}}, id="not looked at since"),
        pytest.param({"finished": {"is_late": True}}, id="long over"),
        pytest.param({"jobs": (job(),)}, id="a job of it runs"),
    ],
)
def test_no_resubmission_otherwise(case):
    run, finished = timed_out(**case)
    assert [kind for kind in kinds(run, finished=finished) if kind is ActionKind.RESUBMIT] == []


def test_what_is_no_longer_at_hand_counts_among_what_there_was():
    run, finished = timed_out(saves=((50, 5),))
    before = attempt(-60, -1, job_id=3, cause=EndCause.TIME_LIMIT)
    reaches = (AttemptProgress(100, (1, 9), None), AttemptProgress(1, (5, 5), None))
    cut = replace(run, attempts=(before, *run.attempts), is_truncated=True, reaches=reaches)
    assert kinds(cut, finished=finished) == []


def test_a_save_that_a_file_server_dates_a_moment_after_the_end_counts():
    run, finished = timed_out(saves=((60.5, 5),))
    assert [act.reasons[1] for act in plan([run], finished, ALL, at(61))] == ["it reached step 5"]


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.DEADLINE, JobState.FAILED])
def test_a_run_that_ended_otherwise_is_not_submitted_again(state):
    run, finished = timed_out()
    (facts,) = finished.values()
    assert kinds(run, finished={RUN: replace(facts, attempt=replace(facts.attempt, state=state))}) == []


@pytest.mark.parametrize("cause", [EndCause.COMPLETED, EndCause.CANCEL, EndCause.FAILURE])
def test_a_run_that_went_on_by_hand_and_ended_is_not_submitted_again(cause):
    run, finished = timed_out()
    by_hand = attempt(61, 70, job_id=2, cause=cause)
    assert kinds(replace(run, attempts=(*run.attempts, by_hand)), finished=finished) == []


def test_a_task_of_an_array_is_submitted_again_but_no_part_of_a_heterogeneous_job():
    run, finished = timed_out()
    (facts,) = finished.values()
    task = replace(facts, job=replace(facts.job, array_job_id=1, array_task_id=2), resubmit_count=2)
    (act,) = plan([run], {RUN: task}, ALL, at(61))
    assert (act.kind, act.number) == (ActionKind.RESUBMIT, 3)
    assert kinds(run, finished={RUN: replace(facts, job=replace(facts.job, het_job_id=1))}) == []


def many(kind, count, uid):
    (act, _) = plan([looping()], {}, ALL, at(5))
    run = RUN._replace(uid=uid)
    return [replace(act, kind=kind, name=f"{kind}/{uid}/{number}", run=run) for number in range(count)]


def chosen(acts, done=(), recent=None, permits=ALL):
    return action_policy.choose(acts, done, recent or {}, permits).actions


def test_one_users_thousand_jobs_keep_nobody_elses_signal_back():
    loud, quiet = many(ActionKind.SIGNAL, 1000, 1), many(ActionKind.SIGNAL, 2, 2)
    found = chosen([*loud, *quiet, *many(ActionKind.HOLD, 1, 3)], permits=replace(ALL, max_per_cycle=6))
    assert [act.name for act in found] == [f"signal-job/{name}" for name in ("1/0", "2/0", "1/1", "2/1", "1/2", "1/3")]


@pytest.mark.parametrize(
    ("recent", "count"),
    [
        ({}, 5),
        ({("signal-job", 1): 3}, 2),
        ({("signal-job", 1): 5}, 0),
        ({("signal-job", 1): 4, ("signal-job", 2): 2}, 0),
        ({("signal-job", 2): 6}, 2),
        ({("signal-job", 2): 5, ("signal-job", 3): 4}, 1),
        ({("signal-job", 2): 10}, 0),
        ({("write-summary", 1): 10, ("resubmit-job", 2): 10}, 5),
    ],
)
def test_a_user_gets_half_of_what_others_left_of_the_hour_of_each_kind(recent, count):
    choice = action_policy.choose(many(ActionKind.SIGNAL, 20, 1), (), recent, replace(ALL, max_per_hour=10))
    assert len(choice.actions) == count
    assert len(choice.deferred) == 20 - count


def test_what_has_room_in_the_hour_and_waits_for_the_next_cycle_is_not_put_off():
    choice = action_policy.choose(many(ActionKind.SIGNAL, 3, 1), (), {}, replace(ALL, max_per_cycle=1))
    assert (len(choice.actions), choice.deferred) == (1, ())


def test_no_act_is_done_twice_and_none_beyond_the_sites_limits():
    acts = plan([looping()], {}, ALL, at(5))
    again = plan([looping()], {}, ALL, at(6))
    assert [act.name for act in acts] == [act.name for act in again]
    assert chosen((*acts, *again)) == acts
    assert chosen(acts, {acts[0].name}) == acts[1:]
    assert chosen(acts, recent={("hold-job", 7): ALL.max_per_hour - 1}) == acts
    assert chosen(acts, recent={("hold-job", 7): ALL.max_per_hour + 5}) == acts[1:]
    assert chosen(acts, permits=replace(ALL, max_per_cycle=1)) == acts[:1]
    assert all(len(act.name) <= 64 for act in acts)


def summaries(run, minute=5):
    return [act for act in plan([run], {}, ALL, at(minute)) if act.kind is ActionKind.SUMMARY]


def told(text, **changes):
    own = job(partition="gpu1", admin_comment=text, **changes)
    return looping(own=own, checkpoints=[saved(4, step=4)], flagged=frozenset({("at-risk", 1)}))


def test_a_summary_is_written_when_flags_change_and_not_for_a_newer_checkpoint():
    (act,) = summaries(told("ckptd: no flags; no checkpoint"))
    assert (act.word, act.reasons) == (
        "ckptd: at-risk; newest checkpoint step 4, 2026-03-01 12:04 UTC",
        ("its flags or the hour of its newest checkpoint changed",),
    )
    assert summaries(told("ckptd: at-risk; newest checkpoint step 3, 2026-03-01 12:03 UTC")) == []


def test_a_summary_is_written_again_after_minutes_though_flags_change_back_and_forth():
    names = [summaries(told("ckptd: no flags; no checkpoint"), minute)[0].name for minute in (5, 6, 9.9, 10)]
    assert len(set(names[:3])) == 1
    assert names[3] != names[0]
    assert all(len(name) <= 64 for name in names)


@pytest.mark.parametrize("state", [JobState.COMPLETING, JobState.COMPLETED, JobState.FAILED])
def test_a_job_that_has_ended_gets_no_summary(state):
    assert len(summaries(told(""))) == 1
    assert summaries(told("", state=state)) == []


def test_a_summary_tells_at_once_that_ckptd_has_held_the_job_and_how_to_let_it_go_on():
    held = replace(HELD, admin_comment="ckptd: restart-loop; no checkpoint")
    (act,) = summaries(looping(own=held, holds=RELEASED))
    assert act.word.startswith("ckptd: held by ckptd because of restart-loop, release with: scontrol release 1; ")
    assert act.name.endswith("/held")
    assert summaries(looping(own=replace(held, admin_comment=act.word), holds=RELEASED)) == []
    task = replace(held, array_job_id=1, array_task_id=7)  # the last of its array, whose number means all of them
    (act,) = summaries(looping(own=task, holds=RELEASED))
    assert "release with: scontrol release 1_7" in act.word
