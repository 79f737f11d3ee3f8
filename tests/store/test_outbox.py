from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import notices
from ckptd.core.model import RunKey, Severity
from ckptd.core.notices import Recipient
from ckptd.core.notices.delivery import MailRestriction, NoticeState, SendOutcome, SendResult
from ckptd.store.database_errors import UnknownRunError
from core.histories import at
from core.notice_facts import ADMIN, ALICE, POLICY, facts_of, flag, opened, run_of
from support.recorded import note_run

LEASE = timedelta(minutes=10)
SENT = SendOutcome(result=SendResult.SENT)


def fill(store):
    """Record a cluster with a few runs."""
    store.clusters.record_poll("c1", at(0))
    for number in range(1, 6):
        note_run(store, run_of(number), at(0), located_by="watch")


pytestmark = pytest.mark.filled_by(record=fill)


@pytest.fixture
def cluster_store(store):
    return store


def record(store, *flags, now=0, channel="mail"):
    changes = opened(*(replace(each, flag_id=None) for each in flags))
    planned = notices.plan(changes, facts_of(*flags), POLICY, at(now))
    store.flags.record(
        changes, at(now), [replace(each, recipient=Recipient(channel, each.recipient.address)) for each in planned]
    )
    return planned


def critical(number, **changes):
    return flag(number, run=run_of(number), job_id=number, severity=Severity.CRITICAL, **changes)


def claim(store, minutes, channels=("mail",)):
    return store.claims.take("c1", channels, at(minutes), LEASE)


def test_a_notice_is_claimed_whole_once_its_window_has_passed(cluster_store):
    (planned,) = record(cluster_store, critical(1, user="ev\nil \udcff", audience=("admin",)))
    assert claim(cluster_store, 9) is None
    claimed = claim(cluster_store, 10)
    (found,) = claimed.notices
    assert replace(found, notice_id=None) == planned
    assert claimed.message_key == notices.digest_key(planned.recipient, [planned])
    assert claim(cluster_store, 11) is None


def test_a_notice_is_recorded_with_its_flags_or_not_at_all(cluster_store):
    with pytest.raises(UnknownRunError, match="not on record"):
        record(cluster_store, critical(1), flag(9, run=RunKey("c1", 1000, "/nowhere")))
    assert cluster_store.flags.list_open("c1") == ()
    assert claim(cluster_store, 100) is None


def test_everything_that_waits_for_one_recipient_goes_with_what_is_due(cluster_store):
    record(cluster_store, critical(1), flag(2, run=run_of(2)), critical(3, user="bob"))
    first, second = claim(cluster_store, 10), claim(cluster_store, 10)
    assert {first.recipient.address: len(first.notices), second.recipient.address: len(second.notices)} == {
        "alice@example.org": 2,
        "bob@example.org": 1,
    }


def test_what_was_sent_or_refused_is_never_claimed_again(cluster_store):
    record(cluster_store, critical(1), critical(2, user="bob"))
    cluster_store.claims.finish(claim(cluster_store, 10), SENT, at(10))
    cluster_store.claims.finish(
        claim(cluster_store, 10), SendOutcome(result=SendResult.REFUSED, reason="550 no"), at(10)
    )
    assert claim(cluster_store, 10_000) is None
    assert cluster_store.outbox.read_waiting("c1", at(10_000)).due_count == 0


def test_what_was_surely_not_accepted_goes_later_with_what_came_up_meanwhile(cluster_store):
    record(cluster_store, critical(1))
    cluster_store.claims.finish(
        claim(cluster_store, 10), SendOutcome(result=SendResult.DEFERRED, reason="451 later"), at(10)
    )
    assert claim(cluster_store, 10.5) is None
    record(cluster_store, critical(2), now=10)
    second = claim(cluster_store, 11)
    assert (len(second.notices), second.try_count) == (2, 2)


def test_what_may_have_been_accepted_is_only_ever_sent_as_the_same_message(cluster_store):
    record(cluster_store, critical(1))
    first = claim(cluster_store, 10)
    cluster_store.claims.finish(first, SendOutcome(result=SendResult.UNCERTAIN, reason="connection lost"), at(10))
    record(cluster_store, critical(2), now=10)
    second = claim(cluster_store, 11)
    assert (second.message_key, len(second.notices)) == (first.message_key, 1)


@pytest.mark.parametrize("result", [SendResult.DEFERRED, SendResult.UNREACHABLE])
def test_what_may_have_been_accepted_stays_the_same_message_though_a_later_try_failed(cluster_store, result):
    record(cluster_store, critical(1))
    first = claim(cluster_store, 10)
    cluster_store.claims.finish(first, SendOutcome(result=SendResult.UNCERTAIN, reason="connection lost"), at(10))
    cluster_store.claims.finish(claim(cluster_store, 11), SendOutcome(result=result, reason="no"), at(11))
    record(cluster_store, critical(2), now=11)
    third = claim(cluster_store, 13)
    assert (third.message_key, len(third.notices), third.try_count) == (first.message_key, 1, 3)


def test_a_claim_that_was_cut_off_is_taken_up_as_the_same_message_after_its_lease(cluster_store):
    record(cluster_store, critical(1))
    first = claim(cluster_store, 10)
    record(cluster_store, critical(2), now=5)
    assert claim(cluster_store, 15).message_key != first.message_key
    again = claim(cluster_store, 20)
    assert (again.message_key, again.notices[0].edge) == (first.message_key, first.notices[0].edge)


def test_a_sender_that_lost_its_claim_writes_nothing(cluster_store):
    record(cluster_store, critical(1))
    first = claim(cluster_store, 10)
    again = claim(cluster_store, 21)
    cluster_store.claims.finish(first, SendOutcome(result=SendResult.DEFERRED), at(22))
    assert claim(cluster_store, 24) is None
    cluster_store.claims.finish(again, SENT, at(25))
    assert claim(cluster_store, 10_000) is None


def test_back_off_doubles_from_a_minute_to_an_hour(cluster_store):
    record(cluster_store, critical(1))
    minute = 10.0
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        cluster_store.claims.finish(claim(cluster_store, minute), SendOutcome(result=SendResult.DEFERRED), at(minute))
        assert claim(cluster_store, minute + wait - 0.1) is None
        minute += wait


def test_what_may_have_been_accepted_is_sent_again_less_and_less_often(cluster_store):
    record(cluster_store, critical(1))
    minute, outcome = 10.0, SendOutcome(result=SendResult.UNCERTAIN, reason="no answer")
    for wait in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440):
        cluster_store.claims.finish(claim(cluster_store, minute), outcome, at(minute))
        assert claim(cluster_store, minute + wait - 0.1) is None
        minute += wait


def test_what_nobody_takes_for_days_is_given_up_but_never_what_was_not_tried(cluster_store):
    record(cluster_store, critical(1), critical(2, user="bob"))
    tried = claim(cluster_store, 10)
    cluster_store.claims.finish(tried, SendOutcome(result=SendResult.DEFERRED), at(10))
    late = 6 * 24 * 60
    assert [cluster_store.claims.drop_undelivered("c1", ["mail"], at(each), LEASE) for each in (60, late, late)] == [
        0,
        1,
        0,
    ]
    left = claim(cluster_store, late)
    assert left.recipient != tried.recipient
    assert claim(cluster_store, late) is None


@pytest.mark.parametrize("result", [SendResult.DEFERRED, SendResult.UNCERTAIN])
def test_what_was_never_tried_comes_before_what_may_take_minutes_again(cluster_store, result):
    record(cluster_store, critical(1))
    first = claim(cluster_store, 10)
    cluster_store.claims.finish(first, SendOutcome(result=result), at(10))
    record(cluster_store, critical(2, user="bob"), flag(3, user="carol", run=run_of(3)), now=20)
    tried = [claim(cluster_store, 100).recipient.address.partition("@")[0] for _ in range(3)]
    assert tried == ["bob", "alice", "carol"]


def test_what_ends_each_of_its_senders_is_given_up_after_days(cluster_store):
    record(cluster_store, critical(1))
    late = 6 * 24 * 60
    for minute in (10, late):  # a long time without a daemon is no reason to give up
        assert cluster_store.claims.drop_undelivered("c1", ["mail"], at(minute), LEASE) == 0
        assert claim(cluster_store, minute)
    assert [cluster_store.claims.drop_undelivered("c1", ["mail"], at(late + each), LEASE) for each in (9, 10)] == [0, 1]
    assert claim(cluster_store, 2 * late) is None


def test_what_waits_for_a_channel_that_the_site_took_away_is_given_up_after_days(cluster_store):
    record(cluster_store, critical(1))
    late = 6 * 24 * 60
    assert [cluster_store.claims.drop_undelivered("c1", ["log"], at(each), LEASE) for each in (60, late)] == [0, 1]


def test_only_the_channels_asked_for_are_claimed_and_each_cluster_has_its_own(cluster_store):
    record(cluster_store, critical(1), channel="apprise")
    assert claim(cluster_store, 10) is None
    assert cluster_store.claims.take("c2", ["apprise"], at(10), LEASE) is None
    assert claim(cluster_store, 10, ["apprise"]).recipient.channel == "apprise"


def test_what_was_left_out_of_a_message_is_kept_as_such_and_not_as_told(cluster_store):
    planned = record(cluster_store, critical(1), critical(2))
    claimed = claim(cluster_store, 10)
    left_out = {claimed.notices[0].notice_id: NoticeState.MUTED}
    cluster_store.claims.finish(claimed, SENT, at(10), left_out)
    told = cluster_store.outbox.read_notified([each.topic for each in planned])
    assert {topic for _, topic in told} == {claimed.notices[1].topic}


def test_the_record_says_what_was_told_and_whether_its_end_was(cluster_store):
    (planned,) = record(cluster_store, critical(1))
    key = (planned.recipient, planned.topic)
    assert cluster_store.outbox.read_notified([planned.topic])[key].notified_at == at(0)
    end = replace(planned, kind=notices.NoticeKind.RESOLVED, edge="resolved:x", created_at=at(5))
    cluster_store.flags.record(opened(replace(critical(2), flag_id=None)), at(5), [end])
    told = cluster_store.outbox.read_notified([planned.topic])[key]
    assert (told.notified_at, told.resolved_at, told.severity) == (at(0), at(5), Severity.CRITICAL)


def test_the_record_says_who_was_told_only_as_an_administrator(cluster_store):
    planned = record(cluster_store, critical(1, audience=("user", "admin")))
    told = cluster_store.outbox.read_notified([each.topic for each in planned])
    assert {recipient: each.is_for_admin for (recipient, _), each in told.items()} == {ADMIN: True, ALICE: False}


def test_the_same_edge_is_recorded_once(cluster_store):
    record(cluster_store, critical(1))
    record(cluster_store, critical(1))
    assert len(claim(cluster_store, 10).notices) == 1


def test_what_is_overdue_is_counted_from_the_end_of_its_window(cluster_store):
    record(cluster_store, critical(1), flag(2, run=run_of(2)))
    found = cluster_store.outbox.read_waiting("c1", at(30))
    assert (found.waiting, found.due_count, found.oldest_due_at) == ({"mail": 2}, 1, at(10))


def test_the_record_counts_repetitions_since_the_last_edge(cluster_store):
    (planned,) = record(cluster_store, critical(1))
    key = (planned.recipient, planned.topic)
    for minute, kind in enumerate(
        (notices.NoticeKind.REPEATED, notices.NoticeKind.REPEATED, notices.NoticeKind.RESOLVED), 1
    ):
        cluster_store.outbox.record([replace(planned, kind=kind, edge=f"{kind}:{minute}", created_at=at(minute))])
    told = cluster_store.outbox.read_notified([planned.topic])[key]
    assert (told.repeat_count, told.notified_at, told.resolved_at) == (2, at(2), at(3))
    cluster_store.outbox.record([replace(planned, kind=notices.NoticeKind.WORSENED, edge="worsened", created_at=at(4))])
    assert cluster_store.outbox.read_notified([planned.topic])[key].repeat_count == 0


def test_the_jobs_of_a_topic_are_counted_as_they_are_now(cluster_store):
    first = record(cluster_store, critical(1))
    assert cluster_store.topic_counts.read(first) == {first[0].topic: notices.TopicCount(1, 1)}
    (flag_on_record,) = cluster_store.flags.list_open("c1")
    other = flag(None, run=run_of(1), job_id=99, severity=Severity.CRITICAL)
    gone = replace(flag_on_record, resolved_at=at(5))
    cluster_store.flags.record(replace(opened(other), resolved=(gone,)), at(5))
    assert cluster_store.topic_counts.read(first) == {first[0].topic: notices.TopicCount(2, 1)}
    later = replace(first[0], created_at=at(5000))
    assert cluster_store.topic_counts.read([later]) == {first[0].topic: notices.TopicCount(1, 1)}
    assert cluster_store.topic_counts.read([replace(first[0], kind=notices.NoticeKind.RESOLVED)]) == {}


def test_while_mail_is_held_back_it_goes_to_the_named_only_and_other_channels_go_on(cluster_store):
    record(cluster_store, critical(1), critical(2, user="root"))
    record(cluster_store, critical(3), channel="apprise")
    restriction = MailRestriction(exempt=["root@example.org"], is_full=True)
    asked = ("c1", ["mail", "apprise"], at(10), LEASE, restriction)
    claimed = [cluster_store.claims.take(*asked) for _ in range(3)]
    assert {each.recipient for each in claimed if each} == {
        Recipient("mail", "root@example.org"),
        Recipient("apprise", "alice@example.org"),
    }
    held = cluster_store.outbox.read_held("c1", ["root@example.org"], at(10))
    assert (held.people_count, held.notices_by_rule) == (1, {"at-risk": 1})


def test_mails_of_the_last_hour_are_on_record_each_once(cluster_store):
    record(cluster_store, critical(1), critical(2), critical(3, user="bob"))
    cluster_store.claims.finish(claim(cluster_store, 10), SENT, at(10))
    cluster_store.claims.finish(claim(cluster_store, 10), SENT, at(20))
    assert [each[1] for each in cluster_store.outbox.list_mailed("c1", at(0))] == [at(10), at(20)]
    assert len(cluster_store.outbox.list_mailed("c1", at(15))) == 1


def record_unaddressed(store):
    """Record one notice of a critical flag that waits for the address of its user."""
    each = critical(1)
    facts = replace(facts_of(each), unanswered={1})
    changes = opened(replace(each, flag_id=None))
    planned = notices.plan(changes, facts, POLICY, at(0))
    store.flags.record(changes, at(0), planned)
    return planned


def test_what_waits_for_its_address_is_neither_sent_nor_given_up_and_counts_as_what_waits(cluster_store):
    record_unaddressed(cluster_store)
    assert claim(cluster_store, 11, ["mail", "log"]) is None
    assert cluster_store.claims.drop_undelivered("c1", ["mail", "log"], at(10 * 24 * 60), LEASE) == 0
    assert len(cluster_store.outbox.list_unaddressed("c1")) == 1
    assert cluster_store.outbox.list_unaddressed("c2") == ()
    found = cluster_store.outbox.read_waiting("c1", at(30))
    assert (found.waiting, found.due_count) == ({notices.UNADDRESSED: 1}, 1)


def test_a_notice_that_got_its_address_is_the_same_notice_there_and_waits_no_more(cluster_store):
    (planned,) = record_unaddressed(cluster_store)
    named = replace(planned, recipient=Recipient("mail", "al@uni.example"))
    cluster_store.outbox.replace(cluster_store.outbox.list_unaddressed("c1"), [named])
    assert cluster_store.outbox.list_unaddressed("c1") == ()
    (found,) = claim(cluster_store, 10).notices
    assert replace(found, notice_id=None) == named
    assert set(cluster_store.outbox.read_notified([planned.topic])) == {(named.recipient, named.topic)}


def test_what_is_recorded_in_place_of_a_refused_message_is_so_by_the_holder_of_its_claim_only(cluster_store):
    (planned,) = record(cluster_store, critical(1))
    other = replace(planned, recipient=Recipient("mail", "other@example.org"))
    refused = SendOutcome(result=SendResult.REFUSED, reason="550 5.1.1 no")
    first = claim(cluster_store, 10)
    again = claim(cluster_store, 21)
    cluster_store.claims.finish(first, refused, at(22), {}, [other])
    assert claim(cluster_store, 22) is None
    cluster_store.claims.finish(again, refused, at(23), {}, [other])
    assert claim(cluster_store, 23).recipient == other.recipient
    assert claim(cluster_store, 24) is None
