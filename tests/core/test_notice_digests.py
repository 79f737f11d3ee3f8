"""What a digest makes of many edges, whatever their order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core import notices
from ckptd.core.model import Severity
from ckptd.core.notices import EntryStatus, NoticeFacts, NoticeKind, NoticeMode, TopicCount
from core.histories import at
from core.notice_facts import (
    ADMIN,
    ALICE,
    POLICY,
    array_of,
    facts_of,
    flag,
    opened,
    plan,
    remember,
    resolved,
    run_of,
    worsened,
)


@pytest.mark.parametrize(
    ("tally", "status", "counts"),
    [
        (None, EntryStatus.OPEN, (3, None)),
        (TopicCount(10, 8), EntryStatus.OPEN, (10, 8)),
        (TopicCount(2, 2), EntryStatus.OPEN, (3, 2)),
        (TopicCount(10, 0), EntryStatus.OVER, (10, 0)),
    ],
)
def test_a_digest_counts_the_jobs_of_the_moment(tally, status, counts):
    flags, facts = array_of(3)
    (found,) = plan(opened(*flags), facts)
    (entry,) = notices.compose([found], tallies={found.topic: tally} if tally else {}).entries
    assert (entry.status, (entry.job_count, entry.open_count)) == (status, counts)


def edges_of(severity, *steps):
    """The notices of one topic, one for each step, all waiting."""
    (base,) = plan(opened(flag(severity=severity)))
    return [
        replace(
            base,
            kind=NoticeKind(step),
            severity=Severity.CRITICAL if "worsened" in steps[: minute + 1] else severity,
            edge=f"{step}:{base.topic}:{minute}",
            created_at=at(minute),
        )
        for minute, step in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("severity", "steps", "status"),
    [
        ("warning", ["opened"], EntryStatus.OPEN),
        ("warning", ["opened", "worsened"], EntryStatus.WORSE),
        ("warning", ["worsened"], EntryStatus.WORSE),
        ("warning", ["resolved"], EntryStatus.RESOLVED),
        ("warning", ["worsened", "resolved"], EntryStatus.RESOLVED),
        ("warning", ["opened", "resolved"], None),
        ("info", ["opened", "resolved"], None),
        ("critical", ["opened", "resolved"], EntryStatus.OVER),
        ("warning", ["opened", "worsened", "resolved"], EntryStatus.OVER),
        ("warning", ["resolved", "opened"], EntryStatus.OPEN),
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
    assert [entry.job_ids for entry in digest.entries[1:]] == [(number,) for number in range(19)]


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
    return replace(each, finding=replace(each.finding, user=user, audience=TELLS[each.finding.rule]))


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


@given(steps_strategy, st.sampled_from(NoticeMode))
def test_whatever_happens_no_topic_is_told_twice_to_anybody_within_the_gap_without_being_worse(steps, mode):
    notified, now, made = {}, 0, []
    for kind, each, minutes in steps:
        now += minutes
        changes = {"opened": opened, "worsened": worsened, "resolved": resolved}[kind](each)
        found = plan(changes, facts_of(each, notified=notified), replace(POLICY, mode=mode), at(now))
        for notice in found:
            before = notified.get((notice.recipient, notice.topic))
            if notice.kind is NoticeKind.RESOLVED:
                assert before is not None
                assert before.resolved_at is None or before.resolved_at < before.notified_at
            elif not notice.is_silent and before:
                is_worse = notice.severity.rank > before.severity.rank
                assert is_worse or notice.created_at - before.notified_at >= POLICY.repeat_gap
            assert notices.parse_address(notice.recipient.address)
        notified = remember(notified, [notice for notice in found if not notice.is_silent])
        made += found
    assert len({(notice.recipient, notice.edge) for notice in made}) == len(made)


@given(st.lists(flag_strategy, min_size=1, max_size=12), st.randoms())
def test_the_order_of_flags_and_notices_changes_neither_edges_nor_digests(flags, random):
    shuffled = random.sample(flags, len(flags))
    facts = NoticeFacts(queued_runs=frozenset())
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
