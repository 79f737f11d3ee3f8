"""What the daemon learned survives it: a second one on the same database gives the same answers."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.forecast.optimum import daly_optimum, mean_time_between_interruptions
from ckptd.core.job_actions import action_policy
from ckptd.core.model import EndCause, FreeSpaceSample, Hold, InterruptionTally, Maintenance, Unknown, UserSettings
from ckptd.core.model.records import AuditEntry, ScanRecord
from ckptd.steps import expire, poll, publish
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.run_facts import EndTallies
from ckptd.steps.snapshots import RunHistories
from steps.databases import on_both_databases
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job, make_row

MEANT = UserSettings(goal_epoch=30, muted=frozenset({"too-sparse"}), is_resubmitted=True, max_resubmits=2)


def waiting(count, minutes, **changes):
    return make_job(1, STATES.PENDING, count, submitted_at=at(minutes), started_at=None, **changes)


def running(count, minutes, **changes):
    return make_job(1, STATES.RUNNING, count, submitted_at=at(minutes - 1), started_at=at(minutes), **changes)


def preempted(service, **changes):
    """A job of three nodes that a higher partition took the nodes from, as accounting tells one poll later."""
    service.run(0, make_job(1, partition="low", node_count=3, **changes))
    service.run(30, waiting(1, 29, partition="low", **changes))
    service.parts.source.ended = (make_row(1, -1, 29, STATES.PREEMPTED),)
    service.run(31, waiting(1, 29, partition="low", **changes))


def test_interruptions_and_the_optimum_that_follows_are_the_same_after_a_restart(lives):
    first = lives(0)
    preempted(first)
    before = first.run(33, running(1, 32, partition="low", node_count=3))
    assert before.context.interruptions == InterruptionTally(1, timedelta(minutes=30))
    assert before.context.is_preempted_there
    after = lives(34).run(35, running(1, 32, partition="low", node_count=3))
    assert (after.context.interruptions, after.context.is_preempted_there) == (before.context.interruptions, True)
    means = [mean_time_between_interruptions(each.context.interruptions, 3) for each in (before, after)]
    assert means[0] == means[1]
    save = timedelta(minutes=5)
    assert daly_optimum(save, means[0]) == daly_optimum(save, means[1]) < daly_optimum(save, timedelta(days=30))


def test_requeued_jobs_that_began_again_are_reported_by_how_many_users_they_are_of(lives):
    service = lives(0)
    jobs = [make_job(number, uid=1000 + number // 30, user=f"user{number // 30}") for number in range(1, 60)]
    service.run(0, *jobs)
    service.run(3, *(replace(each, state=STATES.PENDING, restart_count=1, submitted_at=at(2)) for each in jobs))
    again = [replace(each, restart_count=1, submitted_at=at(2), started_at=at(4)) for each in jobs]
    service.run(5, *again)
    assert publish.report(service.parts, service.state, at(5)).recent_requeues == 40
    service.run(35, *again)
    assert publish.report(service.parts, service.state, at(35)).recent_requeues == 0


def test_what_accounting_corrects_while_the_daemon_runs_is_counted_as_it_would_be_after_a_restart(lives):
    first = lives(0)
    preempted(first)
    tally = first.state.latest(EndTallies).find_interruptions(first.state.latest(RunHistories).by_run[RUN])
    learned = first.parts.store.restart_state.read(CLUSTER, ended_since=at(-60), timed_out_since=at(-60))
    assert sum(each.attempt_count for each in learned.ends if each.cause is EndCause.PREEMPTION) == 1
    assert lives(32).run(33, waiting(1, 29, partition="low")).context.interruptions == tally


def test_what_owners_wish_is_known_before_any_directory_is_searched_again(lives):
    before = lives(0).run(0, make_job(1))
    assert before.user_settings == MEANT
    second = lives(1)
    after = second.run(2, make_job(1))
    assert after.user_settings == MEANT
    [bob] = {h.user_settings for h in second.state.latest(RunHistories).by_run.values() if h.key.uid == 2000}
    assert bob == UserSettings(muted=frozenset({"no-room"}))  # though no directory of theirs was ever found
    [history] = second.parts.store.histories.read(CLUSTER, [RUN])
    assert history.user_settings == MEANT  # which is what commands read
    [prunable] = second.parts.store.prune_records.read(CLUSTER, [RUN])
    assert list(prunable.retention_settings.values()) == [{"keep": {"last": 3}}]


@on_both_databases
def test_a_file_that_cannot_be_read_takes_no_wish_back_and_an_empty_one_takes_all(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.parts.agent.user_settings = {"problem": "it is not TOML"}
    again = first.run(6, make_job(1), make_job(2, started_at=at(5)))
    assert replace(again.user_settings, misread=()) == MEANT
    assert again.user_settings.misread
    [prunable] = first.parts.store.prune_records.read(CLUSTER, [RUN])
    assert list(prunable.retention_settings.values()) == [{"keep": {"last": 3}, "problem": "it is not TOML"}]
    first.parts.agent.user_settings = {}
    assert first.run(12, make_job(1), make_job(2), make_job(3, started_at=at(11))).user_settings == UserSettings()
    assert lives(13).run(14, make_job(1), make_job(2), make_job(3)).user_settings == UserSettings()


def test_a_run_that_its_limit_ended_may_still_go_on_after_a_restart(lives):
    first = lives(0)
    first.run(0, make_job(1))
    over = make_job(1, STATES.TIMEOUT, ends_at=at(59))
    first.run(60, over)
    [before] = first.finished().values()
    second = lives(61)
    assert second.finished() == {}  # before a look at the queue nobody knows whether it goes on already
    second.run(62)  # and slurmctld has forgotten the job by then
    assert {run: (each.job.job_id, each.attempt.cause) for run, each in second.finished().items()} == {
        RUN: (1, EndCause.TIME_LIMIT)
    }
    assert before.attempt.ended_at == second.finished()[RUN].attempt.ended_at
    second.run(62.5, make_job(2, STATES.PENDING))
    assert second.finished()[RUN].has_successor
    second.run(59 + 59)
    assert not second.finished()[RUN].is_late
    second.run(59 + 61)
    assert second.finished()[RUN].is_late  # nothing is done any more, but that is told
    second.run(59 + 121)
    assert second.finished() == {}


def test_a_run_whose_end_was_recorded_and_not_looked_at_before_a_restart_is_looked_at_after_it(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.parts.source.jobs = (make_job(1, STATES.FAILED, ends_at=at(60)), *first.parts.source.jobs[1:])
    poll.record_queue(first.parts, first.state, *poll.observe_queue(first.parts, first.state, at(60)), at(60))
    first.parts.agent.checkpoints = (make_checkpoint(written=58),)
    second = lives(61)
    second.run(62)
    [line] = second.parts.store.lost_work.list_lines(RUN)
    assert (line.loss.lost, line.is_final) == (timedelta(minutes=2), True)
    assert RUN not in lives(63).state.watchlist


@pytest.mark.parametrize(("away", "is_proven"), [(8, True), (30, False)])
@on_both_databases
def test_what_is_written_while_the_daemon_is_away_is_the_runs_own_unless_others_could_have_come(lives, away, is_proven):
    first = lives(0)
    first.run(0, make_job(1))
    first.parts.agent.checkpoints = (make_checkpoint(written=5),)
    second = lives(away)
    [record] = second.run(away + 1, make_job(1)).checkpoints
    assert (record.attempt and record.attempt[0].job_id) == (1 if is_proven else None)


def test_what_was_saved_during_a_slow_look_counts_from_when_it_was_saved(lives):
    service = lives(0)
    service.run(0, make_job(1))
    service.parts.agent.took = timedelta(minutes=3)
    service.parts.agent.checkpoints = (make_checkpoint("a.pt", written=11), make_checkpoint("b.pt", written=20))
    found = service.run(10, make_job(1)).checkpoints
    assert [each.completed_at for each in found] == [at(11), at(13)]  # the second one's clock is ahead


def test_a_maintenance_counts_for_a_while_after_slurm_has_forgotten_it(lives):
    service = lives(0)
    held = Maintenance("maint", at(-5), at(7), frozenset({"n1"}))
    for minutes, told, known in ((0, (held,), (held,)), (8, (), (held,)), (38, (), ())):
        service.parts = replace(service.parts, read_maintenance=lambda told=told: told)
        service.run(minutes, make_job(1))
        assert service.state.latest(PolledQueue).maintenance == known


def test_a_first_look_still_credits_nobody(lives):
    service = lives(0)
    service.parts.agent.checkpoints = (make_checkpoint(written=0),)
    [record] = service.run(1, make_job(1)).checkpoints
    assert record.attempt is None


def test_the_room_that_was_sampled_is_the_same_after_a_restart(lives):
    first = lives(0)
    for number in range(4):
        first.parts.agent.free_bytes = 1000 - number
        before = first.run(number * 10, make_job(1))
    assert before.free_space_samples == tuple(FreeSpaceSample(at(number * 10), 1000 - number) for number in range(4))
    second = lives(31)
    assert second.run(32, make_job(1)).free_space_samples == before.free_space_samples
    assert second.parts.store.histories.read(CLUSTER, [RUN])[0].free_space_samples == before.free_space_samples


@on_both_databases
def test_a_suspension_is_remembered_over_a_restart(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.run(10, make_job(1, STATES.SUSPENDED))
    assert first.run(20, make_job(1, STATES.SUSPENDED)).suspended_until == {1: at(20)}
    assert first.run(30, make_job(1)).suspended_until == {1: at(30)}
    assert lives(31).run(32, make_job(1)).suspended_until == {1: at(30)}


def test_a_directory_that_is_readable_again_and_unchanged_is_no_longer_unknown_on_record(lives):
    service = lives(0)
    service.run(0, make_job(1))
    service.parts.store.checkpoints.record_scans(
        [ScanRecord(run=RUN, scan=Unknown(what="directory", reason="it hangs"))]
    )
    [history] = service.parts.store.histories.read(CLUSTER, [RUN])
    assert isinstance(history.scan, Unknown)
    service.run(6, make_job(1))
    [history] = service.parts.store.histories.read(CLUSTER, [RUN])
    assert history.scan.is_whole


@on_both_databases
def test_what_ended_long_ago_is_let_go_of_and_no_longer_counts(lives):
    service = lives(0)
    preempted(service, uid=3000)  # whose checkpoints nobody ever found
    service.run(32)
    service.run(33)
    later = 400 * 24 * 60
    service.run(later, make_job(2, node_count=3, partition="low", started_at=at(later - 1), submitted_at=at(later - 2)))
    before = service.state.latest(RunHistories).by_run[RUN]
    assert (before.context.interruptions.interruption_count, before.context.is_preempted_there) == (1, True)
    assert expire.expire(service.parts, service.state, timedelta(days=365), at(later)).run_count == 1
    after = service.run(later + 1, make_job(2, node_count=3, partition="low", started_at=at(later - 1)))
    assert (after.context.interruptions, after.context.is_preempted_there) == (None, False)


def test_what_a_job_did_before_its_user_let_it_go_on_is_known_after_a_restart_of_the_daemon(lives):
    first = lives(0)
    first.run(0, make_job(1))
    assert dict(first.run(3, waiting(1, 2, reason="JobHeldUser")).context.holds) == {}
    again = lives(4).run(5, running(1, 4.5, reason="None"))
    assert list(again.context.holds.values()) == [Hold(1)]
    third = lives(6)
    assert list(third.run(7, running(1, 4.5, reason="None")).context.holds.values()) == [Hold(1)]
    third.run(8, waiting(2, 7.5))
    assert list(lives(9).run(10, running(2, 9.5)).context.holds.values()) == [Hold(1)]


@on_both_databases
def test_of_a_hold_by_ckptd_and_a_persons_release_the_later_one_counts_after_a_restart(lives):
    first = lives(0)
    (attempt,) = first.run(0, make_job(1)).attempts
    first.run(3, waiting(1, 2, reason="JobHeldUser"))
    first.run(5, running(1, 4.5, reason="None"))
    record_hold(first, attempt, 1)
    held = lives(6).run(7, waiting(2, 6, reason="JobHeldUser"))
    assert list(held.context.holds.values()) == [Hold(2, frozenset({1}), is_own=True)]
    lives(8).run(9, running(2, 8.5, reason="None"))
    assert list(lives(10).run(11, running(2, 8.5, reason="None")).context.holds.values()) == [Hold(2, frozenset({1}))]


def record_hold(service, attempt, restart_count):
    """Put on record that ckptd has held a job, and ended that attempt of it."""
    service.parts.store.audit.record(
        AuditEntry(
            cluster=CLUSTER,
            actor="actions",
            action="hold-job",
            target="job 1",
            run=RUN,
            plan_id=f"hold-job/1@{attempt.job.first_seen_at.timestamp():.6f}/{restart_count}",
            details={"word": action_policy.BREAKS_OFF},
            begun_at=at(5),
            finished_at=at(5),
            outcome="done",
        )
    )


def test_a_new_life_knows_what_ckptd_has_held(lives):
    first = lives(0)
    before = first.run(0, make_job(1))
    (attempt,) = before.attempts
    hold = action_policy.JobAction(
        kind=action_policy.ActionKind.HOLD,
        name=f"hold-job/1@{attempt.job.first_seen_at.timestamp():.6f}/0",
        run=RUN,
        job=before.jobs[0],
        word=action_policy.BREAKS_OFF,
    )
    acts = ((1, hold.name, "failed: no"), (2, hold.name.replace("/0", "/2"), "done"), (3, "x", "done"))
    for minute, name, outcome in acts:
        entry = AuditEntry(
            cluster=CLUSTER,
            actor="actions",
            action="hold-job",
            target="job 1",
            run=RUN,
            plan_id=name,
            details={"word": hold.word},
            begun_at=at(minute),
            finished_at=at(minute),
            outcome=outcome,
        )
        first.parts.store.audit.record(entry)
    assert dict(lives(4).run(5, make_job(1)).context.holds) == {attempt.job: Hold(3, frozenset({2}), is_own=True)}
