from datetime import timedelta

import pytest

from ckptd.core.model import JobKey
from ckptd.core.queue import TrackedJob, poll_gaps
from ckptd.core.queue.poll_gaps import BackfillWindow, PollGap
from ckptd.steps import missed_jobs
from ckptd.steps.missed_jobs import MissedJobs
from support.queue_facts import CLUSTER, MINUTE, at, make_job

REACH = BackfillWindow(after=5 * MINUTE, most=timedelta(days=7))


@pytest.mark.parametrize(
    ("gap", "polled", "now", "expected"),
    [
        (None, None, 0, None),  # a first start: nothing was ever looked at
        (None, 0, 5, None),
        (None, 0, 6, (-1, 6)),
        (None, 0, -60, None),  # the clock was set back
        ((-30, 2), 0, 4, (-30, 2)),
        ((-30, 2), 4, 20, (-30, 20)),
        ((-30, 2), None, 20, (-30, 2)),
        ((-30, 2), 8 * 24 * 60, 8 * 24 * 60 + 1, None),  # too long ago
        (None, 0, 10 * 24 * 60, (3 * 24 * 60, 10 * 24 * 60)),
    ],
)
def test_a_time_without_a_look_is_a_gap_and_grows_until_it_was_told(gap, polled, now, expected):
    known = PollGap(at(gap[0]), at(gap[1])) if gap else None
    found = poll_gaps.widen(known, None if polled is None else at(polled), at(now), REACH)
    assert found == (PollGap(at(expected[0]), at(expected[1])) if expected else None)


def test_a_long_gap_is_told_in_pieces_the_oldest_first():
    gap = PollGap(at(0), at(3 * 24 * 60))
    pieces = []
    while gap:
        pieces.append(poll_gaps.first_piece(gap))
        gap = poll_gaps.after(gap, pieces[-1].until)
    assert [piece.since for piece in pieces] == [at(0), at(24 * 60), at(2 * 24 * 60)]
    assert [piece.until for piece in pieces][-1] == at(3 * 24 * 60)


def test_accounting_that_does_not_tell_is_asked_again_later_each_time_and_for_less():
    waiting = MissedJobs(gap=PollGap(at(0), at(100)))
    assert waiting.is_due(at(100))
    waiting = waiting.with_failure("timed out", at(100), is_hopeless=False)
    assert not waiting.is_due(at(100.5))
    assert waiting.is_due(at(101))
    assert waiting.piece < poll_gaps.LONGEST_PIECE
    for minutes in range(101, 120):
        waiting = waiting.with_failure("timed out", at(minutes), is_hopeless=False)
    assert waiting.is_due(at(119 + 60))
    assert waiting.piece == missed_jobs.SHORTEST_PIECE
    waiting = waiting.with_rest(PollGap(at(50), at(100)), at(120))
    assert waiting.is_due(at(0))
    assert waiting.trouble is None


def test_what_a_cluster_told_late_to_its_accounting_is_asked_for_a_second_time():
    waiting = MissedJobs(gap=PollGap(at(0), at(100)))
    waiting = waiting.with_rest(waiting.find_rest(at(50)), at(100))
    waiting = waiting.with_failure("slurmdbd is down", at(101), is_hopeless=False)
    waiting = waiting.with_rest(waiting.find_rest(at(80)), at(103))
    assert waiting.gap == PollGap(at(80), at(100))
    waiting = waiting.with_rest(waiting.find_rest(at(100)), at(104))
    assert waiting.gap == PollGap(at(50), at(100))
    assert not waiting.is_due(at(113))
    assert waiting.is_due(at(114))
    waiting = waiting.with_rest(waiting.find_rest(at(100)), at(114))
    assert waiting.gap is None


def test_while_all_is_asked_for_again_directories_are_looked_for():
    waiting = MissedJobs(gap=PollGap(at(0), at(100)), jobs={known.key: known for known in [known_past(1)]})
    waiting = waiting.with_failure("slurmdbd is down", at(101), is_hopeless=False)
    assert waiting.next_visits() == []
    waiting = waiting.with_rest(waiting.find_rest(at(100)), at(103))
    assert len(waiting.next_visits()) == 1
    waiting = waiting.with_gap(PollGap(at(0), at(200)))
    assert waiting.next_visits() == []


def known_past(job_id, uid=1000):
    job = make_job(job_id, uid=uid)
    key = JobKey(CLUSTER, job_id, at(1))
    return TrackedJob(key=key, job=job, attempt=None, run=None, last_seen_at=at(2), ended_at=at(2))


def test_directories_are_looked_for_once_all_jobs_are_known_and_so_many_at_a_time():
    jobs = {known.key: known for known in (known_past(n, uid=n) for n in range(1, missed_jobs.MOST_VISITS + 11))}
    waiting = MissedJobs(gap=PollGap(at(0), at(100)), jobs=jobs)
    assert waiting.next_visits() == []
    waiting = waiting.with_rest(None, at(120))
    first = waiting.next_visits()
    waiting = waiting.with_visits(first)
    assert len(first) == missed_jobs.MOST_VISITS
    assert waiting.next_visits() == []
    waiting = waiting.without({known.key for known in first})
    assert len(waiting.next_visits()) == 10


def test_no_user_takes_every_turn():
    jobs = [known_past(n) for n in range(1, 1000)] + [known_past(1000, uid=2000)]
    waiting = MissedJobs(jobs={known.key: known for known in jobs})
    first = waiting.next_visits()
    assert [known.job.uid for known in first] == [1000] * missed_jobs.MOST_OF_OWNER + [2000]
    waiting = waiting.with_visits(first)
    assert waiting.next_visits() == []


def test_nobody_goes_on_with_a_run_while_jobs_of_its_user_may_still_come_to_be_known():
    waiting = MissedJobs(gap=PollGap(at(0), at(100)))
    assert waiting.is_pending(1000)
    waiting = waiting.with_failure("program missing", at(100), is_hopeless=True)
    assert not waiting.is_pending(1000)
    waiting = waiting.with_rest(None, at(120))
    waiting = waiting.with_jobs({known.key: known for known in [known_past(1)]})
    assert (waiting.is_pending(1000), waiting.is_pending(2000)) == (True, False)
