import multiprocessing
import random
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import notices
from ckptd.core.model import Severity, Unknown
from ckptd.core.outbox import Outcome, Result
from ckptd.notify.apprise_channel import AppriseChannel
from ckptd.store.store import Store
from core.histories import at
from core.notice_facts import POLICY, facts_of, flag, opened, run_of
from support.mail_server import PASSWORD, MailServer, SilentServer, wait_until
from support.outbox_sender import let_the_next_try_come, make_channel, make_sender, now, send_until_killed
from support.recorded import note_run
from support.web_hook import serve_hook


class Fake:
    """A channel that answers as it is told."""

    def __init__(self, *results):
        self.results = list(results)
        self.messages = []

    def send(self, message):
        self.messages.append(message)
        result = self.results.pop(0) if self.results else Result.SENT
        if isinstance(result, Exception):
            raise result
        if isinstance(result, Outcome):
            return result
        return Outcome(result=result, reason=None if result is Result.SENT else "no")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/record.db"


@pytest.fixture
def store(url):
    opened_store = Store.open(url, upgrade=True)
    opened_store.record_poll("c1", at(0))
    yield opened_store
    opened_store.close()


def record(store, *users, rule="at-risk", made_at=None, channel="mail", tells=("user",), **job_changes):
    """Record one critical flag of each user, with its notice."""
    flags = [
        flag(None, rule=rule, user=user, run=run_of(number)._replace(uid=number), job_id=number, tells=tells)
        for number, user in enumerate(users, 1)
    ]
    flags = [replace(each, finding=replace(each.finding, severity=Severity.CRITICAL)) for each in flags]
    for each in flags:
        note_run(store, each.finding.run, at(0), user=each.finding.user, located_by="watch")
    planned = notices.plan(opened(*flags), facts_of(*flags, **job_changes), POLICY, made_at or at(0))
    planned = [replace(each, recipient=each.recipient._replace(channel=channel)) for each in planned]
    store.record_flags(opened(*flags), made_at or at(0), planned)
    return planned


def test_what_is_due_is_sent_once(store):
    record(store, "alice", "bob")
    channel = Fake()
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel})
    assert (sender.send_due(at(9)), sender.send_due(at(10)), sender.send_due(at(11))) == (0, 2, 0)
    assert {message.address for message in channel.messages} == {"alice@example.org", "bob@example.org"}
    assert sender.results == {("mail", "sent"): 2}
    assert store.read_outbox("c1", at(10)).waiting == {}


def test_an_unreachable_channel_is_left_alone_for_ever_longer_while_nothing_is_lost(store):
    record(store, "alice", "bob", "carol")
    channel = Fake(Result.UNREACHABLE, Result.UNREACHABLE)
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
    assert store.read_outbox("c1", at(200)).due_count == 0


def test_after_days_without_a_relay_only_what_was_tried_is_given_up_and_the_log_says_so(store, caplog):
    record(store, "alice", "bob", "carol")
    mail, days = Fake(*[Result.UNREACHABLE] * 2), [0]
    channels = {"mail": mail, "apprise": Fake()}
    sender = make_sender(store, clock=lambda: at(10) + timedelta(days=days[0]), channels=channels)
    for days[0] in (0, 6, 6, 7):  # the third time the relay rests, and the other channel does not
        sender.send_due(at(10) + timedelta(days=days[0]))
    assert [message.address for message in mail.messages] == [
        f"{user}@example.org" for user in ("alice", "bob", "carol")
    ]
    assert caplog.text.count("given up after days without being taken, or for want of their channel: 1 notice\n") == 2
    assert store.read_outbox("c1", at(0) + timedelta(days=8)).waiting == {}


def test_a_refused_or_deferred_message_does_not_hold_the_others_up(store):
    record(store, "alice", "bob", "carol")
    sender = make_sender(
        store, clock=lambda: at(10), channels={"mail": Fake(Result.REFUSED, Result.DEFERRED, Result.SENT)}
    )
    assert sender.send_due(at(10)) == 1
    assert store.read_outbox("c1", at(200)).due_count == 1


def test_an_error_in_one_message_is_told_and_does_not_stop_the_next(store, caplog):
    record(store, "alice", "bob")
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": Fake(RuntimeError("broken"))})
    assert sender.send_due(at(10)) == 1
    assert "a message to 'alice@example.org' failed" in caplog.text
    assert sender.results["mail", "uncertain"] == 1


def test_after_the_end_is_asked_for_no_message_begins(store):
    record(store, "alice", "bob")
    channel = Fake()
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel})
    sender.close(1)
    assert sender.send_due(at(10)) == 0
    assert store.read_outbox("c1", at(10)).due_count == 2


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
    assert "Mail to users is held back" in summary.subject
    assert "people waiting: 15" in summary.text
    assert "at-risk: 15" in summary.text
    assert "10 mails left within an hour; mail to 15 people waits" in caplog.text
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


def test_a_user_with_trouble_in_thousands_of_runs_gets_one_mail(store):
    (planned,) = record(store, "alice")
    store.record_notices(
        [replace(planned, topic=f"{number}", edge=f"{number}", run=run_of(number)) for number in range(5000)]
    )
    channel = Fake()
    make_sender(store, clock=lambda: at(10), channels={"mail": channel}).send_due(at(10))
    (message,) = channel.messages
    assert "and 5,000 more" in message.subject
    assert "4,981 x Work will be lost" in message.text


def test_while_mail_goes_to_administrators_only_what_waits_for_users_is_withdrawn(store):
    record(store, "alice", "root")
    channel = Fake()
    policy = replace(POLICY, mode=notices.Mode.ADMIN)
    sender = make_sender(store, clock=lambda: at(10), channels={"mail": channel}, policy=policy)
    assert sender.send_due(at(10)) == 1
    assert [message.address for message in channel.messages] == ["root@example.org"]
    assert store.read_outbox("c1", at(200)).waiting == {}


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
    assert store.read_outbox("c1", at(20)).waiting == {}


def test_users_do_not_mute_what_administrators_hear(store):
    record(store, "alice", work_dir="/home/alice")
    channel = Fake()
    policy = replace(POLICY, admins=("alice@example.org",))
    mute = lambda places: [frozenset({"*"}) for _ in places]  # noqa: E731
    make_sender(store, clock=lambda: at(10), channels={"mail": channel}, read_mutes=mute, policy=policy).send_due(
        at(10)
    )
    assert len(channel.messages) == 1


NOBODY = Outcome(result=Result.REFUSED, reason="550 5.1.1 no such user", is_about_address=True)
SPAM = Outcome(result=Result.REFUSED, reason="554 5.7.1 looks like spam")


def send_named(store, channel, minute=10):
    return make_sender(store, clock=lambda: at(minute), channels={"mail": channel}, policy=POLICY).send_due(at(minute))


def test_what_nobody_gets_at_the_address_that_a_job_names_goes_to_the_site_s_once(store, caplog):
    record(store, "alice", "bob", mail_user="gone@uni.example")
    channel = Fake(NOBODY)
    assert send_named(store, channel) == 2
    addresses = [message.address for message in channel.messages]
    assert addresses == ["gone@uni.example", "alice@example.org", "bob@example.org"]
    assert "what was meant for 'gone@uni.example' goes to 'alice@example.org'" in caplog.text
    assert send_named(store, channel, 10_000) == 0
    told = store.read_told({each.topic for each in record(store, "alice")})
    assert {recipient.address for recipient, _ in told} == {"alice@example.org"}


def test_a_flag_that_comes_back_is_not_told_again_at_the_site_s_address_however_often_the_named_one_is_refused(store):
    for minute in (0, 60, 120):
        record(store, "alice", mail_user="gone@uni.example", made_at=at(minute))
    channel = Fake(NOBODY)
    assert send_named(store, channel, 130) == 1
    record(store, "alice", mail_user="gone@uni.example", made_at=at(180))
    channel.results = [NOBODY]
    assert send_named(store, channel, 190) == 0
    assert [message.address for message in channel.messages] == [
        "gone@uni.example",
        "alice@example.org",
        "gone@uni.example",
    ]


@pytest.mark.parametrize(
    ("mail_user", "user", "outcome"),
    [
        ("gone@uni.example", "alice", SPAM),  # its words are refused: they would be at any address
        (None, "alice", NOBODY),  # the site's rule gave that address
        (None, "root", NOBODY),  # an administrator's own
        ("gone@uni.example", "alice", replace(NOBODY, result=Result.DEFERRED)),
    ],
)
def test_no_other_refusal_is_sent_elsewhere(store, mail_user, user, outcome):
    record(store, user, mail_user=mail_user)
    channel = Fake(outcome)
    assert send_named(store, channel) == 0
    assert len(channel.messages) == 1


def test_what_an_administrator_hears_is_never_sent_to_a_user_instead(store):
    record(store, "alice", tells=("admin",))
    channel = Fake(NOBODY)
    assert send_named(store, channel) == 0
    assert [message.address for message in channel.messages] == ["root@example.org"]


def test_what_its_user_had_muted_is_not_sent_elsewhere_with_the_rest_not_even_unmuted_since(store):
    record(store, "alice", mail_user="gone@uni.example", work_dir="/home/alice")
    record(store, "alice", rule="no-room", mail_user="gone@uni.example", work_dir="/home/alice")
    channel, mutes = Fake(NOBODY), [frozenset({"at-risk"}), frozenset()]
    options = {"channels": {"mail": channel}, "read_mutes": lambda _places: [mutes.pop(0)]}
    assert make_sender(store, clock=lambda: at(10), policy=POLICY, **options).send_due(at(10)) == 1
    *_, message = channel.messages
    assert (message.address, "at-risk" in message.text) == ("alice@example.org", False)


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
    assert "Work will be lost" in hook.bodies[-1]


# with a real relay


@pytest.fixture
def server(tmp_path):
    started = MailServer(tmp_path)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    return path


def test_a_relay_that_was_dead_for_an_hour_gets_every_message_once(store, server, password_file):
    record(store, "alice", "bob", "carol")
    clock = [at(10)]
    channel = make_channel(server.port, server.certificate, password_file)
    sender = make_sender(store, clock=lambda: clock[0], channels={"mail": channel})
    server.stop()
    for minute in range(10, 70):
        clock[0] = at(minute)
        assert sender.send_due(clock[0]) == 0
    assert store.read_outbox("c1", at(200)).due_count == 3
    server.start()
    record(store, "alice", rule="no-room", made_at=at(60))
    for minute in range(71, 140):
        clock[0] = at(minute)
        sender.send_due(clock[0])
    assert sorted(mail["To"] for mail in server.inbox.mails) == [
        f"{user}@example.org" for user in ("alice", "bob", "carol")
    ]
    assert set(server.inbox.ids.values()) == {1}
    assert store.read_outbox("c1", at(200)).due_count == 0


def test_a_message_whose_acceptance_was_not_heard_is_sent_again_under_the_same_name(store, server, password_file):
    record(store, "alice")
    server.inbox.cuts = 1
    clock = [at(10)]
    channel = make_channel(server.port, server.certificate, password_file)
    sender = make_sender(store, clock=lambda: clock[0], channels={"mail": channel})
    sender.send_due(clock[0])
    record(store, "alice", rule="no-room", made_at=at(5))
    clock[0] = at(11)
    sender.send_due(clock[0])
    (count,) = server.inbox.ids.values()
    assert count == 2
    first, second = (mail.get_body(["plain"]).get_content() for mail in server.inbox.mails)
    assert first == second


def start_sending(url, port, server, password_file):
    arguments = (url, port, str(server.certificate), str(password_file))
    process = multiprocessing.get_context("spawn").Process(target=send_until_killed, args=arguments)
    process.start()
    return process


def kill(process):
    process.kill()
    process.join()


def test_killed_before_the_relay_has_the_message_it_arrives_once(store, url, server, password_file):
    record(store, "alice", made_at=now() - timedelta(hours=1))
    silent = SilentServer()
    process = start_sending(url, silent.port, server, password_file)
    try:
        silent.wait_for_a_caller().close()
    finally:
        kill(process)
        silent.stop()
    process = start_sending(url, server.port, server, password_file)
    try:
        wait_until(lambda: not store.read_outbox("c1", now()).due_count, 60)
    finally:
        kill(process)
    assert list(server.inbox.ids.values()) == [1]


def test_killed_between_acceptance_and_record_it_arrives_twice_under_one_name(store, url, server, password_file):
    record(store, "alice", "bob", made_at=now() - timedelta(hours=1))
    server.inbox.is_held = True
    process = start_sending(url, server.port, server, password_file)
    try:
        assert server.inbox.received.wait(60)
    finally:
        kill(process)
        server.inbox.is_held = False
    process = start_sending(url, server.port, server, password_file)
    try:
        wait_until(lambda: not store.read_outbox("c1", now()).due_count, 60)
    finally:
        kill(process)
    assert sorted(server.inbox.ids.values()) == [1, 2]


def test_after_a_dead_hour_a_sender_killed_at_random_moments_loses_none_and_doubles_only_what_was_in_its_hands(
    store, url, server, password_file, tmp_path
):
    users = [f"user{number}" for number in range(8)]
    clock = [now() - timedelta(hours=1)]
    record(store, *users, made_at=clock[0] - timedelta(minutes=10))
    server.stop()
    channels = {"mail": make_channel(server.port, server.certificate, password_file)}
    waiting = make_sender(store, clock=lambda: clock[0], channels=channels)
    for _ in range(60):
        clock[0] += timedelta(minutes=1)
        assert waiting.send_due(clock[0]) == 0
    assert store.read_outbox("c1", now()).due_count == len(users)
    let_the_next_try_come(tmp_path / "record.db")
    server.start()
    dice, kill_count = random.Random(7), 0
    while store.read_outbox("c1", now()).due_count:
        process = start_sending(url, server.port, server, password_file)
        try:
            before = len(server.inbox.mails)
            wait_until(
                lambda seen=before: len(server.inbox.mails) > seen or not store.read_outbox("c1", now()).due_count, 60
            )
            time.sleep(dice.uniform(0, 0.1))  # the moment is the point of this test
        finally:
            kill(process)
        kill_count += 1
    ids = server.inbox.ids
    assert {mail["To"] for mail in server.inbox.mails} == {f"{user}@example.org" for user in users}
    assert len(ids) == len(users)
    assert sum(ids.values()) - len(ids) <= kill_count
    assert kill_count > 1
