from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import notices
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Severity
from ckptd.core.notices import (
    ChatRoom,
    DelayedNotices,
    EntryStatus,
    NoticeKind,
    NoticeMode,
    NoticePolicy,
    Recipient,
    TopicNotification,
)
from core.histories import at
from core.notice_facts import (
    ADMIN,
    ALICE,
    DAY,
    NOW,
    POLICY,
    array_of,
    facts_of,
    flag,
    notified_ago,
    opened,
    plan,
    remember,
    worsened,
)


@pytest.mark.parametrize(
    ("mode", "audience", "expected"),
    [
        ("on", ("user",), {ALICE: None}),
        ("on", ("admin",), {ADMIN: None}),
        ("on", ("user", "admin"), {ALICE: None, ADMIN: None}),
        ("admin", ("user",), {ADMIN: "alice@example.org"}),
        ("admin", ("user", "admin"), {ADMIN: "alice@example.org"}),
        ("log", ("user", "admin"), {Recipient("log", each.address): None for each in (ALICE, ADMIN)}),
        ("off", ("user", "admin"), {}),
    ],
)
def test_the_mode_and_the_rule_say_who_is_told(mode, audience, expected):
    found = plan(opened(flag(audience=audience)), policy=replace(POLICY, mode=NoticeMode(mode)))
    assert {notice.recipient: notice.meant_for for notice in found} == expected


@pytest.mark.parametrize(
    ("mail_user", "allowed_domains", "expected"),
    [
        (None, (), "alice@example.org"),
        ("", (), "alice@example.org"),
        ("alice", (), "alice@example.org"),
        ("al@uni.example", (), "al@uni.example"),
        ("al@uni.example", ("UNI.example",), "al@uni.example"),
        ("al@elsewhere.example", ("uni.example",), "alice@example.org"),
        ("al@uni.example\nBcc: x@y.z", (), "alice@example.org"),
        ("al@uni.example,b@uni.example", (), "alice@example.org"),
        ("<al@uni.example>", (), "alice@example.org"),
        ("-al@uni.example", (), "alice@example.org"),
        ("a..l@uni.example", (), "alice@example.org"),
        ("al@uni..example", (), "alice@example.org"),
        ("ål@uni.example", (), "alice@example.org"),
        ("al@" + "u" * 64 + ".example", (), "alice@example.org"),
        ("al@[127.0.0.1]", (), "alice@example.org"),
        ("al\x00@uni.example", (), "alice@example.org"),
    ],
)
def test_a_job_s_mail_user_counts_where_it_is_a_valid_and_allowed_address(mail_user, allowed_domains, expected):
    facts = facts_of(flag(), mail_user=mail_user)
    (found,) = plan(opened(flag()), facts, replace(POLICY, allowed_domains=allowed_domains))
    assert found.recipient.address == expected


@pytest.mark.parametrize(
    "user",
    [
        "",
        " ",
        "a b",
        "a@b",
        "a\r\nBcc: x@y.example",
        "a,b",
        "<a>",
        '"a"',
        "a\x00",
        "a\u202e",
        "å",
        "\udcff",
        "-oQ/tmp",
        "a" * 300,
    ],
)
def test_a_hostile_user_name_makes_no_address_by_the_site_s_rule(user):
    assert notices.find_address(user, None, POLICY) is None


def test_a_user_without_any_valid_address_is_told_through_the_administrators():
    (found,) = plan(opened(flag(user="no body")))
    assert (found.recipient, found.meant_for) == (ADMIN, "no body")


def test_a_room_hears_of_what_it_asked_for_even_where_mail_is_off():
    room = ChatRoom(recipient=Recipient("apprise", "ops"))
    policy = NoticePolicy(rooms=(room,))
    assert [each.recipient for each in plan(opened(flag(audience=("user", "admin"))), policy=policy)] == [
        room.recipient
    ]
    assert plan(opened(flag()), policy=policy) == ()


@pytest.mark.parametrize(
    ("severity", "window"), [("critical", timedelta(minutes=10)), ("warning", timedelta(hours=1)), ("info", DAY)]
)
def test_a_notice_waits_for_the_window_of_its_severity(severity, window):
    (found,) = plan(opened(flag(severity=Severity(severity))))
    assert found.due_at - found.created_at == window


def test_ten_thousand_tasks_of_an_array_are_one_notice_and_one_entry():
    flags, facts = array_of(10_000)
    (found,) = plan(opened(*flags), facts)
    assert (found.job_count, found.job_ids) == (10_000, tuple(range(1, 21)))
    (entry,) = notices.compose([found]).entries
    assert entry.job_count == 10_000


def test_tasks_that_fail_later_are_not_told_again():
    flags, facts = array_of(20)
    first = plan(opened(*flags[:10]), facts)
    assert plan(opened(*flags[10:]), replace(facts, notified=remember({}, first)), now=at(5)) == ()


@pytest.mark.parametrize(
    ("notified_ago", "told_as", "now_as", "is_told"),
    [
        (6 * DAY, "warning", "warning", False),
        (7 * DAY, "warning", "warning", True),
        (DAY, "warning", "critical", True),
        (DAY, "critical", "warning", False),
    ],
)
def test_the_same_is_told_again_only_after_the_repeat_gap_or_when_it_is_worse(notified_ago, told_as, now_as, is_told):
    now = at(0) + 10 * DAY
    (first,) = plan(opened(flag(severity=Severity(told_as))), now=now - notified_ago)
    facts = facts_of(flag(), notified=remember({}, [first]))
    assert bool(plan(opened(flag(severity=Severity(now_as))), facts, now=now)) is is_told


@pytest.mark.parametrize(
    ("ago", "repeat_count", "is_repeated"),
    [(7 * DAY, 0, True), (7 * DAY, 3, True), (7 * DAY, 4, False), (6.9 * DAY, 0, False), (30 * DAY, 0, True)],
)
def test_what_still_holds_after_the_gap_is_told_again_so_often_and_no_more(ago, repeat_count, is_repeated):
    facts = facts_of(flag(), open_flags=(flag(),), notified=notified_ago(flag(), ago, repeat_count=repeat_count))
    found = notices.plan_repeats(facts, POLICY, at(0))
    assert [(each.kind, each.recipient) for each in found] == [(NoticeKind.REPEATED, ALICE)] * is_repeated
    assert [entry.status for entry in (notices.compose(found).entries if found else ())] == [
        EntryStatus.STILL
    ] * is_repeated


def test_what_nobody_was_told_or_whose_job_is_gone_is_not_repeated():
    standing = facts_of(flag(), open_flags=(flag(),))
    assert notices.plan_repeats(standing, POLICY, at(0)) == ()
    ended = replace(standing, notified=notified_ago(flag(), 8 * DAY), queued_runs=())
    assert notices.plan_repeats(ended, POLICY, at(0)) == ()


def test_an_array_is_repeated_as_one_and_a_flag_that_worsens_is_no_repetition():
    flags, facts = array_of(100)
    notified = remember({}, plan(opened(*flags), facts, now=at(0) - 8 * DAY))
    (found,) = notices.plan_repeats(replace(facts, notified=notified, open_flags=tuple(flags)), POLICY, at(0))
    assert found.job_count == 100
    worse = plan(worsened(flags[0]), replace(facts, notified=remember(notified, [found])), now=at(1))
    assert [each.kind for each in worse] == [NoticeKind.WORSENED]


def test_administrators_are_told_once_in_six_hours_what_is_held_back():
    held = DelayedNotices(notices_by_rule={"no-room": 900, "at-risk": 3}, people_count=700)
    first, again, later = (
        notices.plan_rate_limit_notices("c1", ["root@example.org"], held, 500, at(minutes)) for minutes in (0, 60, 361)
    )
    assert first[0].edge == again[0].edge != later[0].edge
    assert first[0].evidence["most_of_them"] == ["no-room: 900", "at-risk: 3"]
    assert (first[0].recipient, first[0].due_at) == (ADMIN, at(0))


def test_trouble_is_said_beside_what_is_worse_of_the_same_run():
    lesser = flag(rule="no-checkpoint-yet")
    worse = flag(2, rule="restarted-without-checkpoint", severity=Severity.CRITICAL)
    digest = notices.compose(plan(opened(lesser, worse)))
    assert [entry.notice.rule for entry in digest.entries] == ["restarted-without-checkpoint", "no-checkpoint-yet"]


def test_nothing_is_planned_without_an_edge():
    assert plan(FlagChanges(updated=(flag(),)), facts_of()) == ()
    assert TopicNotification(notified_at=at(0), severity=Severity.INFO).resolved_at is None


@pytest.mark.parametrize(("chance", "is_mailed_soon"), [(0.5, True), (1, True), (0.49, False), (None, False)])
def test_an_info_about_a_likely_loss_is_mailed_while_its_user_can_still_act(chance, is_mailed_soon):
    one = flag(severity=Severity.INFO)
    one = replace(one, finding=replace(one.finding, evidence={"time_left_seconds": 14_400, "chance": chance}))
    [notice] = plan(opened(one))
    assert notice.due_at == NOW + (timedelta(hours=1) if is_mailed_soon else POLICY.windows[Severity.INFO])


def test_what_is_urgent_does_not_wait_until_it_is_too_late():
    due = {}
    for severity in Severity:
        one = flag(severity=severity)
        one = replace(one, finding=replace(one.finding, evidence={"time_left_seconds": 600}))
        [notice] = plan(opened(one))
        due[severity] = notice.due_at
    soon = NOW + timedelta(seconds=150)
    assert due == {
        Severity.INFO: NOW + POLICY.windows[Severity.INFO],
        Severity.WARNING: soon,
        Severity.CRITICAL: min(soon, NOW + POLICY.windows[Severity.CRITICAL]),
    }
