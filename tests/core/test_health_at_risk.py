"""Work that a time limit will take, and the advice that may save it."""

from datetime import timedelta

import pytest

from ckptd.core.health.at_risk import AtRisk
from ckptd.core.model import (
    CheckpointState,
    EndCause,
    LimitSignal,
    Severity,
    UserSettings,
)
from core.histories import at, attempt, history, job, limited, saved, text_of


def ended_at_limit(start, end):
    return attempt(start, end, cause=EndCause.TIME_LIMIT)


HOURLY = [saved(minute, step=minute, took=2) for minute in (60, 120, 180)]
AFTER_A_LOSS = [ended_at_limit(-3000, -1000), attempt(0, restart_count=1)]
OPEN = frozenset({("at-risk", 1)})
QUARTERLY = [saved(minute, step=minute) for minute in range(15, 200, 15)]


AT_RISK = {
    "a save is being written": (
        history(now=234, jobs=[limited(235)], checkpoints=[*HOURLY, saved(234, state=CheckpointState.WRITING)]),
        234,
        Severity.INFO,
    ),
    "it stopped saving long before its limit": (history(now=800, jobs=[limited(1200)], checkpoints=HOURLY), 800, None),
    "it stopped saving and its limit is near": (
        history(now=1170, jobs=[limited(1200)], checkpoints=HOURLY),
        1170,
        Severity.INFO,
    ),
    "many saves fit": (history(now=200, jobs=[limited(500)], checkpoints=HOURLY), 200, None),
    "one more save fits and nearly nothing is lost": (
        history(now=200, jobs=[limited(214)], checkpoints=QUARTERLY),
        200,
        None,
    ),
    "one more save fits and work after it will be lost": (
        history(now=200, jobs=[limited(290)], checkpoints=HOURLY),
        200,
        Severity.INFO,
    ),
    "it says that it saves on a signal, and nobody is known to send it": (
        history(now=215, jobs=[limited(225)], checkpoints=HOURLY, user_settings=UserSettings(saves_on_signal=True)),
        215,
        Severity.INFO,
    ),
    "it says so, and its script asks Slurm for it": (
        history(
            now=200,
            jobs=[limited(235)],
            checkpoints=HOURLY,
            user_settings=UserSettings(saves_on_signal=True),
            signals={1: LimitSignal("B:USR1", 300)},
        ),
        200,
        None,
    ),
    "ckptd is to send it the signal that it declares": (
        history(now=200, jobs=[limited(235)], checkpoints=HOURLY, signalled={1: timedelta(minutes=4)}),
        200,
        None,
    ),
    "another job of its run is": (
        history(now=200, jobs=[limited(235)], checkpoints=HOURLY, signalled={2: timedelta(minutes=4)}),
        200,
        Severity.INFO,
    ),
    "its goal will be saved before": (
        history(now=200, jobs=[limited(250)], checkpoints=HOURLY, user_settings=UserSettings(goal_step=240)),
        200,
        None,
    ),
    "its goal will not be saved before": (
        history(now=200, jobs=[limited(235)], checkpoints=HOURLY, user_settings=UserSettings(goal_step=240)),
        200,
        Severity.INFO,
    ),
    "attempts before it saved at their limit": (
        history(
            now=300,
            jobs=[limited(335)],
            attempts=[ended_at_limit(0, 90), attempt(100, restart_count=1)],
            checkpoints=[saved(minute, step=minute, took=2) for minute in (60, 88, 160, 220, 280)],
        ),
        300,
        None,
    ),
    "attempts before it lost work at their limit": (
        history(
            now=300,
            jobs=[limited(335)],
            attempts=[ended_at_limit(0, 90), attempt(100, restart_count=1)],
            checkpoints=[saved(60, step=60, took=2), saved(160, step=160), saved(220, step=220), saved(280, step=280)],
        ),
        300,
        Severity.INFO,
    ),
    "it lost work at a limit, but saved at the last one": (
        history(
            now=300,
            jobs=[limited(310)],
            attempts=[ended_at_limit(-9000, -8900), ended_at_limit(-8000, 90), attempt(100, restart_count=2)],
            checkpoints=[saved(minute, step=minute, took=2) for minute in (-8940, -60, 0, 60, 88, 160, 220, 280)],
            user_settings=UserSettings(goal_step=9999),
        ),
        300,
        Severity.INFO,
    ),
    "it saved the same progress once more at its last limit": (
        history(
            now=215,
            jobs=[limited(225)],
            attempts=[ended_at_limit(-3000, -1000), attempt(0, restart_count=1)],
            checkpoints=[
                *(saved(minute, epoch=1, name="last.pt") for minute in (-1060, -1002)),
                *(saved(minute, epoch=minute // 30) for minute in (60, 120, 180)),
            ],
        ),
        215,
        Severity.INFO,
    ),
    "a flag that is open holds on while the loss is small": (
        history(now=200, jobs=[limited(214)], checkpoints=QUARTERLY, flagged=OPEN),
        200,
        Severity.INFO,
    ),
    "the next save does not fit": (history(now=215, jobs=[limited(225)], checkpoints=HOURLY), 215, Severity.INFO),
    "the next save does not fit, and at its last limit it lost work": (
        history(now=215, jobs=[limited(225)], attempts=AFTER_A_LOSS, checkpoints=[saved(-1060, step=1), *HOURLY]),
        215,
        Severity.WARNING,
    ),
    "the next save does not fit, but the job may end by itself": (
        history(now=185, jobs=[limited(225)], checkpoints=HOURLY),
        185,
        Severity.INFO,
    ),
    "it may end by itself, but has gone on for days and lost work at its limit": (
        history(now=185, jobs=[limited(225)], attempts=AFTER_A_LOSS, checkpoints=[saved(-1060, step=1), *HOURLY]),
        185,
        Severity.WARNING,
    ),
    "it has gone on for days, but may save at its limit for all that is known": (
        history(
            now=215,
            jobs=[limited(225)],
            attempts=[attempt(-3000, -1, cause=EndCause.NODE_FAILURE), attempt(0, restart_count=1)],
            checkpoints=HOURLY,
        ),
        215,
        Severity.INFO,
    ),
    "it may end by itself, as what it did for days is complete": (
        history(
            now=185,
            jobs=[limited(225)],
            attempts=[attempt(-2000, -1, cause=EndCause.COMPLETED), attempt(0, restart_count=1)],
            checkpoints=HOURLY,
        ),
        185,
        Severity.INFO,
    ),
    "it will not end by itself, as its goal is far, but may save at its limit": (
        history(now=185, jobs=[limited(225)], checkpoints=HOURLY, user_settings=UserSettings(goal_step=2400)),
        185,
        Severity.INFO,
    ),
    "it will not end by itself, as its goal is far, and lost work at its last limit": (
        history(
            now=185,
            jobs=[limited(225)],
            attempts=[ended_at_limit(-100, -1), attempt(0, restart_count=1)],
            checkpoints=[saved(-60, step=1), *HOURLY],
            user_settings=UserSettings(goal_step=2400),
        ),
        185,
        Severity.WARNING,
    ),
    "an open flag holds on while a save that was due does not come": (
        history(now=212.5, jobs=[limited(214)], checkpoints=QUARTERLY[:-1], flagged=OPEN),
        212.5,
        Severity.INFO,
    ),
    "so it does after one save alone": (
        history(now=70, jobs=[limited(74)], checkpoints=[saved(30, step=30)], flagged=OPEN),
        70,
        Severity.INFO,
    ),
    "the margin counts": (history(now=200, jobs=[limited(240.5)], checkpoints=HOURLY), 200, Severity.INFO),
    "not even a save fits any more": (
        history(now=233.1, jobs=[limited(235)], checkpoints=HOURLY),
        233.1,
        Severity.CRITICAL,
    ),
    "no limit": (history(now=200, jobs=[job(time_limit=None, ends_at=None)], checkpoints=HOURLY), 200, None),
    "no rhythm is known": (history(now=200, jobs=[limited(235)], checkpoints=HOURLY[:1]), 200, None),
    "next to nothing will be lost": (history(now=181, jobs=[limited(184)], checkpoints=HOURLY), 181, None),
    "an extended limit": (history(now=200, jobs=[limited(900)], checkpoints=HOURLY), 200, None),
}


@pytest.mark.parametrize(("given", "minute", "severity"), AT_RISK.values(), ids=AT_RISK)
def test_work_that_the_limit_will_take_is_told(given, minute, severity):
    findings = list(AtRisk().evaluate(given, at(minute)))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


UNSEEN = [saved(minute, step=minute) for minute in (60, 120, 180)]  # nobody saw them being written: they are short
WRITING = saved(234, state=CheckpointState.WRITING)
SAYS = UserSettings(saves_on_signal=True)


def by_ckptd(seconds):
    return {"signalled": {1: timedelta(seconds=seconds)}}


def by_slurm(seconds):
    return {"signals": {1: LimitSignal("B:USR1", seconds)}, "user_settings": SAYS}


AT_THE_END = {
    "nobody sends a signal": (UNSEEN, {}, 30, True),
    "ckptd is about to send one": (UNSEEN, by_ckptd(60), 60, False),
    "ckptd has just sent it": (UNSEEN, by_ckptd(60), 30, False),
    "no save followed it": (UNSEEN, by_ckptd(60), 12, True),
    "Slurm has just sent it": (UNSEEN, by_slurm(60), 30, False),
    "Slurm sent it minutes ago, and no save followed": (UNSEEN, by_slurm(300), 30, True),
    "Slurm's came, and ckptd sends none": (UNSEEN, by_slurm(300), 90, False),
    "a save still fits after it": (HOURLY, by_ckptd(240), 150, False),
    "it is being written": ([*HOURLY, WRITING], by_ckptd(240), 30, False),
    "no save was begun, and none fits any more": (HOURLY, by_ckptd(240), 110, True),
}


@pytest.mark.parametrize(("saves", "signal", "seconds_left", "is_lost"), AT_THE_END.values(), ids=AT_THE_END)
def test_the_save_that_follows_a_signal_is_waited_for_until_it_cannot_come(saves, signal, seconds_left, is_lost):
    now = 235 - seconds_left / 60
    given = history(now=now, jobs=[limited(235)], checkpoints=saves, **signal)
    severities = [finding.severity for finding in AtRisk().evaluate(given, at(now))]
    assert severities == ([Severity.CRITICAL] if is_lost else [])


def test_the_advice_names_a_signal_early_enough_for_the_measured_save():
    [finding] = AtRisk().evaluate(history(now=200, jobs=[limited(235)], checkpoints=HOURLY), at(200))
    assert "--signal=B:USR1@300" in text_of(finding)  # 1.5 x 120 s + 60 s of margin + 60 s for Slurm
    assert finding.evidence["will_be_lost_seconds"] == 55 * 60


def test_the_advice_says_what_the_forecast_says_and_what_this_job_needs():
    [none_fits] = AtRisk().evaluate(history(now=200, jobs=[limited(235)], checkpoints=HOURLY), at(200))
    assert "About 55 min of work may be lost at the time limit." in text_of(none_fits)
    assert "(probability 71 %): no further checkpoint is expected before then." in text_of(none_fits)
    assert "scontrol update JobId=1 TimeLimit=+6" in text_of(none_fits)  # the save at 240 and a minute of margin
    [one_fits] = AtRisk().evaluate(history(now=200, jobs=[limited(280)], checkpoints=HOURLY), at(200))
    assert one_fits.evidence["saves_that_fit"] == 1
    assert "About 40 min of work may be lost at the time limit." in text_of(one_fits)
    assert "only 1 more checkpoint is expected before then." in text_of(one_fits)
    assert "scontrol update JobId=1 TimeLimit=+21" in text_of(one_fits)


def test_a_loss_that_is_not_certain_is_told_as_possible_with_its_probability_in_words():
    asked = {1: LimitSignal("B:USR1", 300)}
    [open_end] = AtRisk().evaluate(history(now=191, jobs=[limited(300)], checkpoints=HOURLY, signals=asked), at(191))
    assert open_end.evidence["chance"] < 0.1
    assert not open_end.evidence["is_certain"]
    assert "will be lost" not in text_of(open_end)
    assert "of work may be lost at the time limit. This is very unlikely (probability " in text_of(open_end)
    [last] = AtRisk().evaluate(history(now=234, jobs=[limited(235)], checkpoints=HOURLY), at(234))
    assert (last.severity, last.evidence["is_certain"]) == (Severity.CRITICAL, True)
    assert text_of(last).startswith("If the job runs until its time limit, about 55 min of work will be lost")


def test_a_job_that_has_stopped_saving_is_not_said_to_save_before_its_limit():
    [finding] = AtRisk().evaluate(history(now=1170, jobs=[limited(1200)], checkpoints=HOURLY), at(1170))
    assert finding.evidence["will_be_lost_seconds"] == (1200 - 180) * 60
    assert finding.evidence["chance"] > 0.8


def test_no_signal_is_advised_that_would_come_at_the_start():
    short = job(time_limit=timedelta(minutes=4), ends_at=at(235))
    [finding] = AtRisk().evaluate(history(now=200, jobs=[short], checkpoints=HOURLY), at(200))
    assert "--signal=B:USR1@120" in text_of(finding)
    assert finding.evidence["signal_seconds"] == 120


def advise(signal, **changes):
    given = history(now=200, jobs=[limited(235)], checkpoints=HOURLY, signals={1: signal}, **changes)
    return [text_of(finding) for finding in AtRisk().evaluate(given, at(200))]


def test_the_advice_names_no_line_that_the_script_has():
    (advice,) = advise(LimitSignal("B:USR1", 300))
    assert "#SBATCH" not in advice
    assert "requests B:USR1 300 s before the limit, but ckptd has not yet seen a checkpoint follow" in advice
    (advice,) = advise(LimitSignal("TERM", 60))
    assert (
        "requests TERM 60 s before the limit, which is too late to save a checkpoint. "
        "Request it earlier with #SBATCH --signal=TERM@300" in advice
    )
    heeded = [attempt(0, 64, cause=EndCause.TIME_LIMIT), attempt(70, restart_count=1)]
    assert advise(LimitSignal("B:USR1", 300), attempts=heeded) == []
