"""When it is said that something is well again, and when that would not be true."""

from dataclasses import replace

import pytest

from ckptd.core import notices
from ckptd.core.health import flag_changes
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import RunKey, Severity
from ckptd.core.notices import EntryStatus, NoticeKind, NoticeMode, TopicCount
from core.histories import RUN, at
from core.notice_facts import (
    ADMIN,
    ALICE,
    DAY,
    POLICY,
    array_of,
    facts_of,
    flag,
    notified_ago,
    opened,
    plan,
    remember,
    resolved,
    run_of,
)


def test_a_recovery_after_a_repetition_is_told_once():
    notified = notified_ago(flag(), 8 * DAY)
    repeated = notices.plan_repeats(facts_of(flag(), open_flags=(flag(),), notified=notified), POLICY, at(0))
    (recovery,) = plan(resolved(flag()), facts_of(flag(), notified=remember(notified, repeated)), now=at(60))
    assert [entry.status for entry in notices.compose([*repeated, recovery]).entries] == [EntryStatus.RESOLVED]


def test_a_recovery_is_said_once_and_only_to_those_who_were_told():
    first = plan(opened(flag()))
    assert plan(resolved(flag()), now=at(60)) == ()
    notified = remember({}, first)
    (second,) = plan(resolved(flag()), facts_of(flag(), notified=notified), now=at(60))
    assert (second.kind, second.recipient) == (NoticeKind.RESOLVED, ALICE)
    assert plan(resolved(flag()), facts_of(flag(), notified=remember(notified, [second])), now=at(70)) == ()


@pytest.mark.parametrize(
    ("mode", "audience", "changes", "is_told"),
    [
        (NoticeMode.ON, ("admin",), {}, False),
        (NoticeMode.ON, ("user", "admin"), {}, False),
        (NoticeMode.ADMIN, ("user",), {}, False),
        (NoticeMode.ON, ("user", "admin"), {"mail_user": ADMIN.address}, True),  # it is the user's address
    ],
)
def test_a_recovery_is_said_to_a_former_administrator_only_about_their_own_jobs(mode, audience, changes, is_told):
    bad = flag(audience=audience)
    first = notices.plan(opened(bad), facts_of(bad, **changes), replace(POLICY, mode=mode), at(0))
    notified = {key: each for key, each in remember({}, first).items() if key[0] == ADMIN}
    others = replace(POLICY, admins=("new@example.org",))
    recoveries = notices.plan(resolved(bad), facts_of(bad, notified=notified), others, at(60))
    assert [each.recipient for each in recoveries] == [ADMIN] * is_told


def test_what_is_over_makes_no_message_about_something_else_worse():
    bad = flag(severity=Severity.CRITICAL)
    notified = remember({}, plan(opened(bad)))
    (recovery,) = plan(resolved(bad), facts_of(bad, notified=notified), now=at(60))
    (news,) = plan(opened(flag(9, rule="too-frequent", severity=Severity.INFO)), now=at(60))
    digest = notices.compose([recovery, news])
    assert [entry.status for entry in digest.entries] == [EntryStatus.OPEN, EntryStatus.RESOLVED]
    assert digest.severity is Severity.INFO
    assert notices.compose([recovery]).severity is Severity.CRITICAL


def test_the_end_of_a_job_is_no_recovery():
    notified = remember({}, plan(opened(flag())))
    assert plan(resolved(flag()), facts_of(flag(), notified=notified, queued=set()), now=at(60)) == ()


def test_what_ended_with_its_attempt_is_no_recovery():
    notified = remember({}, plan(opened(flag())))
    (ended,) = flag_changes.mark_ended(resolved(flag()), {}).resolved
    assert plan(FlagChanges(resolved=(ended,)), facts_of(flag(), notified=notified), now=at(60)) == ()


@pytest.mark.parametrize(
    ("rule", "run", "job_id", "is_good_news"),
    [
        ("restarted-without-checkpoint", RUN, 1, False),
        ("restarted-without-checkpoint", RUN, 2, False),  # the next job of the run
        ("restarted-without-checkpoint", run_of(2), 1, False),  # the job saves elsewhere now
        ("not-resuming", RUN, 1, False),
        ("at-risk", RUN, 1, True),
        ("restarted-without-checkpoint", run_of(2), 2, True),
    ],
)
def test_the_end_of_no_checkpoint_yet_is_no_recovery_while_worse_holds_for_its_run_or_job(
    rule, run, job_id, is_good_news
):
    lesser = flag(rule="no-checkpoint-yet")
    worse = flag(2, rule=rule, run=run, job_id=job_id, severity=Severity.CRITICAL)
    notified = remember({}, plan(opened(lesser)))
    facts = facts_of(lesser, worse, notified=notified)
    at_once = FlagChanges(opened=(worse,), resolved=resolved(lesser).resolved)
    of_before = replace(facts, open_flags=(lesser, worse))
    for changes, known in [(at_once, facts), (resolved(lesser), of_before)]:
        planned = plan(changes, known, now=at(60))
        assert any(each.kind is NoticeKind.RESOLVED for each in planned) is is_good_news


@pytest.mark.parametrize(("open_count", "is_said"), [(1, False), (0, True)])
def test_a_recovery_that_waits_is_not_said_once_worse_of_the_same_run_stands_beside_it(open_count, is_said):
    lesser = flag(rule="no-checkpoint-yet")
    worse = flag(2, rule="restarted-without-checkpoint", severity=Severity.CRITICAL)
    notified = remember({}, plan(opened(lesser)))
    recovery = plan(resolved(lesser), facts_of(lesser, notified=notified), now=at(60))
    news = plan(opened(worse), now=at(63))
    digest = notices.compose([*recovery, *news], tallies={news[0].topic: TopicCount(1, open_count)})
    assert (EntryStatus.RESOLVED in [entry.status for entry in digest.entries]) is is_said
    assert digest.dropped == (() if is_said else recovery)


def test_a_recovery_is_said_when_the_last_task_of_the_array_recovered():
    flags, facts = array_of(3)
    notified = remember({}, plan(opened(*flags), facts))
    standing = replace(facts, notified=notified, open_flags=tuple(flags))
    assert plan(resolved(*flags[:2]), standing, now=at(60)) == ()
    (found,) = plan(resolved(flags[2]), replace(standing, open_flags=(flags[2],)), now=at(70))
    assert found.kind is NoticeKind.RESOLVED


def test_a_recovery_finds_what_was_told_before_the_directory_was_known():
    before = flag(run=RunKey("c1", 1000, "job:1@2026-03-01"), rule="no-checkpoint-yet")
    notified = remember({}, plan(opened(before)))
    after = replace(before, finding=replace(before.finding, run=RUN))
    (found,) = plan(resolved(after), facts_of(after, notified=notified), now=at(60))
    assert found.kind is NoticeKind.RESOLVED


def test_a_flag_that_comes_back_takes_its_untold_recovery_back():
    notified = remember({}, plan(opened(flag())))
    recovery = plan(resolved(flag()), facts_of(flag(), notified=notified), now=at(60))
    back = plan(opened(flag()), facts_of(flag(), notified=remember(notified, recovery)), now=at(70))
    assert [each.is_silent for each in back] == [True]
    digest = notices.compose([*recovery, *back])
    assert digest.entries == ()
    assert digest.dropped == (*recovery, *back)
