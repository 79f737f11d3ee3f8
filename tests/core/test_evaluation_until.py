"""An evaluation says until when it holds: no later evaluation of the same history differs before that."""

import inspect
import re
import sys
from dataclasses import replace
from datetime import timedelta

import hypothesis
import pytest
from hypothesis import strategies as st

from ckptd.core.forecast.projection import SILENCE
from ckptd.core.health import RULES, evaluate, evaluate_until
from ckptd.core.health.evaluation import ASKING_FOR_OWN_FLAG
from ckptd.core.model import CheckpointState, EndCause, FileClock, Hold, Maintenance, PurgeRule, SitePurge, UserSettings
from ckptd.core.tracked_now import Validity, track
from core.histories import at, attempt, history, job, saved
from support.examples import FACTOR

TIGHT = {
    "max_age": timedelta(minutes=5),
    "max_scan_age": timedelta(minutes=20),
    "min_job_duration": timedelta(minutes=10),
}
WIDE = {**TIGHT, "max_age": timedelta(days=9), "max_scan_age": timedelta(days=9)}
EVERY_RULE = tuple(rule() for rule in RULES.values())

minutes = st.integers(0, 600)
spans = st.builds(timedelta, seconds=st.integers(-4000, 4000))


@st.composite
def histories(draw):
    now = draw(st.integers(30, 700))
    limit = draw(st.sampled_from([60, 240, 720, 1440]))
    ends = sorted(draw(st.lists(st.integers(1, 200), max_size=4, unique=True)))
    starts = [0, *ends]
    attempts = [
        attempt(start, end, restart_count=count, cause=draw(st.sampled_from(list(EndCause))))
        for count, (start, end) in enumerate(zip(starts, [*ends, None], strict=True))
    ]
    gap = draw(st.integers(1, 90))
    count = draw(st.integers(0, 12))
    jitter = st.floats(0, 5)
    states = st.sampled_from([CheckpointState.COMPLETE] * 6 + list(CheckpointState))
    checkpoints = [
        saved((number + 1) * gap + draw(jitter), name=f"step_{number}.pt", step=number * 10, state=draw(states))
        for number in range(count)
    ]
    running = job(
        time_limit=timedelta(minutes=limit),
        ends_at=at(starts[-1] + limit),
        restart_count=len(ends),
        started_at=at(starts[-1]),
    )
    settings = UserSettings(
        goal_step=draw(st.sampled_from([None, 50, 500])),
        saves_on_signal=draw(st.booleans()),
        is_resubmitted=draw(st.booleans()),
    )
    holds = draw(st.booleans())
    made = history(
        now=now - draw(st.integers(0, 8)),
        jobs=(running,) if draw(st.integers(0, 9)) else (),
        attempts=attempts,
        checkpoints=[each for each in checkpoints if each.first_seen_at <= at(now)],
        user_settings=settings,
        holds={attempts[0].job: Hold(len(ends))} if holds else {},
        maintenance=(Maintenance("m", at(now + 5), at(now + 60), frozenset({"n1"})),),
        flagged=frozenset(draw(st.sets(st.tuples(st.sampled_from(sorted(RULES)), st.just(1)), max_size=5))),
        purge=SitePurge(
            rules=(PurgeRule(path="/scratch", age=timedelta(hours=draw(st.integers(1, 400))), by=FileClock.MTIME),)
        ),
    )
    return made, at(now)


def shape(evaluation):
    """Everything that decides which flags open, worsen or resolve."""
    return (
        [(each.rule, each.severity, each.job_id, each.user, each.audience) for each in evaluation.findings],
        evaluation.undecided,
        set(evaluation.failed),
    )


def first_of(*instants):
    return min((each for each in instants if each is not None), default=None)


@hypothesis.given(histories())
@hypothesis.settings(max_examples=60 * FACTOR, deadline=None)
def test_open_flags_make_no_difference_to_rules_that_do_not_ask_for_them(found):
    history, now = found
    asked = frozenset(flag for flag in history.context.flagged if flag[0] in ASKING_FOR_OWN_FLAG)
    other = replace(history, context=replace(history.context, flagged=asked))
    assert evaluate(other, EVERY_RULE, now, **WIDE) == evaluate(history, EVERY_RULE, now, **WIDE)


def test_the_rules_that_ask_for_their_flag_are_those_whose_source_does():
    asks = re.compile(r"is_flagged\(|context\.flagged|open_evidence|list_jobs_to_tell\(")
    sources = {name: inspect.getsource(sys.modules[rule.__module__]) for name, rule in RULES.items()}
    assert {name for name, source in sources.items() if asks.search(source)} == ASKING_FOR_OWN_FLAG


@hypothesis.given(histories(), st.sampled_from([TIGHT, WIDE]), st.floats(0, 1), st.integers(0, 360_000))
@hypothesis.settings(max_examples=40 * FACTOR, deadline=None)
def test_nothing_differs_before_an_evaluation_says_so(found, bounds, share, beyond):
    history, now = found
    timed = evaluate_until(history, EVERY_RULE, now, **bounds)
    assert timed.evaluation == evaluate(history, EVERY_RULE, now, **bounds)
    until = first_of(timed.until, timed.poll_until) or now + timedelta(seconds=beyond)
    if until > now:
        later = now + (until - now) * share
        if later < until:
            assert shape(evaluate(history, EVERY_RULE, later, **bounds)) == shape(timed.evaluation)


@hypothesis.given(histories(), st.sampled_from([TIGHT, WIDE]), st.floats(0, 1), st.floats(0, 1))
@hypothesis.settings(max_examples=40 * FACTOR, deadline=None)
def test_a_later_scan_that_found_the_same_differs_only_when_an_evaluation_says_so(found, bounds, share, later_share):
    history, now = found
    timed = evaluate_until(history, EVERY_RULE, now, **bounds)
    until = first_of(timed.until, timed.poll_until)
    later = now + min((until or at(10_000)) - now, timedelta(days=3)) * later_share
    if until is not None and later >= until:
        later = now
    scanned_at = history.scan.scanned_at + (later - history.scan.scanned_at) * share
    if timed.scan_until is None or scanned_at < timed.scan_until:
        rescanned = replace(history, scan=replace(history.scan, scanned_at=scanned_at))
        assert shape(evaluate(rescanned, EVERY_RULE, later, **bounds)) == shape(timed.evaluation)


def test_values_of_two_clocks_are_due_at_once_and_right():
    for use in (
        lambda now, scan: now - scan > timedelta(minutes=3),
        lambda now, scan: scan < now,
        lambda now, scan: (now - at(0)) + (scan - at(1)) > timedelta(minutes=3),
        lambda now, scan: (now - at(0)) - (scan - at(1)) > timedelta(minutes=3),
        lambda now, scan: now + (scan - at(1)) > at(3),
    ):
        time, scans = Validity(at(5)), Validity(at(2))
        assert use(track(at(5), time), track(at(2), scans)) == use(at(5), at(2))
        assert (time.until, scans.until) == (at(5), at(2))


@hypothesis.given(spans, spans, st.sampled_from([0.5, 1.0, 2.0, -1.0]), st.integers(0, 10_000_000))
def test_comparisons_hold_until_the_noted_instant(first, second, factor, later):
    def compare(now):
        ago, ahead = now - (at(0) + first), (at(0) + second) - now
        return (
            ago < second,
            ahead > first,
            ago * factor <= ahead,
            max(ago, ahead) >= timedelta(0),
            min(now + first, at(0)) == at(0),
            at(0) + second > now - first,
            abs(ago) > timedelta(minutes=3),
            bool(ago),
        )

    validity = Validity(at(0))
    told = compare(track(at(0), validity))
    assert told == compare(at(0))
    if validity.until is None or at(0) < validity.until:
        until = (validity.until or at(30)) - at(0)
        assert compare(at(0) + min(until - timedelta(microseconds=1), timedelta(microseconds=later))) == told


FIRST_START = [attempt(0, None)]
FAILED_BEFORE = [attempt(0, 20, cause=EndCause.FAILURE), attempt(21, None, restart_count=1)]


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
@pytest.mark.parametrize("attempts", [FIRST_START, FAILED_BEFORE])
@pytest.mark.parametrize("save_count", [0, 1, 12])
def test_no_rule_need_be_asked_again_at_once_about_an_ordinary_run(rule, attempts, save_count):
    saves = [saved(2 * number + 1, name=f"step_{number}.pt", step=number) for number in range(save_count)]
    running = job(restart_count=len(attempts) - 1, started_at=attempts[-1].started_at)
    ordinary = history(now=33, jobs=(running,), attempts=attempts, checkpoints=saves)
    timed = evaluate_until(ordinary, (rule,), at(33), **WIDE)
    assert not timed.evaluation.failed
    assert timed.until is None or timed.until > at(33)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
@pytest.mark.parametrize("jitter", [0, 0.5])
def test_no_rule_need_be_asked_again_at_once_about_a_run_whose_next_save_is_late(rule, jitter):
    """As long as it is late, its forecast moves on with the time."""
    saves = [
        saved(8 * number + 1 + jitter * (number % 2), name=f"step_{number}.pt", step=number) for number in range(5)
    ]
    late = history(now=45, jobs=(job(started_at=at(0)),), attempts=FIRST_START, checkpoints=saves)
    timed = evaluate_until(late, (rule,), at(45), **WIDE)
    assert not timed.evaluation.failed
    assert timed.until is None or timed.until > at(45)


def test_how_many_saves_fit_long_before_a_limit_is_not_asked_at_each_of_them():
    saves = [saved(2 * number + 1, name=f"step_{number}.pt", step=number) for number in range(20)]
    running = job(started_at=at(0), time_limit=timedelta(hours=24), ends_at=at(24 * 60))
    late = history(now=42, jobs=(running,), attempts=FIRST_START, checkpoints=saves)
    timed = evaluate_until(late, (RULES["at-risk"](),), at(42), **WIDE)
    assert timed.evaluation.findings == ()
    assert timed.until >= at(39 + 2 * SILENCE) - timedelta(microseconds=1)


def test_what_cannot_be_tracked_is_due_at_once():
    for use in (
        str,
        lambda now: now.isoformat(),
        lambda now: (now - at(3)).total_seconds(),
        lambda now: (now - at(3)) / timedelta(1),
    ):
        validity = Validity(at(0))
        assert use(track(at(0), validity)) == use(at(0))
        assert validity.until == at(0)
