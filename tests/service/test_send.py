from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import notices
from ckptd.core.model import Unknown
from ckptd.core.notices.delivery import SendResult
from ckptd.notify.apprise_channel import AppriseChannel
from ckptd.store.database_errors import StoreError
from core.histories import at
from core.notice_facts import POLICY, run_of
from service.outbox_facts import Fake, record
from support.outbox_sender import make_sender
from support.web_hook import serve_hook

BOTH_ADMINS = ("root@example.org", "new@example.org")


def test_what_is_due_is_sent_once(store):
    record(store, "alice", "bob")
    channel = Fake()
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel})
    assert (sender.send_due(at(9)), sender.send_due(at(10)), sender.send_due(at(11))) == (0, 2, 0)
    assert {message.address for message in channel.messages} == {"alice@example.org", "bob@example.org"}
    assert sender.results == {("mail", "sent"): 2}
    assert store.outbox.read_waiting("c1", at(10)).waiting == {}


def test_an_unreachable_channel_is_left_alone_for_ever_longer_while_nothing_is_lost(store):
    record(store, "alice", "bob", "carol")
    channel = Fake(SendResult.UNREACHABLE, SendResult.UNREACHABLE)
    clock = [at(10)]
    sender = make_sender(store, clock=lambda: clock[0], channels={"mail": channel})
    tries = []
    for second in range(60):
        clock[0] = at(10) + timedelta(seconds=second)
        before = len(channel.messages)
        sender.send_due(clock[0])
        if len(channel.messages) > before:
            tries.append(second)
    assert tries == [0, 5, 15]
    clock[0] = at(20)
    sender.send_due(clock[0])
    assert sender.results["mail", "sent"] == 3
    assert store.outbox.read_waiting("c1", at(200)).due_count == 0


def test_after_days_without_a_relay_only_what_was_tried_is_given_up_and_the_log_says_so(store, caplog):
    record(store, "alice", "bob", "carol")
    mail, days = Fake(*[SendResult.UNREACHABLE] * 2), [0]
    channels = {"mail": mail, "apprise": Fake()}
    sender = make_sender(store, clock=lambda: at(10) + timedelta(days=days[0]), channels=channels)
    for days[0] in (0, 6, 6, 7):  # the third time the relay rests, and the other channel does not
        sender.send_due(at(10) + timedelta(days=days[0]))
    assert [message.address for message in mail.messages] == [
        f"{user}@example.org" for user in ("alice", "bob", "carol")
    ]
    assert (
        caplog.text.count(
            "notices dropped because delivery failed for days or their channel is no longer configured: 1 notice\n"
        )
        == 2
    )
    assert store.outbox.read_waiting("c1", at(0) + timedelta(days=8)).waiting == {}


def test_a_refused_or_deferred_message_does_not_hold_the_others_up(store):
    record(store, "alice", "bob", "carol")
    sender = make_sender(
        store, clock=lambda: at(10), channels={"mail": Fake(SendResult.REFUSED, SendResult.DEFERRED, SendResult.SENT)}
    )
    assert sender.send_due(at(10)) == 1
    assert store.outbox.read_waiting("c1", at(200)).due_count == 1


def test_an_error_in_one_message_is_told_and_does_not_stop_the_next(store, caplog):
    record(store, "alice", "bob")
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": Fake(RuntimeError("broken"))})
    assert sender.send_due(at(10)) == 1
    assert "send failed: message to 'alice@example.org'" in caplog.text
    assert sender.results["mail", "uncertain"] == 1


@pytest.mark.parametrize(("error", "has_traceback"), [(StoreError("the database is away"), False), (KeyError(), True)])
def test_only_an_unexpected_error_is_logged_with_a_traceback(store, caplog, error, has_traceback):
    record(store, "alice")
    make_sender(store, clock=lambda: at(10), channels={"mail": Fake(error)}).send_due(at(10))
    (line,) = [record for record in caplog.records if record.message.startswith("send failed: message to")]
    assert bool(line.exc_info) is has_traceback
    assert str(error) in line.message


def test_after_the_end_is_asked_for_no_message_begins(store):
    record(store, "alice", "bob")
    channel = Fake()
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel})
    sender.close(1)
    assert sender.send_due(at(10)) == 0
    assert store.outbox.read_waiting("c1", at(10)).due_count == 2


def test_no_more_leaves_in_a_minute_than_the_rate(store):
    record(store, *(f"user{number}" for number in range(25)))
    channel, clock = Fake(), [at(10)]
    sender = make_sender(store, clock=lambda: clock[0], channels={"mail": channel}, max_per_minute=10)
    counts = []
    for minute in (10, 10.5, 11, 12):
        clock[0] = at(minute)
        counts.append(sender.send_due(clock[0]))
    assert counts == [10, 0, 10, 5]


def test_what_is_too_much_for_an_hour_waits_and_administrators_are_told_also_after_a_restart(store, caplog):
    record(store, *(f"user{number}" for number in range(25)))
    channel, clock = Fake(), [at(10)]
    options = {"clock": lambda: clock[0], "channels": {"mail": channel}, "policy": POLICY}
    assert make_sender(store, max_per_hour=10, **options).send_due(at(10)) == 11
    *_, summary = channel.messages
    assert summary.address == "root@example.org"
    assert "Mail to users is delayed by the rate limit" in summary.subject
    assert "users waiting for mail: 15" in summary.text
    assert "at-risk: 15" in summary.text
    assert "mail rate limit reached: 10 mails sent within an hour; delaying mail to 15 people" in caplog.text
    restarted = make_sender(store, max_per_hour=10, **options)
    counts = []
    for minute in (20, 69, 71, 132):
        clock[0] = at(minute)
        counts.append(restarted.send_due(clock[0]))
    assert counts == [0, 0, 10, 5]
    assert len({message.address for message in channel.messages}) == 26


def test_administrators_are_told_of_what_is_held_back_six_hours_after_the_last_time_and_no_sooner(store):
    record(store, *(f"user{number}" for number in range(25)))
    channel, clock = Fake(), [at(0)]
    sender = make_sender(store, max_per_hour=1, clock=lambda: clock[0], channels={"mail": channel}, policy=POLICY)
    told = []
    for minute in (10, 130, 250, 355, 361, 365, 371, 380):
        clock[0] = at(minute)
        sender.send_due(clock[0])
        told.append(sum(message.address == "root@example.org" for message in channel.messages))
    assert told == [1, 1, 1, 1, 1, 1, 2, 2]


def test_a_user_with_trouble_in_thousands_of_runs_gets_one_mail(store, monkeypatch):
    (planned,) = record(store, "alice")
    store.outbox.record(
        [replace(planned, topic=f"{number}", edge=f"{number}", run=run_of(number)) for number in range(5000)]
    )
    channel, compared = Fake(), []
    monkeypatch.setattr(notices.Notice, "__eq__", lambda *pair: compared.append(pair))
    make_sender(store, clock=lambda: at(10), channels={"mail": channel}).send_due(at(10))
    (message,) = channel.messages
    assert len(compared) <= 5001, "to compare each with each would take a minute"
    assert "and 5,000 more" in message.subject
    assert "4,981 x Work may be lost" in message.text


def test_while_mail_goes_to_administrators_only_what_waits_for_users_is_withdrawn(store):
    record(store, "alice", "root")
    channel = Fake()
    policy = replace(POLICY, mode=notices.NoticeMode.ADMIN)
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel}, policy=policy)
    assert sender.send_due(at(10)) == 1
    assert [message.address for message in channel.messages] == ["root@example.org"]
    assert store.outbox.read_waiting("c1", at(200)).waiting == {}


def test_who_is_no_administrator_any_more_gets_nothing_that_was_planned_for_one(store):
    (planned, own) = record(store, "alice", "root", audience=("admin",))
    assert planned.is_for_admin
    others = replace(POLICY, admins=("new@example.org",))
    channel = Fake()
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel}, policy=others)
    sender.send_due(at(10))
    message = next(message for message in channel.messages if message.address == "root@example.org")
    assert own.user == "root"
    assert "user alice" not in message.text
    assert store.outbox.read_waiting("c1", at(200)).waiting == {}


@pytest.mark.parametrize("mode", [notices.NoticeMode.ON, notices.NoticeMode.ADMIN])
def test_what_waits_for_a_former_administrator_goes_once_to_each_other_one(store, mode):
    record(store, "alice", audience=("admin",))
    record(store, "bob", audience=("admin",), rule="unsafe-pickle", policy=replace(POLICY, admins=BOTH_ADMINS))
    channel = Fake()
    others = replace(POLICY, admins=BOTH_ADMINS[1:], mode=mode)
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel}, policy=others)
    for minute in (10, 11):
        sender.send_due(at(minute))
    assert {message.address for message in channel.messages} == set(BOTH_ADMINS[1:])
    texts = "".join(message.text for message in channel.messages)
    assert (texts.count("user alice"), texts.count("user bob")) == (1, 1)
    assert store.outbox.read_waiting("c1", at(200)).waiting == {}


def test_who_is_no_administrator_any_more_gets_what_concerns_their_own_jobs(store):
    record(store, "alice", mail_user="root@example.org")  # the address of one person, who has another account name
    channel = Fake()
    others = replace(POLICY, admins=("new@example.org",))
    make_sender(store, clock=lambda: at(10), channels={"mail": channel}, policy=others).send_due(at(10))
    assert [message.address for message in channel.messages] == ["root@example.org"]


@pytest.mark.parametrize(
    ("mutes", "is_sent"),
    [
        (frozenset({"at-risk"}), False),
        (frozenset({"*"}), False),
        (frozenset({"other"}), True),
        (Unknown(what="file", reason="hung"), True),
    ],
)
def test_users_mute_rules_by_their_file_as_it_is_when_the_message_would_go(store, mutes, is_sent):
    record(store, "alice", work_dir="/home/alice")
    asked = []

    def read_mutes(places):
        asked.extend(places)
        return [mutes]

    channel = Fake()
    make_sender(store, clock=lambda: at(10), channels={"mail": channel}, read_mutes=read_mutes).send_due(at(10))
    assert asked == [(1, "/home/alice")]
    assert bool(channel.messages) is is_sent
    assert store.outbox.read_waiting("c1", at(20)).waiting == {}


def test_users_do_not_mute_what_administrators_hear(store):
    record(store, "alice", work_dir="/home/alice")
    channel = Fake()
    policy = replace(POLICY, admins=("alice@example.org",))
    mute = lambda places: [frozenset({"*"}) for _ in places]  # noqa: E731
    make_sender(store, clock=lambda: at(10), channels={"mail": channel}, read_mutes=mute, policy=policy).send_due(
        at(10)
    )
    assert len(channel.messages) == 1


def test_a_webhook_is_tried_as_a_relay_is_and_gets_each_message_once(store, tmp_path):
    record(store, "bob", channel="apprise")
    urls = tmp_path / "urls"
    clock, tries = [at(10)], []
    with serve_hook() as hook:
        urls.write_text(f"bob@example.org json://127.0.0.1:{hook.server_address[1]}/\n")
        sender = make_sender(store, clock=lambda: clock[0], channels={"apprise": AppriseChannel(urls)})
        for second in range(0, 500, 5):
            clock[0] = at(10) + timedelta(seconds=second)
            hook.status = 503 if second < 200 else 200
            before = len(hook.bodies)
            sender.send_due(clock[0])
            tries += [second] * (len(hook.bodies) - before)
    assert tries == [0, 60, 180, 420]
    assert sender.results == {("apprise", "deferred"): 3, ("apprise", "sent"): 1}
    assert "Work may be lost" in hook.bodies[-1]
