from dataclasses import replace
from datetime import timedelta

from ckptd.core.model import EndCause
from ckptd.steps.end_recheck import FIRST_GAP, LONGEST_GAP, MAX_AGE, Doubts
from core.histories import at, attempt

GUESSED = attempt(0, 10)


def doubting(*attempts):
    doubts = Doubts()
    doubts.note(attempts or (GUESSED,), at(10))
    return doubts


def test_only_guessed_ends_are_doubted():
    sure = attempt(0, 10, job_id=2, cause=EndCause.TIME_LIMIT)
    assert doubting(GUESSED, sure).due(at(10)) == (GUESSED,)


def test_what_is_not_told_is_asked_again_later_each_time():
    doubts = doubting()
    now, gaps = at(10), []
    for _ in range(12):
        doubts.asked(doubts.due(now), (), now)
        again = next(now + timedelta(seconds=s) for s in range(4000) if doubts.due(now + timedelta(seconds=s)))
        gaps.append(again - now)
        now = again
    assert (gaps[0], gaps[1], gaps[-1]) == (FIRST_GAP, FIRST_GAP * 2, LONGEST_GAP)


def test_what_was_told_is_settled_even_where_the_guess_was_right():
    doubts = doubting()
    doubts.asked((GUESSED,), (GUESSED,), at(11))
    assert doubts.due(at(60)) == ()


def test_a_better_known_end_is_no_longer_doubted():
    doubts = doubting()
    doubts.note([replace(GUESSED, cause=EndCause.CANCEL)], at(11))
    assert len(doubts) == 0


def test_after_a_day_no_answer_is_expected():
    doubts = doubting()
    assert doubts.due(at(10) + MAX_AGE)
    assert doubts.due(at(10) + MAX_AGE + timedelta(seconds=1)) == ()
    assert len(doubts) == 0
