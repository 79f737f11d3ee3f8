"""What is made of the jobs that came and went unseen: their runs, their losses, and who may act on them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

from ckptd.core.model import EndCause, RestartKind, Unknown
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.polled_queue import PolledQueue
from steps.daemon_lives import OTHERS
from steps.databases import on_both_databases
from steps.past_jobs import DOWN, FOURTH, THREE, attempts, came_and_went
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job, make_past, make_row


@on_both_databases
def test_what_was_saved_counts_by_the_times_of_the_files_and_the_lines_are_settled(lives):
    second = came_and_went(lives)
    second.parts.agent.checkpoints = (make_checkpoint("a", 27), make_checkpoint("b", 36), make_checkpoint("c", 46))
    second.run(60, FOURTH)
    lines = second.parts.store.lost_work.list_lines(RUN)
    minute = timedelta(minutes=1)
    assert [(line.attempt[0].job_id, line.loss.lost / minute, line.loss.most / minute) for line in lines] == [
        (1, 0, 21),  # nobody saw whether later attempts deleted what it had saved
        (2, 3, 3),
        (2, 4, 4),
        (3, 4, 4),
    ]
    assert [line.is_final for line in lines] == [False, True, True, True]


def test_work_whose_saves_may_have_been_overwritten_is_not_taken_for_known(lives):
    second = came_and_went(lives)
    second.parts.agent.checkpoints = (make_checkpoint("last.pt", 58),)  # which job 4 wrote over whatever was there
    second.run(60, FOURTH)
    lines = second.parts.store.lost_work.list_lines(RUN)[1:]
    assert [line.is_final for line in lines] == [False] * 3
    assert [line.loss.most for line in lines] == [each.ended_at - each.started_at for each in THREE]
    assert [line.loss.lost for line in lines] == [timedelta(0)] * 3


def test_an_unseen_attempt_that_nobody_followed_lost_what_the_disk_says(lives):
    second = came_and_went(lives)
    second.run(60)  # job 4 never was
    line = second.parts.store.lost_work.list_lines(RUN)[-1]
    assert (line.attempt[0].job_id, line.is_final, line.loss.lost) == (3, True, timedelta(minutes=5))


def test_rules_count_attempts_that_nobody_saw(lives):
    second = came_and_went(lives)
    waiting_behind = replace(FOURTH, submitted_at=at(30))  # submitted when the others had failed it might be mended
    second.run(60, waiting_behind)
    second.run(61, waiting_behind)
    flags = {flag.finding.rule: flag for flag in second.parts.store.flags.list_open(CLUSTER) if flag.finding.run == RUN}
    assert {"restart-loop", "restarted-without-checkpoint"} <= flags.keys()
    assert flags["restart-loop"].finding.job_id == 4


def test_jobs_that_are_over_open_no_flags_and_so_nobody_is_told_of_them(lives):
    lives(0).run(0)
    second = lives(600)
    second.parts.source.past = tuple(make_past(number, number, number + 2) for number in range(2, 60))
    for minutes in range(600, 604):
        second.run(minutes)
    assert len(attempts(second)) == 58
    flags = second.parts.store.flags.read(CLUSTER, include_resolved=True)
    assert {flag.finding.user for flag in flags} == {"bob"}  # whose jobs are in the queue


def test_the_number_of_a_running_job_may_have_been_anothers_while_nobody_looked(lives):
    lives(0).run(0, make_job(1))
    second = lives(60)
    second.parts.source.ended = (make_row(1, -1, 20, STATES.NODE_FAIL),)
    second.parts.source.past = (make_past(1, 25, 30, uid=3000, user="carol"), make_past(1, 35, 40))
    wrapped = make_job(1, submitted_at=at(50), started_at=at(51), ends_at=at(200))
    second.run(60, wrapped)
    second.run(61, wrapped)
    assert [(job, kind, cause) for job, _, kind, cause in attempts(second)] == [
        (1, None, EndCause.NODE_FAILURE),
        (1, RestartKind.RESUBMIT, EndCause.FAILURE),
        (1, RestartKind.RESUBMIT, None),
    ]
    assert second.state.latest(PolledQueue).tracked[1].job.started_at == at(51)
    assert second.state.latest(PolledQueue).tracked[1].run == RUN
    [carols] = [h for h in second.parts.store.histories.read(CLUSTER) if h.key.uid == 3000]
    assert [a.ended_at for a in carols.attempts] == [at(30)]


def test_where_a_job_is_found_is_not_said_of_the_one_that_has_its_number_now(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts.source.past = (make_past(1, 35, 40),)
    carols = make_job(1, uid=3000, user="carol", submitted_at=at(50), started_at=at(51), ends_at=at(200))
    second.run(60, carols)
    assert [(job, cause) for job, _, _, cause in attempts(second)] == [(1, EndCause.FAILURE)]
    assert second.state.latest(PolledQueue).tracked[1].run.uid == 3000
    assert lives(61).state.latest(PolledQueue).tracked[1].run.uid == 3000


def test_a_job_on_record_that_ran_again_unseen_gets_what_is_missing(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.run(4, make_job(1, STATES.NODE_FAIL, ends_at=at(3)))
    second = lives(60)
    second.parts.source.past = (make_past(1, 10, 30, STATES.TIMEOUT, submitted=3),)
    second.run(60)
    assert attempts(second) == [
        (1, 0, None, EndCause.NODE_FAILURE),
        (1, 1, RestartKind.REQUEUE, EndCause.TIME_LIMIT),
    ]
    assert [line.is_final for line in second.parts.store.lost_work.list_lines(RUN)] == [True, True]


def test_what_ran_before_a_job_was_first_seen_takes_its_place_in_the_run(lives):
    lives(0).run(0, make_job(1))
    second = lives(60)
    second.parts.source.ended, second.parts.source.past = DOWN, DOWN
    again = make_job(5, STATES.RUNNING, 1, submitted_at=at(40), started_at=at(42), ends_at=at(200))
    second.run(60, again)
    assert attempts(second) == [(1, 0, None, EndCause.UNKNOWN), (5, 1, RestartKind.REQUEUE, None)]
    second.parts.source.past = (make_past(1, -1, 20), make_past(5, 30, 40, STATES.REQUEUED))
    second.run(62, again)
    assert attempts(second) == [
        (1, 0, None, EndCause.FAILURE),
        (5, 0, RestartKind.RESUBMIT, EndCause.REQUEUE),
        (5, 1, RestartKind.REQUEUE, None),
    ]


def test_what_broke_them_off_counts_as_it_will_after_a_restart(lives):
    second = came_and_went(lives)
    second.parts.source.past += (make_past(8, 30, 50, STATES.NODE_FAIL, uid=3000),)
    tally = second.run(60, FOURTH).context.interruptions
    assert (tally.interruption_count, tally.observed) == (2, timedelta(minutes=21 + 5 + 8 + 5 + 20))
    assert lives(61).run(61, FOURTH).context.interruptions == tally
    ended = second.state.events.read().ended_attempts
    assert (ended[EndCause.TIME_LIMIT], ended[EndCause.FAILURE], ended[EndCause.NODE_FAILURE]) == (1, 1, 2)


def test_a_run_that_its_limit_ended_while_nobody_looked_may_still_go_on(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts.source.past = (make_past(2, 25, 40, STATES.TIMEOUT),)
    second.run(60)
    assert second.finished() == {}  # nobody knows yet that nothing else came of it
    second.run(61)
    assert {run: (each.job.job_id, each.is_final) for run, each in second.finished().items()} == {RUN: (2, True)}


def test_a_directory_that_is_read_in_part_is_read_again_and_holds_no_other_run_back(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts.agent.problems = (Unknown(what="old", reason="Stale file handle"),)
    second.parts.source.past = (make_past(2, 25, 40, STATES.TIMEOUT),)
    second.run(60)
    second.run(61)
    assert not second.state.latest(MissedJobs).is_pending(RUN.uid)
    assert {run: each.is_final for run, each in second.finished().items()} == {RUN: False}
    second.parts.agent.problems = ()
    second.run(75)
    assert {run: each.is_final for run, each in second.finished().items()} == {RUN: True}


@on_both_databases
def test_a_run_that_may_have_gone_on_unseen_is_not_submitted_again(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.run(4, make_job(1, STATES.TIMEOUT, ends_at=at(3)))
    second = lives(30)
    second.parts.source.past = DOWN
    second.run(30)
    assert second.finished() == {}
    second.parts.source.past = (make_past(2, 5, 20),)
    for minutes in (32, 33, 37, 41):
        second.run(minutes)
        assert second.finished() == {}  # something may still come late
    second.run(43)
    assert RUN in second.finished()  # where the attempt is no longer the run's latest: nothing comes of it
    assert [each[0] for each in attempts(second)] == [1, 2]


@on_both_databases
def test_of_a_job_whose_number_is_anothers_now_no_script_is_read(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts = replace(second.parts, reads_batch_scripts=True)
    read = []

    def read_batch_script(job, *, is_urgent=False):
        if not is_urgent:  # those are of jobs that run and have saved nothing for long
            read.append(job.job_id)
        return DOWN

    second.parts.source.read_batch_script = read_batch_script
    second.parts.source.past = (make_past(3, 25, 40), make_past(4, 25, 40, uid=3000))
    second.run(60, FOURTH)
    assert sorted(read) == [3, 4, *(job.job_id for job in OTHERS)]  # of job 4 that of the one that runs


def test_another_job_in_the_same_place_makes_a_directory_nobodys(lives):
    """The disk's answers are found by a look around, where two jobs of other work ran at the same time."""
    lives(0).run(0)
    second = lives(60)
    second.parts.agent.located_by = "discovery"
    home = {"work_dir": PurePosixPath(RUN.directory).parent}
    second.parts.source.past = (make_past(2, 25, 40, name="a", **home), make_past(3, 30, 50, name="b", **home))
    second.run(60)
    assert second.parts.store.histories.read(CLUSTER, [RUN]) == []
    third = lives(70)
    third.parts.source.past = (make_past(4, 62, 66, name="c", **home),)
    third.run(80)
    assert attempts(third) == [(4, 0, None, EndCause.FAILURE)]
