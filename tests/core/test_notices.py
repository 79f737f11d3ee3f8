import inspect
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core import health, notices
from ckptd.core.alerts import FlagChanges
from ckptd.core.model import RunKey, Severity
from ckptd.core.notices import Facts, Held, Kind, Mode, Policy, Recipient, Room, Status, Tally, Told
from ckptd.core.notices.recovering import OF_THE_RUN
from core.histories import RUN, at
from core.notice_facts import (
    ADMIN,
    ALICE,
    DAY,
    POLICY,
    array_of,
    facts_of,
    flag,
    opened,
    remember,
    resolved,
    run_of,
    worsened,
)

NOW = at(0)


def plan(changes, facts=None, policy=POLICY, now=NOW):
    edges = (*changes.opened, *changes.worsened, *changes.resolved)
    return notices.plan(changes, facts or facts_of(*edges), policy, now)


@pytest.mark.parametrize(
    ("mode", "tells", "expected"),
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
def test_the_mode_and_the_rule_say_who_is_told(mode, tells, expected):
    found = plan(opened(flag(tells=tells)), policy=replace(POLICY, mode=Mode(mode)))
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
    room = Room(recipient=Recipient("apprise", "ops"))
    policy = Policy(rooms=(room,))
    assert [each.recipient for each in plan(opened(flag(tells=("user", "admin"))), policy=policy)] == [room.recipient]
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
    assert plan(opened(*flags[10:]), replace(facts, told=remember({}, first)), now=at(5)) == ()


@pytest.mark.parametrize(
    ("told_ago", "told_as", "now_as", "is_told"),
    [
        (6 * DAY, "warning", "warning", False),
        (7 * DAY, "warning", "warning", True),
        (DAY, "warning", "critical", True),
        (DAY, "critical", "warning", False),
    ],
)
def test_the_same_is_told_again_only_after_the_repeat_gap_or_when_it_is_worse(told_ago, told_as, now_as, is_told):
    now = at(0) + 10 * DAY
    (first,) = plan(opened(flag(severity=Severity(told_as))), now=now - told_ago)
    facts = facts_of(flag(), told=remember({}, [first]))
    assert bool(plan(opened(flag(severity=Severity(now_as))), facts, now=now)) is is_told


def told_ago(flag_, ago, **changes):
    """What is told where a flag was told so long ago."""
    told = remember({}, plan(opened(flag_), now=at(0) - ago))
    return {key: replace(each, **changes) for key, each in told.items()}


@pytest.mark.parametrize(
    ("ago", "repeat_count", "is_repeated"),
    [(7 * DAY, 0, True), (7 * DAY, 3, True), (7 * DAY, 4, False), (6.9 * DAY, 0, False), (30 * DAY, 0, True)],
)
def test_what_still_holds_after_the_gap_is_told_again_so_often_and_no_more(ago, repeat_count, is_repeated):
    facts = facts_of(flag(), open_flags=(flag(),), told=told_ago(flag(), ago, repeat_count=repeat_count))
    found = notices.plan_repeats(facts, POLICY, at(0))
    assert [(each.kind, each.recipient) for each in found] == [(Kind.REPEATED, ALICE)] * is_repeated
    assert [entry.status for entry in (notices.compose(found).entries if found else ())] == [Status.STILL] * is_repeated


def test_what_nobody_was_told_or_whose_job_is_gone_is_not_repeated():
    standing = facts_of(flag(), open_flags=(flag(),))
    assert notices.plan_repeats(standing, POLICY, at(0)) == ()
    ended = replace(standing, told=told_ago(flag(), 8 * DAY), queued_runs=())
    assert notices.plan_repeats(ended, POLICY, at(0)) == ()


def test_an_array_is_repeated_as_one_and_a_flag_that_worsens_is_no_repetition():
    flags, facts = array_of(100)
    told = remember({}, plan(opened(*flags), facts, now=at(0) - 8 * DAY))
    (found,) = notices.plan_repeats(replace(facts, told=told, open_flags=tuple(flags)), POLICY, at(0))
    assert found.job_count == 100
    worse = plan(worsened(flags[0]), replace(facts, told=remember(told, [found])), now=at(1))
    assert [each.kind for each in worse] == [Kind.WORSENED]


def test_a_recovery_after_a_repetition_is_told_once():
    told = told_ago(flag(), 8 * DAY)
    repeated = notices.plan_repeats(facts_of(flag(), open_flags=(flag(),), told=told), POLICY, at(0))
    (recovery,) = plan(resolved(flag()), facts_of(flag(), told=remember(told, repeated)), now=at(60))
    assert [entry.status for entry in notices.compose([*repeated, recovery]).entries] == [Status.RESOLVED]


@pytest.mark.parametrize(
    ("tally", "status", "counts"),
    [
        (None, Status.OPEN, (3, None)),
        (Tally(10, 8), Status.OPEN, (10, 8)),
        (Tally(2, 2), Status.OPEN, (3, 2)),
        (Tally(10, 0), Status.OVER, (10, 0)),
    ],
)
def test_a_digest_counts_the_jobs_of_the_moment(tally, status, counts):
    flags, facts = array_of(3)
    (found,) = plan(opened(*flags), facts)
    (entry,) = notices.compose([found], tallies={found.topic: tally} if tally else {}).entries
    assert (entry.status, (entry.job_count, entry.open_count)) == (status, counts)


def test_administrators_are_told_once_in_six_hours_what_is_held_back():
    held = Held(notices_by_rule={"no-room": 900, "at-risk": 3}, people_count=700)
    first, again, later = (
        notices.tell_of_brake("c1", ["root@example.org"], held, 500, at(minutes)) for minutes in (0, 60, 361)
    )
    assert first[0].edge == again[0].edge != later[0].edge
    assert first[0].evidence["most_of_them"] == ["no-room: 900", "at-risk: 3"]
    assert (first[0].recipient, first[0].due_at) == (ADMIN, at(0))


def test_a_recovery_is_said_once_and_only_to_those_who_were_told():
    first = plan(opened(flag()))
    assert plan(resolved(flag()), now=at(60)) == ()
    told = remember({}, first)
    (second,) = plan(resolved(flag()), facts_of(flag(), told=told), now=at(60))
    assert (second.kind, second.recipient) == (Kind.RESOLVED, ALICE)
    assert plan(resolved(flag()), facts_of(flag(), told=remember(told, [second])), now=at(70)) == ()


def test_the_end_of_a_job_is_no_recovery():
    told = remember({}, plan(opened(flag())))
    assert plan(resolved(flag()), facts_of(flag(), told=told, queued=set()), now=at(60)) == ()


@pytest.mark.parametrize(
    ("rule", "began", "is_good_news"),
    [
        ("no-checkpoint-yet", -60, True),
        ("no-checkpoint-yet", None, False),  # its job waits to be run again
        ("no-checkpoint-yet", 30, False),  # it runs again already
        ("at-risk", None, False),
        ("restarted-without-checkpoint", None, False),
        ("damaged-checkpoint", None, True),  # what is on disk is no attempt's
        ("damaged-checkpoint", 30, True),
        ("restart-loop", 30, True),
    ],
)
def test_what_ends_with_its_attempt_is_no_recovery(rule, began, is_good_news):
    told = remember({}, plan(opened(flag(rule=rule))))
    found = plan(resolved(flag(rule=rule)), facts_of(flag(rule=rule), told=told, began=began), now=at(60))
    assert bool(found) is is_good_news


def test_the_rules_that_outlive_an_attempt_are_those_that_hold_while_its_job_waits():
    asked = {
        rule: "facts.current_job(" in inspect.getsource(inspect.getmodule(kind)) for rule, kind in health.RULES.items()
    }
    assert {rule for rule, is_of_run in asked.items() if is_of_run} == OF_THE_RUN


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
    told = remember({}, plan(opened(lesser)))
    facts = facts_of(lesser, worse, told=told)
    at_once = FlagChanges(opened=(worse,), resolved=resolved(lesser).resolved)
    of_before = replace(facts, open_flags=(lesser, worse))
    for changes, known in [(at_once, facts), (resolved(lesser), of_before)]:
        planned = plan(changes, known, now=at(60))
        assert any(each.kind is Kind.RESOLVED for each in planned) is is_good_news


@pytest.mark.parametrize(("open_count", "is_said"), [(1, False), (0, True)])
def test_a_recovery_that_waits_is_not_said_once_worse_of_the_same_run_stands_beside_it(open_count, is_said):
    lesser = flag(rule="no-checkpoint-yet")
    worse = flag(2, rule="restarted-without-checkpoint", severity=Severity.CRITICAL)
    told = remember({}, plan(opened(lesser)))
    recovery = plan(resolved(lesser), facts_of(lesser, told=told), now=at(60))
    news = plan(opened(worse), now=at(63))
    digest = notices.compose([*recovery, *news], tallies={news[0].topic: Tally(1, open_count)})
    assert (Status.RESOLVED in [entry.status for entry in digest.entries]) is is_said
    assert digest.dropped == (() if is_said else recovery)


def test_trouble_is_said_beside_what_is_worse_of_the_same_run():
    lesser = flag(rule="no-checkpoint-yet")
    worse = flag(2, rule="restarted-without-checkpoint", severity=Severity.CRITICAL)
    digest = notices.compose(plan(opened(lesser, worse)))
    assert [entry.notice.rule for entry in digest.entries] == ["restarted-without-checkpoint", "no-checkpoint-yet"]


def test_a_recovery_is_said_when_the_last_task_of_the_array_recovered():
    flags, facts = array_of(3)
    told = remember({}, plan(opened(*flags), facts))
    standing = replace(facts, told=told, open_flags=tuple(flags))
    assert plan(resolved(*flags[:2]), standing, now=at(60)) == ()
    (found,) = plan(resolved(flags[2]), replace(standing, open_flags=(flags[2],)), now=at(70))
    assert found.kind is Kind.RESOLVED


def test_a_recovery_finds_what_was_told_before_the_directory_was_known():
    before = flag(run=RunKey("c1", 1000, "job:1@2026-03-01"), rule="no-checkpoint-yet")
    told = remember({}, plan(opened(before)))
    after = replace(before, finding=replace(before.finding, run=RUN))
    (found,) = plan(resolved(after), facts_of(after, told=told), now=at(60))
    assert found.kind is Kind.RESOLVED


def test_a_flag_that_comes_back_takes_its_untold_recovery_back():
    told = remember({}, plan(opened(flag())))
    recovery = plan(resolved(flag()), facts_of(flag(), told=told), now=at(60))
    back = plan(opened(flag()), facts_of(flag(), told=remember(told, recovery)), now=at(70))
    assert [each.is_silent for each in back] == [True]
    digest = notices.compose([*recovery, *back])
    assert digest.entries == ()
    assert digest.dropped == (*recovery, *back)


def edges_of(severity, *steps):
    """The notices of one topic, one for each step, all waiting."""
    (base,) = plan(opened(flag(severity=severity)))
    return [
        replace(
            base,
            kind=Kind(step),
            severity=Severity.CRITICAL if "worsened" in steps[: minute + 1] else severity,
            edge=f"{step}:{base.topic}:{minute}",
            created_at=at(minute),
        )
        for minute, step in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("severity", "steps", "status"),
    [
        ("warning", ["opened"], Status.OPEN),
        ("warning", ["opened", "worsened"], Status.WORSE),
        ("warning", ["worsened"], Status.WORSE),
        ("warning", ["resolved"], Status.RESOLVED),
        ("warning", ["worsened", "resolved"], Status.RESOLVED),
        ("warning", ["opened", "resolved"], None),
        ("info", ["opened", "resolved"], None),
        ("critical", ["opened", "resolved"], Status.OVER),
        ("warning", ["opened", "worsened", "resolved"], Status.OVER),
        ("warning", ["resolved", "opened"], Status.OPEN),
    ],
)
def test_a_digest_tells_how_a_topic_stands_after_all_its_edges(severity, steps, status):
    digest = notices.compose(edges_of(Severity(severity), *steps))
    assert [entry.status for entry in digest.entries] == ([status] if status else [])
    assert len(digest.dropped) == (0 if status else len(steps))


def test_a_storm_is_summed_up_behind_the_worst():
    flags = [flag(each, run=run_of(each), job_id=each) for each in range(30)]
    flags.append(flag(99, run=run_of(99), job_id=99, severity=Severity.CRITICAL, rule="no-room"))
    digest = notices.compose(plan(opened(*flags)), max_entries=20)
    assert len(digest.entries) == 20
    assert digest.entries[0].notice.rule == "no-room"
    assert digest.more == {"at-risk": 11}
    assert digest.severity is Severity.CRITICAL


def test_a_digest_belongs_to_a_thread_where_it_is_about_one_run_only():
    one = plan(opened(flag(1), flag(2, rule="too-frequent")))
    other = plan(opened(flag(3, run=run_of(3))))
    assert notices.compose(one).thread == one[0].thread
    assert notices.compose([*one, *other]).thread is None


USERS = ["alice", "bob", "ev\nil", "\udcff"]
TELLS = {"at-risk": ("user",), "no-room": ("user", "admin")}


def of_its_user(each):
    """A run has one user, and a rule tells the same people every time."""
    user = USERS[int(each.finding.run.directory[-1]) - 1]
    return replace(each, finding=replace(each.finding, user=user, tells=TELLS[each.finding.rule]))


flag_strategy = st.builds(
    flag,
    st.integers(1, 10**6),
    rule=st.sampled_from(["at-risk", "no-room"]),
    severity=st.sampled_from(Severity),
    run=st.integers(1, 4).map(run_of),
    job_id=st.integers(1, 4),
).map(of_its_user)
steps_strategy = st.lists(
    st.tuples(st.sampled_from(["opened", "worsened", "resolved"]), flag_strategy, st.integers(1, 20_000)), max_size=20
)


@given(steps_strategy, st.sampled_from(Mode))
def test_whatever_happens_no_topic_is_told_twice_to_anybody_within_the_gap_without_being_worse(steps, mode):
    told, now, made = {}, 0, []
    for kind, each, minutes in steps:
        now += minutes
        changes = {"opened": opened, "worsened": worsened, "resolved": resolved}[kind](each)
        found = plan(changes, facts_of(each, told=told), replace(POLICY, mode=mode), at(now))
        for notice in found:
            before = told.get((notice.recipient, notice.topic))
            if notice.kind is Kind.RESOLVED:
                assert before is not None
                assert before.resolved_at is None or before.resolved_at < before.told_at
            elif not notice.is_silent and before:
                is_worse = notice.severity.rank > before.severity.rank
                assert is_worse or notice.created_at - before.told_at >= POLICY.repeat_gap
            assert notices.parse_address(notice.recipient.address)
        told = remember(told, [notice for notice in found if not notice.is_silent])
        made += found
    assert len({(notice.recipient, notice.edge) for notice in made}) == len(made)


@given(st.lists(flag_strategy, min_size=1, max_size=12), st.randoms())
def test_the_order_of_flags_and_notices_changes_neither_edges_nor_digests(flags, random):
    shuffled = random.sample(flags, len(flags))
    facts = Facts(queued_runs=frozenset())
    first, second = (notices.plan(opened(*each), facts, POLICY, at(0)) for each in (flags, shuffled))
    key = {(notice.recipient, notice.edge, notice.severity, notice.job_ids) for notice in first}
    assert {(notice.recipient, notice.edge, notice.severity, notice.job_ids) for notice in second} == key
    mine = [notice for notice in first if notice.recipient == first[0].recipient]
    digest, again = notices.compose(mine), notices.compose(random.sample(mine, len(mine)))
    assert digest.key == again.key
    assert {entry.notice.edge for entry in digest.entries} == {entry.notice.edge for entry in again.entries}


def test_the_key_of_a_digest_is_of_its_edges_and_its_recipient():
    (one,) = plan(opened(flag()))
    (two,) = plan(opened(flag()), now=at(1))
    keys = {notices.digest_key(recipient, some) for recipient in (ALICE, ADMIN) for some in ([one], [two], [one, two])}
    assert len(keys) == 6


def test_nothing_is_planned_without_an_edge():
    assert plan(FlagChanges(updated=(flag(),)), facts_of()) == ()
    assert Told(told_at=at(0), severity=Severity.INFO).resolved_at is None


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
