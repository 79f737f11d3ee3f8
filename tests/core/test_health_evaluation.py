"""When rules are asked at all, and who is told."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.no_room import NoRoom
from ckptd.core.model import JobState, UserSettings
from ckptd.core.runs.user_settings import parse_user_settings
from core.histories import RUN, at, attempt, history, job, saved, scan_at

REQUEUED = (attempt(0, 60), attempt(62, restart_count=1))


def evaluate(given, minute, **changes):
    rules = [kind() for kind in health.RULES.values()]
    settings = {"max_age": timedelta(minutes=3), "min_job_duration": timedelta(minutes=10), **changes}
    return health.evaluate(given, rules, at(minute), **settings)


def test_nothing_is_decided_on_an_old_look_at_the_queue():
    found = evaluate(history(now=70, attempts=REQUEUED), 74)
    assert found.findings == ()
    assert found.undecided == set(health.RULES)


def test_nothing_is_decided_until_the_directory_was_seen_since_the_attempt_began():
    scan = scan_at(61)
    found = evaluate(history(now=62, attempts=REQUEUED, scan=scan), 62)
    assert found.findings == ()
    assert found.undecided == set(health.RULES)


def test_short_jobs_are_not_judged():
    short = job(time_limit=timedelta(minutes=9))
    assert evaluate(history(now=70, jobs=[short], attempts=REQUEUED), 70) == health.Evaluation(run=RUN)


def test_a_run_that_has_left_the_queue_holds_nothing():
    gone = history(now=70, jobs=[], attempts=REQUEUED)
    assert evaluate(gone, 70) == health.Evaluation(run=RUN)
    asked = frozenset(
        {"not-resubmitted", "will-be-purged"}
    )  # of ended runs, too; whether this one goes on is not known
    unseen = health.Evaluation(run=RUN, undecided=asked)
    assert evaluate(replace(gone, polled_at=at(0)), 70) == unseen


def test_nothing_is_decided_on_an_old_look_at_the_directory():
    found = evaluate(history(now=90, attempts=REQUEUED, scan=scan_at(70)), 90, max_scan_age=timedelta(minutes=15))
    assert (found.findings, found.undecided) == ((), set(health.RULES))


SUSPENDED = {
    "it is suspended": history(now=70, attempts=REQUEUED, jobs=[job(state=JobState.SUSPENDED)]),
    "it was a moment ago": history(now=70, attempts=REQUEUED, suspended_until={1: at(65)}),
}


@pytest.mark.parametrize("given", SUSPENDED.values(), ids=SUSPENDED)
def test_nothing_is_decided_of_a_suspended_job_nor_right_after(given):
    found = evaluate(given, 70)
    assert (found.findings, found.undecided) == ((), set(health.RULES))


WITHOUT = {
    "the job says so": history(now=70, attempts=REQUEUED, jobs=[job(comment="x ckpt=none")]),
    "its user says so": history(now=70, attempts=REQUEUED, user_settings=UserSettings(is_saving=False)),
}


@pytest.mark.parametrize("given", WITHOUT.values(), ids=WITHOUT)
def test_jobs_that_do_not_checkpoint_by_design_are_not_judged(given):
    assert evaluate(replace(given, jobs=(job(),), user_settings=UserSettings()), 70).findings
    assert evaluate(given, 70) == health.Evaluation(run=RUN)


@pytest.mark.parametrize("given", WITHOUT.values(), ids=WITHOUT)
def test_what_a_user_declares_does_not_end_the_rules_that_guard_the_site(given):
    hostile = saved(65)
    hostile = replace(hostile, checkpoint=replace(hostile.checkpoint, unsafe=("os.system",), owner_uids=frozenset({1})))
    found = evaluate(replace(given, checkpoints=(hostile,), scan=scan_at(70)), 70)
    assert {finding.rule for finding in found.findings} == {"unsafe-pickle", "foreign-owner"}


def test_a_rule_that_fails_on_a_run_leaves_its_flag_and_the_other_rules_alone():
    class Broken:
        name = "broken"

        def evaluate(self, history, now):
            yield from ()
            raise OverflowError("date value out of range")

    given = history(now=70, attempts=REQUEUED)
    found = health.evaluate(
        given,
        [Broken(), health.RULES["restarted-without-checkpoint"]()],
        at(70),
        max_age=timedelta(minutes=3),
        min_job_duration=timedelta(minutes=10),
    )
    assert [finding.rule for finding in found.findings] == ["restarted-without-checkpoint"]
    assert (set(found.undecided), list(found.failed)) == ({"broken"}, ["broken"])


def test_of_a_restart_that_has_lost_work_it_is_not_told_as_well_that_it_saved_nothing_yet():
    given = history(now=93, attempts=(attempt(0, 30), attempt(32, restart_count=1)))
    assert [finding.rule for finding in evaluate(given, 93).findings] == ["restarted-without-checkpoint"]
    rules = [health.RULES["no-checkpoint-yet"]()]
    found = health.evaluate(given, rules, at(93), max_age=timedelta(minutes=3), min_job_duration=timedelta(minutes=10))
    assert [finding.rule for finding in found.findings] == ["no-checkpoint-yet"]


def test_a_user_who_mutes_a_rule_is_not_told_but_administrators_are():
    user_settings = UserSettings(muted=frozenset({"restarted-without-checkpoint", "no-room"}))
    scan = scan_at(70, free_bytes=1)
    given = history(now=70, attempts=REQUEUED, checkpoints=[saved(65, size=9)], scan=scan, user_settings=user_settings)
    told = {finding.rule: finding.audience for finding in evaluate(given, 70).findings}
    assert told == {"no-room": ("admin",)}
    told = {finding.rule: finding.audience for finding in evaluate(replace(given, checkpoints=()), 70).findings}
    assert told == {"restarted-without-checkpoint": ()}


def test_a_user_who_mutes_every_rule_is_notified_of_none():
    given = history(now=70, attempts=REQUEUED, user_settings=parse_user_settings({"mute": True}))
    assert {finding.rule: finding.audience for finding in evaluate(given, 70).findings} == {
        "restarted-without-checkpoint": ()
    }


def test_the_first_override_that_matches_the_job_decides():
    usual, debug, own = (NoRoom(),), (NoRoom(factor=9.0),), (AtRisk(),)
    overrides = [
        health.Override(partition="debug", rules=debug),
        health.Override(user="al*", account="phys", rules=own),
    ]
    chosen = [
        health.choose_rules(history(jobs=[job(**changes)]), usual, overrides)
        for changes in ({}, {"partition": "debug", "account": "phys"}, {"account": "phys"})
    ]
    assert chosen == [usual, debug, own]


WISHES = {
    "nothing": ({}, UserSettings()),
    "all": (
        {"checkpoints": False, "signal": "USR1", "epochs": 90, "steps": 5000, "mute": ["at-risk"]},
        UserSettings(
            is_saving=False,
            saves_on_signal=True,
            signal="USR1",
            goal_epoch=90,
            goal_step=5000,
            muted=frozenset({"at-risk"}),
        ),
    ),
    "nonsense": (
        {"checkpoints": "no", "signal": 3, "epochs": "x", "steps": -1, "mute": "at-risk"},
        UserSettings(),
    ),
    "numbers that are none": ({"epochs": float("nan"), "steps": True, "mute": [["a"], 3]}, UserSettings()),
}


@pytest.mark.parametrize(("table", "user_settings"), WISHES.values(), ids=WISHES)
def test_what_a_user_wishes_is_read_as_far_as_it_makes_sense(table, user_settings):
    assert replace(parse_user_settings(table), misread=()) == user_settings


def test_a_rhythm_that_cannot_be_measured_fails_the_rules_that_ask_for_it_and_no_other():
    steps = [saved(minute, epoch=minute * 5e-324) for minute in (10, 20, 30, 40)]
    found = evaluate(history(now=41, checkpoints=steps, scan=scan_at(41, free_bytes=1)), 41)
    assert {"at-risk", "checkpoint-overdue", "too-sparse"} <= set(found.failed)
    assert [each.rule for each in found.findings] == ["no-room"]
