from dataclasses import replace
from datetime import timedelta

from ckptd.core.model import EndCause
from ckptd.steps.end_recheck import FIRST_GAP, LONGEST_GAP, MAX_AGE, UnconfirmedEnds
from core.histories import at, attempt

GUESSED = attempt(0, 10)


def make_ends(*attempts):
    return UnconfirmedEnds().with_ended(attempts or (GUESSED,), at(10))


def test_only_guessed_ends_are_unconfirmed():
    sure = attempt(0, 10, job_id=2, cause=EndCause.TIME_LIMIT)
    assert make_ends(GUESSED, sure).list_due(at(10)) == (GUESSED,)


def test_what_is_not_told_is_asked_again_later_each_time():
    ends = make_ends()
    now, gaps = at(10), []
    for _ in range(12):
        ends = ends.with_answers(ends.list_due(now), (), now)
        again = next(now + timedelta(seconds=s) for s in range(4000) if ends.list_due(now + timedelta(seconds=s)))
        gaps.append(again - now)
        now = again
    assert (gaps[0], gaps[1], gaps[-1]) == (FIRST_GAP, FIRST_GAP * 2, LONGEST_GAP)


def test_what_was_told_is_settled_even_where_the_guess_was_right():
    ends = make_ends()
    ends = ends.with_answers((GUESSED,), (GUESSED,), at(11))
    assert ends.list_due(at(60)) == ()


def test_a_better_known_end_is_no_longer_asked_about():
    ends = make_ends()
    ends = ends.with_ended([replace(GUESSED, cause=EndCause.CANCEL)], at(11))
    assert ends.count == 0


def test_after_a_day_no_answer_is_expected():
    ends = make_ends()
    assert ends.list_due(at(10) + MAX_AGE)
    assert ends.list_due(at(10) + MAX_AGE + timedelta(seconds=1)) == ()
    assert ends.with_ended((), at(10) + MAX_AGE + timedelta(seconds=1)).count == 0
