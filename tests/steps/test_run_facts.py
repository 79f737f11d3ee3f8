import itertools
from dataclasses import replace
from datetime import timedelta

from ckptd.core.model import EndCause, FreeSpaceSample, Hold, InterruptionTally
from ckptd.core.runs.observations import EndTally, count_interruptions
from ckptd.steps.run_facts import SAMPLE_COUNT, EndTallies, FreeSpaceSamples, JobHolds
from core.histories import RUN, at, attempt, history, job, scan_at


def found_by(tallies, node_count):
    return tallies.find_interruptions(history(jobs=[job(node_count=node_count)]))


def note(space, scan):
    samples = space.sample(RUN, scan)
    return space if samples is None else space.with_samples({RUN: samples})


def test_the_free_space_at_a_run_is_remembered():
    space = FreeSpaceSamples()
    space = note(space, scan_at(6, free_bytes=9))
    assert space.by_run[RUN] == (FreeSpaceSample(at(6), 9),)


def test_the_free_space_is_what_is_free_or_what_the_quota_leaves():
    space = FreeSpaceSamples()
    space = note(space, scan_at(6, free_bytes=9, quota_left_bytes=4))
    space = note(space, scan_at(20, free_bytes=3, quota_left_bytes=4))
    space = note(space, scan_at(40, quota_left_bytes=4))
    space = note(space, scan_at(60, free_bytes=9, quota_error="it took over 10 s"))
    assert [sample.free_bytes for sample in space.by_run[RUN]] == [4, 3, 4]


def test_memory_is_bounded_and_follows_the_runs_that_are_watched():
    space = FreeSpaceSamples()
    for minute in range(1000):
        space = note(space, scan_at(minute, free_bytes=minute))
    samples = space.by_run[RUN]
    assert len(samples) == SAMPLE_COUNT
    assert all(later.at - earlier.at >= timedelta(minutes=10) for earlier, later in itertools.pairwise(samples))
    assert space.keep([]) == FreeSpaceSamples()


def test_a_clock_that_is_set_back_leaves_no_sample_of_the_future():
    space = FreeSpaceSamples()
    for minute in (0, 10, 300, 20):
        space = note(space, scan_at(minute, free_bytes=minute))
    assert [sample.at for sample in space.by_run[RUN]] == [at(0), at(10), at(20)]


def test_interruptions_are_counted_for_jobs_of_a_size():
    tallies = EndTallies()
    causes = (EndCause.PREEMPTION, EndCause.NODE_FAILURE, EndCause.TIME_LIMIT, EndCause.CANCEL, EndCause.REQUEUE)
    ended = [replace(attempt(0, 60, cause=cause), node_count=3, partition="low") for cause in causes]
    tallies = tallies.with_ended([*ended, attempt(0)])
    assert found_by(tallies, 4) == InterruptionTally(2, timedelta(hours=5))
    assert tallies.is_preempted("low")
    assert (found_by(tallies, 5), tallies.is_preempted("high")) == (None, False)


def test_an_end_that_turns_out_otherwise_is_counted_once_as_it_was():
    tallies = EndTallies()
    guessed = replace(attempt(0, 60, cause=EndCause.UNKNOWN), node_count=3, partition="low")
    tallies = tallies.with_ended([guessed])
    tallies = tallies.with_ended([replace(guessed, cause=EndCause.PREEMPTION, ended_at=at(50))], [guessed])
    assert found_by(tallies, 4) == InterruptionTally(1, timedelta(minutes=50))
    assert tallies.is_preempted("low")
    tallies = tallies.with_ended(
        [], [replace(guessed, cause=EndCause.PREEMPTION, ended_at=at(50))]
    )  # it was seen running again
    assert (found_by(tallies, 4), tallies.is_preempted("low")) == (InterruptionTally(0, timedelta(0)), False)


def test_nobody_s_short_jobs_that_are_broken_off_on_purpose_tell_others_to_save_more_often():
    def ends(uid, count, hours):
        return EndTally(1, "low", EndCause.PREEMPTION, count, timedelta(hours=hours), uid)

    honest, spoilers = ends(1000, 10, 1000), [ends(uid, 3000, 50) for uid in (2000, 2001)]
    tallies = EndTallies().with_tallies((honest, *spoilers))
    alone = EndTallies().with_tallies((honest,))

    def count(tallies, uid=1000):
        return tallies.find_interruptions(history(key=RUN._replace(uid=uid))).interruption_count

    assert (count(alone), count(alone, 3000)) == (10, 10)
    assert 10 < count(EndTallies().with_tallies((honest, spoilers[0]))) < 20
    assert count(tallies) < 30, "not 6010, though there are two of them"
    assert count(tallies, 2000) > 3000, "their own runs are to be told of it"
    assert tallies.find_interruptions(history()) == count_interruptions((honest, *spoilers), 1, RUN.uid)


def test_an_end_counts_for_the_owner_of_its_job():
    tallies = EndTallies()
    broken = [replace(attempt(0, 1, job_id=number, cause=EndCause.PREEMPTION), node_count=1) for number in range(100)]
    tallies = tallies.with_ended(broken, owner_of=lambda _: 2000)
    assert tallies.find_interruptions(history()) == InterruptionTally(1, timedelta(minutes=100))
    tallies = tallies.with_ended([], broken[:50], owner_of=lambda _: 2000)
    assert tallies.find_interruptions(history(key=RUN._replace(uid=2000))).interruption_count == 50


def test_a_later_hold_counts_and_what_earlier_ones_broke_off_stays_so():
    holds, key = JobHolds(), attempt().job
    holds = holds.with_holds([(key, Hold(3, frozenset({2}), is_own=True))])
    holds = holds.with_holds([(key, Hold(6, frozenset({5}), is_own=True))])
    assert holds.find([attempt()]) == {key: Hold(6, frozenset({2, 5}), is_own=True)}
