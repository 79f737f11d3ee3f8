from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.config.health import build_rules
from ckptd.core.forecast import projection, risk
from ckptd.core.forecast.limit_margins import LimitMargins
from ckptd.core.forecast.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.health import Override, find_margins
from ckptd.core.model import (
    EndCause,
    FreeSpaceSample,
    InterruptionTally,
    JobState,
    LimitSignal,
    Suspension,
    UserSettings,
)
from ckptd.core.runs.cadence import measure_rhythm, with_rhythm
from ckptd.present import models
from core.histories import at, attempt, history, job, saved


@pytest.mark.parametrize(("mean_hours", "minutes"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_dalys_optimum_is_that_of_the_published_formula(mean_hours, minutes):
    optimum = daly_optimum(timedelta(minutes=5), timedelta(hours=mean_hours))
    digits = 0 if minutes > 10 else 1
    assert round(optimum.total_seconds() / 60, digits) == minutes


def test_a_save_that_takes_longer_than_work_lasts_is_best_made_once_in_between():
    assert daly_optimum(timedelta(hours=2), timedelta(hours=1)) == timedelta(hours=1)


def test_without_data_the_mean_time_between_interruptions_is_the_stated_assumption():
    small, large = (mean_time_between_interruptions(None, count) for count in (1, 1000))
    assert small.days == 29
    assert large / timedelta(hours=1) == pytest.approx(41.3, abs=0.1)


def test_many_data_outweigh_the_assumption():
    tally = InterruptionTally(interruption_count=1000, observed=timedelta(hours=6000))
    assert mean_time_between_interruptions(tally, 1) / timedelta(hours=1) == pytest.approx(6.7, abs=0.1)


def test_epochs_fit_between_the_newest_save_and_the_limit_with_the_save_and_a_margin_kept():
    found = [saved(10 * number, epoch=number, took=2) for number in range(1, 7)]
    run = history(checkpoints=found)
    fitting = {
        end: projection.count_fitting(run, run.attempts[0], at(end), "epoch") for end in (30, 62, 73, 82, 83, 93)
    }
    assert fitting == {30: 0, 62: 0, 73: 1, 82: 1, 83: 2, 93: 3}
    assert projection.count_fitting(run, run.attempts[0], at(90), "step") is None


def test_a_backup_of_the_save_before_is_no_save_of_its_own():
    """GROMACS: state.cpt each 15 s, and milliseconds later the one before it as state_prev.cpt."""
    found = []
    for number in range(1, 8):
        found.append(saved(number / 4, name="state.cpt", step=500 * number, gone=(number + 1) / 4))
        if number > 1:
            backup = {"name": "state_prev.cpt", "step": 500 * (number - 1), "gone": (number + 1) / 4}
            found.append(saved(number / 4 + 0.0001, **backup))
    rhythm = measure_rhythm(history(checkpoints=found))
    assert rhythm.interval.total_seconds() == pytest.approx(15, abs=0.1)
    assert rhythm.save_count == 7


def test_copies_of_a_save_are_no_saves_of_their_own():
    found = [saved(minute, step=minute) for minute in (10, 20, 30)]
    found += [saved(minute + 0.1, name=f"best{minute}", step=minute) for minute in (10, 20)]
    found += [saved(30.1, name="last")]
    rhythm = measure_rhythm(history(checkpoints=found))
    assert (rhythm.interval, rhythm.interval_count, rhythm.save_count) == (timedelta(minutes=10), 2, 3)


def test_a_rhythm_is_measured_once_for_all_that_ask():
    run = with_rhythm(history(checkpoints=[saved(minute) for minute in (10, 20, 30)]))
    assert run.rhythm == measure_rhythm(replace(run, rhythm=None))
    assert measure_rhythm(run) is run.rhythm
    assert with_rhythm(run) is run


def test_the_rhythm_is_kept_over_restarts_and_pauses_are_no_intervals():
    attempts = [attempt(0, 35), attempt(500, restart_count=1)]
    found = [saved(minute, epoch=epoch) for epoch, minute in enumerate((12, 22, 32, 514, 524), 1)]
    rhythm = measure_rhythm(history(attempts=attempts, checkpoints=found))
    assert (rhythm.interval, rhythm.interval_count) == (timedelta(minutes=10), 3)
    assert rhythm.time_to_first == timedelta(minutes=13)
    assert rhythm.time_per_epoch == timedelta(minutes=10)


def test_sizes_and_save_times_are_measured_of_what_was_seen():
    found = [saved(10 * number, step=number, size=100 + 5 * number, took=number % 2 + 1) for number in range(1, 9)]
    rhythm = measure_rhythm(history(checkpoints=found))
    assert (rhythm.size_bytes, rhythm.growth_bytes) == (140, 5)
    assert rhythm.save_time == timedelta(minutes=2)
    assert rhythm.interval_spread == timedelta(0)


def test_the_first_save_of_a_restart_is_expected_as_long_after_its_start_as_before():
    attempts = [attempt(0, 60), attempt(100, restart_count=1)]
    given_history = history(attempts=attempts, checkpoints=[saved(25, step=1), saved(35, step=2), saved(45, step=3)])
    assert projection.next_checkpoint_at(given_history, attempts[1], at(101)) == at(125)


def test_nothing_is_expected_of_a_run_that_never_saved():
    assert projection.next_checkpoint_at(history(), attempt(), at(5)) is None
    assert projection.at_limit(history(), attempt(), at(60), at(5)) is None


def test_what_the_limit_will_take_is_foretold_several_saves_ahead():
    found = [saved(10 * number, step=number) for number in range(1, 21)]
    expected = projection.at_limit(history(checkpoints=found), attempt(), at(248), at(201))
    assert (expected.saves_that_fit, expected.last_save_at) == (4, at(240))
    assert expected.lost == timedelta(minutes=8)


@given(
    gaps=st.lists(st.integers(1, 300), min_size=2, max_size=30),
    ahead=st.integers(1, 5000),
    since=st.integers(0, 600),
)
def test_a_forecast_never_promises_more_than_the_time_that_is_left(gaps, ahead, since):
    minutes = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    now, limit = minutes[-1] + since, minutes[-1] + since + ahead
    found = [saved(minute, step=minute) for minute in minutes]
    expected = projection.at_limit(history(checkpoints=found), attempt(), at(limit), at(now))
    assert timedelta(0) <= expected.lost <= at(limit) - at(minutes[-1])
    assert at(minutes[-1]) <= expected.last_save_at <= at(limit)
    assert (expected.saves_that_fit == 0) == (expected.last_save_at == at(minutes[-1]))


def test_a_goal_that_checkpoints_state_tells_how_many_more_jobs_it_needs():
    found = [saved(10 * number, step=number, goal_step=100, goal_epoch=9, epoch=number / 10) for number in range(1, 21)]
    limited = replace(attempt(), time_limit=timedelta(minutes=251))
    goal = projection.toward_goal(history(checkpoints=found), limited, at(251), at(200))
    assert (goal.unit, goal.goal, goal.reached, goal.fits) == ("step", 100, 20, 5)
    assert (goal.is_declared, goal.more_jobs) == (False, 3)  # 75 steps are left and 25 fit into 250 minutes
    declared = history(checkpoints=found, user_settings=UserSettings(goal_step=24))
    goal = projection.toward_goal(declared, limited, at(251), at(200))
    assert (goal.goal, goal.is_declared, goal.fits, goal.more_jobs, goal.done_at) == (24, True, 4, 0, at(240))
    short = replace(limited, time_limit=timedelta(minutes=10))
    assert projection.toward_goal(history(checkpoints=found), short, at(10), at(9)).more_jobs is None


@pytest.mark.parametrize("goal", [1e12, 2.0**53, 2**63 - 1])
def test_a_goal_beyond_any_calendar_is_only_far_away(goal):
    found = [saved(10 * number, epoch=number) for number in range(1, 21)]
    for run in (
        history(checkpoints=found, user_settings=UserSettings(goal_epoch=goal)),
        history(checkpoints=[replace(each, checkpoint=replace(each.checkpoint, goal_epoch=goal)) for each in found]),
    ):
        expected = projection.toward_goal(run, attempt(), at(251), at(200))
        assert (expected.fits, expected.done_at) == (5, at(200) + projection.FAR)


def test_a_save_dated_in_a_far_future_counts_from_now():
    found = [saved(10 * number, epoch=number) for number in range(1, 21)]
    late = datetime(9999, 12, 31, tzinfo=UTC)
    found[-1] = replace(found[-1], completed_at=late, checkpoint=replace(found[-1].checkpoint, modified_at=late))
    expected = projection.toward_goal(
        history(checkpoints=found, user_settings=UserSettings(goal_epoch=30)), attempt(), at(251), at(200)
    )
    assert expected.done_at == at(300)


def test_millions_of_saves_before_a_limit_are_not_looked_at_one_by_one():
    found = [saved(number / 60000, step=number) for number in range(1, 40)]  # one each millisecond
    run, now, ends_at = history(checkpoints=found), at(39.5 / 60000), at(60 * 24 * 30)
    rhythm = measure_rhythm(run)
    expected = projection.at_limit(run, attempt(), ends_at, now)
    assert expected.saves_that_fit > 10**9
    assert risk.losing(expected, rhythm, ends_at, now, timedelta(minutes=5)) == 0.0


@pytest.mark.parametrize("most", range(1, 12))
def test_no_more_saves_are_counted_than_asked_for(most):
    found = [saved(10 * number + number % 3, step=number) for number in range(1, 21)]
    run, now, ends_at = history(checkpoints=found), at(215), at(280)
    count = projection.at_limit(run, attempt(), ends_at, now).saves_that_fit
    assert 1 < count < 10
    bounded = projection.at_limit(run, attempt(), ends_at, now, most_saves=most)
    assert bounded.saves_that_fit == min(most, count)


def test_a_run_that_has_stopped_saving_is_likely_to_lose_what_it_has_not_saved():
    found = [saved(10 * number, step=number) for number in range(1, 21)]
    run, now = history(now=290, checkpoints=found), at(290)
    expected = projection.at_limit(run, attempt(), at(300), now)
    assert (expected.saves_that_fit, expected.lost, expected.silent_since) == (0, timedelta(minutes=100), at(200))
    chance = risk.losing(expected, measure_rhythm(run), at(300), now, timedelta(minutes=5))
    assert chance == pytest.approx(90 / (90 + 10))


@pytest.mark.parametrize(("minute", "is_expected"), [(209, True), (229, True), (231, False)])
def test_of_a_run_that_has_stopped_saving_neither_a_checkpoint_nor_progress_is_forecast(minute, is_expected):
    found = [saved(10 * number, step=number) for number in range(1, 21)]
    run = history(now=minute, checkpoints=found, jobs=(job(ends_at=at(300)),))
    forecast = models.run_view(run, (), at(minute))["forecast"]
    [next_at] = forecast["next_checkpoint_at"].values()
    [limit] = forecast["at_limit"].values()
    assert [next_at is not None, limit["steps_that_fit"] is not None, limit["saves_that_fit"] > 0] == [is_expected] * 3


def test_a_run_is_not_said_to_have_stopped_saving_because_its_last_scan_is_old():
    found = [saved(10 * number, step=number) for number in range(1, 21)]
    expected = projection.at_limit(history(now=205, checkpoints=found), attempt(), at(300), at(265))
    assert (expected.saves_that_fit, expected.lost, expected.silent_since) == (4, timedelta(minutes=5), None)
    expected = projection.at_limit(history(now=265, checkpoints=found), attempt(), at(300), at(265))
    assert (expected.saves_that_fit, expected.silent_since) == (0, at(200))


def test_the_time_of_a_suspension_is_no_silence():
    found = [saved(10 * number, step=number) for number in range(1, 21)]
    resumed = replace(attempt(), suspensions=(Suspension(at(205), at(300)),))
    expected = projection.at_limit(history(now=305, checkpoints=found, attempts=[resumed]), resumed, at(400), at(305))
    assert (expected.saves_that_fit > 5, expected.silent_since) == (True, None)
    expected = projection.at_limit(history(now=331, checkpoints=found, attempts=[resumed]), resumed, at(400), at(331))
    assert (expected.saves_that_fit, expected.silent_since) == (0, at(300))


@pytest.mark.parametrize(("now", "is_strict", "lost"), [(211, True, 9), (213, False, 7), (213, True, 20)])
def test_a_save_that_is_late_is_not_counted_on_where_that_is_asked_for(now, is_strict, lost):
    found = [saved(10 * number, step=number) for number in range(1, 21)]
    expected = projection.at_limit(history(checkpoints=found), attempt(), at(220), at(now), is_strict=is_strict)
    assert expected.lost == timedelta(minutes=lost)


def test_a_goal_is_counted_from_the_newest_save_and_not_from_an_older_training():
    found = [saved(-500, step=900), *(saved(10 * number, step=number, goal_step=50) for number in range(1, 21))]
    assert projection.toward_goal(history(checkpoints=found), attempt(), at(400), at(200)).reached == 20


def test_epochs_that_still_fit_leave_time_for_the_save_and_the_margin():
    found = [saved(60 * number, epoch=number, took=10) for number in range(1, 5)]
    run = history(checkpoints=found, user_settings=UserSettings(goal_epoch=10))
    for limit, fits in ((370, 1), (371, 2), (5000, 6)):  # 4 epochs at minute 240, 60 each, 10 for the save, 1 of margin
        assert projection.toward_goal(run, attempt(), at(limit), at(250)).fits == fits
    assert projection.toward_goal(run, attempt(), at(5000), at(250)).done_at == at(610)


def test_a_disk_that_fills_is_full_where_the_line_meets_zero():
    assert projection.full_at([FreeSpaceSample(at(0), 1000), FreeSpaceSample(at(60), 700)]) == at(200)
    assert projection.full_at([FreeSpaceSample(at(0), 1000), FreeSpaceSample(at(10), 700)]) is None
    assert projection.full_at([FreeSpaceSample(at(0), 700), FreeSpaceSample(at(60), 700)]) is None
    assert projection.full_at([FreeSpaceSample(at(0), 700)]) is None


LIMITED = EndCause.TIME_LIMIT
SAVES_LATE = {
    "no attempt came to its limit": ([attempt(0, 60)], (20, 40), False),
    "one saved just before, off its rhythm": ([attempt(0, 58, cause=LIMITED)], (10, 20, 30, 40, 50, 55), True),
    "one saved just before by chance": ([attempt(0, 61, cause=LIMITED)], (20, 40, 60), False),
    "one lost much": ([attempt(0, 60, cause=LIMITED)], (20, 40), False),
    "one of the newest two lost much": (
        [attempt(0, 60, cause=LIMITED), attempt(70, 130, cause=LIMITED)],
        (20, 40, 55, 90, 110),
        False,
    ),
}


@pytest.mark.parametrize(("attempts", "minutes", "holds"), SAVES_LATE.values(), ids=SAVES_LATE)
def test_a_run_that_saved_when_its_limit_was_near_is_expected_to_again(attempts, minutes, holds):
    run = history(attempts=attempts, checkpoints=[saved(minute, step=minute) for minute in minutes])
    assert projection.saves_before_limit(run, tolerance=timedelta(minutes=5)) == holds


ASKED = LimitSignal("B:USR1", 300)
SIGNALLED = {
    "its first attempt, of which nobody knows": ([attempt()], ASKED, False),
    "it saved when the signal came": ([attempt(0, 64, cause=LIMITED), attempt(70)], ASKED, True),
    "it did not": ([attempt(0, 75, cause=LIMITED), attempt(80)], ASKED, False),
    "it did not, but did since": (
        [attempt(-60, -20, cause=LIMITED), attempt(0, 64, cause=LIMITED), attempt(70)],
        ASKED,
        True,
    ),
    "it comes too late for a save": ([attempt(0, 64, cause=LIMITED), attempt(70)], LimitSignal("B:USR1", 60), False),
    "it asks for none": ([attempt(0, 64, cause=LIMITED), attempt(70)], None, False),
}


@pytest.mark.parametrize(("attempts", "asked", "holds"), SIGNALLED.values(), ids=SIGNALLED)
def test_a_signal_that_a_script_asks_for_is_believed_where_a_save_followed_it_at_the_last_limit(attempts, asked, holds):
    saves = [saved(minute, step=minute, took=2) for minute in (-50, 20, 40, 60)]
    run = history(attempts=attempts, checkpoints=saves)
    assert projection.saves_before_limit(run, tolerance=timedelta(minutes=5), asked=asked) == holds


def test_whether_a_signal_is_heeded_that_was_never_sent_yet_is_in_doubt():
    run = history(checkpoints=[saved(minute, step=minute, took=2) for minute in (20, 40, 60)])
    asks = {"in time": ASKED, "too late": LimitSignal("B:USR1", 60), "none": None}
    found = {
        name: risk.not_saving_at_the_end(run, tolerance=timedelta(minutes=5), asked=asked)
        for name, asked in asks.items()
    }
    assert found == {"in time": pytest.approx(0.2), "too late": 0.95, "none": 0.95}


@pytest.mark.parametrize(
    ("known", "user_settings", "holds"),
    [
        pytest.param({}, UserSettings(saves_on_signal=True), False, id="its user says so, and nobody sends it"),
        pytest.param({"asked": ASKED}, UserSettings(saves_on_signal=True), True, id="its script asks for it, too"),
        pytest.param({"is_signalled": True}, UserSettings(), True, id="ckptd is to send it"),
    ],
)
def test_at_a_first_limit_a_signal_is_believed_that_somebody_sends(known, user_settings, holds):
    run = history(checkpoints=[saved(20, step=20), saved(40, step=40)], user_settings=user_settings)
    assert projection.saves_before_limit(run, tolerance=timedelta(minutes=5), **known) == holds


def test_a_user_who_says_that_a_signal_is_heeded_has_mostly_seen_to_its_being_sent():
    run = history(checkpoints=[saved(20, step=20)], user_settings=UserSettings(saves_on_signal=True))
    assert risk.not_saving_at_the_end(run, tolerance=timedelta(minutes=5)) == pytest.approx(0.2)


def test_what_a_user_says_of_a_signal_is_believed_until_a_limit_came_and_no_save():
    user_settings = UserSettings(saves_on_signal=True)
    saves = [saved(20, step=20), saved(40, step=40)]
    answers = [
        projection.saves_before_limit(
            history(
                attempts=[attempt(0, end, cause=LIMITED), attempt(90)], checkpoints=saves, user_settings=user_settings
            ),
            tolerance=timedelta(minutes=5),
        )
        for end in (50, 60)
    ]
    assert answers == [True, False]


def test_only_an_attempt_that_lost_work_at_its_limit_shows_that_a_run_does_not_save_then():
    minutes = {"lost": (20, 40), "saved, perhaps by chance": (20, 40, 60), "nothing at hand": ()}
    shown = {
        name: risk.not_saving_at_the_end(
            history(
                attempts=[attempt(0, 61, cause=LIMITED)],
                checkpoints=[saved(minute, step=minute) for minute in saves],
            ),
            tolerance=timedelta(minutes=5),
        )
        for name, saves in minutes.items()
    }
    assert shown == {"lost": 1.0, "saved, perhaps by chance": 0.95, "nothing at hand": 0.95}


def test_a_run_is_shown_with_what_its_limit_will_take():
    jobs = [job(time_limit=timedelta(minutes=248), ends_at=at(248))]
    run = history(jobs=jobs, checkpoints=[saved(10 * number, step=number) for number in range(1, 21)])
    shown = models.run_view(run, [], at(201))["forecast"]
    assert shown["at_limit"]["1"] == {
        "ends_at": at(248),
        "saves_that_fit": 4,
        "epochs_that_fit": None,
        "steps_that_fit": 4,
        "will_be_lost_seconds": 480,
        "goal": None,
    }
    assert (shown["interval_seconds"], shown["seconds_per_step"], shown["growth_bytes"]) == (600, 600, 0)


def test_nothing_is_forecast_of_a_job_while_it_is_suspended():
    jobs = [job(time_limit=timedelta(minutes=248), ends_at=at(248), state=JobState.SUSPENDED)]
    run = history(now=240, jobs=jobs, checkpoints=[saved(10 * number, step=number) for number in range(1, 21)])
    shown = models.run_view(run, [], at(240))["forecast"]
    assert (shown["at_limit"], shown["next_checkpoint_at"]) == ({}, {})


def test_a_run_is_shown_with_the_margins_of_the_rules_that_judge_it():
    limit = job(time_limit=timedelta(seconds=54), ends_at=at(0.9))
    saves = [saved(number / 10, step=number) for number in range(1, 9)]
    run = history(jobs=[limit], checkpoints=saves, user_settings=UserSettings(goal_step=8.5))
    rules = build_rules({"at-risk": {"margin": "5s"}, "will-not-finish": {"margin": "1s"}})
    margins = find_margins(run, rules, ())
    assert margins == LimitMargins(loss=timedelta(seconds=5), goal=timedelta(seconds=1))
    now = at(0.8)
    shown = models.run_view(run, [], now, margins=margins)["forecast"]["at_limit"]["1"]
    expected = projection.at_limit(run, attempt(), at(0.9), now, margin=timedelta(seconds=5))
    assert shown["will_be_lost_seconds"] == expected.lost.total_seconds()
    by_default = models.run_view(run, [], now)["forecast"]["at_limit"]["1"]
    assert by_default["goal"]["is_fitting"] is False
    assert shown["goal"]["is_fitting"] is True


def test_margins_are_those_of_the_override_that_matches_and_the_default_of_a_disabled_rule():
    run = history(jobs=[job()])
    rules = build_rules({"at-risk": {"enabled": False}})
    overrides = [Override(partition="*", rules=build_rules({"at-risk": {"margin": "2m"}}))]
    assert find_margins(run, rules, ()) == LimitMargins()
    assert find_margins(run, rules, overrides) == LimitMargins(loss=timedelta(minutes=2))
