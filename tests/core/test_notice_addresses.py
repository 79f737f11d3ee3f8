from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import notices
from ckptd.core.model import Severity
from ckptd.core.notices import UNADDRESSED, ChatRoom, NoticeKind, NoticeMode, NoticePolicy, Recipient, TopicNotification
from core.histories import at
from core.notice_facts import ADMIN, ALICE, DAY, POLICY, array_of, facts_of, flag, opened, remember, resolved, worsened

NAMED = Recipient("mail", "al@uni.example")
NOT_YET = Recipient(UNADDRESSED, "1")
ROOM = ChatRoom(recipient=Recipient("apprise", "ops"), audience=frozenset({"user"}))


def unanswered(*flags, **changes):
    return replace(facts_of(*flags, **changes), unanswered={1, 77})


@pytest.mark.parametrize(
    ("mode", "audience", "expected"),
    [
        ("on", ("user",), {NOT_YET}),
        ("log", ("user",), {NOT_YET}),
        ("on", ("user", "admin"), {NOT_YET, ADMIN}),
        ("on", ("admin",), {ADMIN}),
        ("admin", ("user",), {ADMIN}),
    ],
)
def test_while_slurm_has_not_said_whom_a_job_wants_mailed_its_user_s_notice_waits_and_no_other_does(
    mode, audience, expected
):
    each = flag(audience=audience)
    found = notices.plan(opened(each), unanswered(each), replace(POLICY, mode=NoticeMode(mode)), at(0))
    assert {notice.recipient for notice in found} == expected


def test_the_tasks_of_an_array_wait_as_one_notice_for_one_answer():
    flags, facts = array_of(3)
    (found,) = notices.plan(opened(*flags), replace(facts, unanswered={77}), POLICY, at(0))
    assert (found.recipient, found.job_count) == (Recipient(UNADDRESSED, "77"), 3)


@pytest.mark.parametrize(
    ("severity", "time_left_seconds", "minutes"),
    [("warning", 864_000, 5), ("critical", None, 5), ("warning", 480, 2), ("info", 480, 5)],
)
def test_a_notice_waits_some_minutes_for_its_address_and_less_where_time_runs_out(severity, time_left_seconds, minutes):
    each = flag(severity=Severity(severity))
    each = replace(each, finding=replace(each.finding, evidence={"time_left_seconds": time_left_seconds}))
    (found,) = notices.plan(opened(each), unanswered(each), POLICY, at(0))
    assert notices.waits_until(found) == at(minutes)


def edges(*steps):
    """Notices that wait for their address, one for each step, a minute apart."""
    each = flag()
    made, notified = [], {}
    for minute, step in enumerate(steps):
        changes = {"opened": opened, "worsened": worsened, "resolved": resolved}[step](each)
        made += notices.plan(changes, replace(unanswered(each), notified=notified), POLICY, at(minute))
        notified = remember({}, made)
    return made


@pytest.mark.parametrize(
    ("steps", "notified_ago", "expected"),
    [
        (["opened"], None, ["opened"]),
        (["opened", "worsened"], None, ["opened", "worsened"]),
        (["opened", "resolved"], None, ["opened", "resolved"]),
        (["opened"], DAY, []),  # the same reader has it from another job of the run
        (["opened"], 8 * DAY, ["opened"]),
        (["opened", "worsened"], DAY, ["worsened"]),
        (["opened", "resolved"], DAY, ["resolved"]),
    ],
)
def test_what_waited_is_told_at_its_address_as_if_it_had_been_known(steps, notified_ago, expected):
    waiting = edges(*steps)
    assert {notice.recipient for notice in waiting} == {NOT_YET}
    notified = {}
    if notified_ago:
        notified[NAMED, waiting[0].topic] = TopicNotification(
            notified_at=at(0) - notified_ago, severity=Severity.WARNING
        )
    found = notices.readdress(waiting, "al@uni.example", notified, POLICY, at(3))
    assert [(notice.recipient, notice.kind.value) for notice in found] == [(NAMED, kind) for kind in expected]
    by_edge = {notice.edge: notice for notice in waiting}
    for notice in found:
        before = by_edge[notice.edge]
        assert replace(notice, recipient=before.recipient) == before  # nothing else has changed, above all not its time


@pytest.mark.parametrize(
    ("mail_user", "policy", "expected"),
    [
        ("al@uni.example", POLICY, [(NAMED, None)]),
        (None, POLICY, [(ALICE, None)]),
        ("al@uni.example", replace(POLICY, allowed_domains=("example.org",)), [(ALICE, None)]),
        (None, replace(POLICY, user_rule=""), [(ADMIN, "alice")]),
        ("al@uni.example", replace(POLICY, mode=NoticeMode.ADMIN), [(ADMIN, "al@uni.example")]),
        ("al@uni.example", replace(POLICY, mode=NoticeMode.LOG), [(Recipient("log", NAMED.address), None)]),
        ("al@uni.example", NoticePolicy(), []),
    ],
)
def test_what_waited_goes_where_the_site_wants_it_by_then(mail_user, policy, expected):
    found = notices.readdress(edges("opened"), mail_user, {}, policy, at(3))
    assert [(notice.recipient, notice.meant_for) for notice in found] == expected


def test_nothing_goes_back_where_it_was_refused():
    (refused,) = notices.plan(opened(flag()), facts_of(flag()), POLICY, at(0))
    assert refused.recipient == ALICE
    assert notices.readdress_refused([refused], {}, POLICY, at(3)) == ()


def test_a_flag_that_came_back_while_its_recovery_waits_is_told_silently_at_its_address():
    topic = edges("opened")[0].topic
    notified = {(NAMED, topic): TopicNotification(notified_at=at(-60), severity=Severity.WARNING, resolved_at=at(-1))}
    (found,) = notices.readdress(edges("opened"), "al@uni.example", notified, POLICY, at(3))
    assert found.is_silent


@pytest.mark.parametrize("mail_user", [None, "al@uni.example", "new@uni.example"])
def test_a_recovery_goes_to_whoever_was_told_of_the_trouble_whatever_the_job_names_by_then(mail_user):
    policy = replace(POLICY, rooms=(ROOM,))
    notified = remember({}, notices.plan(opened(flag()), facts_of(flag(), mail_user="al@uni.example"), policy, at(0)))
    later = facts_of(flag(), notified=notified, mail_user=mail_user)
    found = notices.plan(resolved(flag()), later, policy, at(60))
    assert {(notice.kind, notice.recipient) for notice in found} == {
        (NoticeKind.RESOLVED, NAMED),
        (NoticeKind.RESOLVED, ROOM.recipient),
    }


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (replace(POLICY, mode=NoticeMode.ADMIN), set()),
        (replace(POLICY, mode=NoticeMode.LOG), set()),
        (NoticePolicy(rooms=(ROOM,)), {ROOM.recipient}),
    ],
)
def test_a_recovery_takes_no_way_that_the_site_has_closed_since(policy, expected):
    before = replace(POLICY, rooms=(ROOM,))
    notified = remember({}, notices.plan(opened(flag()), facts_of(flag()), before, at(0)))
    found = notices.plan(resolved(flag()), facts_of(flag(), notified=notified), policy, at(60))
    assert {notice.recipient for notice in found} == expected


def test_an_administrator_who_got_a_user_s_notice_hears_of_its_end_as_of_that_user():
    policy = replace(POLICY, mode=NoticeMode.ADMIN)
    notified = remember({}, notices.plan(opened(flag()), facts_of(flag()), policy, at(0)))
    (found,) = notices.plan(resolved(flag()), facts_of(flag(), notified=notified), policy, at(60))
    assert (found.recipient, found.meant_for) == (ADMIN, ALICE.address)


def test_what_went_to_the_site_s_address_is_told_again_there_though_the_job_names_another():
    notified = remember({}, notices.plan(opened(flag()), facts_of(flag()), POLICY, at(0) - timedelta(days=8)))
    standing = facts_of(flag(), open_flags=(flag(),), notified=notified, mail_user="gone@uni.example")
    (found,) = notices.plan_repeats(standing, POLICY, at(0))
    assert (found.kind, found.recipient) == (NoticeKind.REPEATED, ALICE)
