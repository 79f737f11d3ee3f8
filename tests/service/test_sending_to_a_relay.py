"""An outbox and a real relay: dead for an hour, or with its sender killed at any moment."""

import random
import time
from datetime import timedelta

import pytest

from core.histories import at
from demo.patience import allow
from service.outbox_facts import record
from support.forked_processes import FORKS
from support.mail_server import PASSWORD, MailServer, SilentServer, wait_until
from support.outbox_sender import let_the_next_try_come, make_channel, make_sender, now, send_until_killed


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
    assert store.outbox.read_waiting("c1", at(200)).due_count == 3
    server.start()
    record(store, "alice", rule="no-room", made_at=at(60))
    for minute in range(71, 140):
        clock[0] = at(minute)
        sender.send_due(clock[0])
    assert sorted(mail["To"] for mail in server.inbox.mails) == [
        f"{user}@example.org" for user in ("alice", "bob", "carol")
    ]
    assert set(server.inbox.ids.values()) == {1}
    assert store.outbox.read_waiting("c1", at(200)).due_count == 0


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
    process = FORKS.Process(target=send_until_killed, args=arguments)
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
        wait_until(lambda: not store.outbox.read_waiting("c1", now()).due_count, 60)
    finally:
        kill(process)
    assert list(server.inbox.ids.values()) == [1]


def test_killed_between_acceptance_and_record_it_arrives_twice_under_one_name(store, url, server, password_file):
    record(store, "alice", "bob", made_at=now() - timedelta(hours=1))
    server.inbox.is_held = True
    process = start_sending(url, server.port, server, password_file)
    try:
        assert server.inbox.received.wait(allow(60))
    finally:
        kill(process)
        server.inbox.is_held = False
    process = start_sending(url, server.port, server, password_file)
    try:
        wait_until(lambda: not store.outbox.read_waiting("c1", now()).due_count, 60)
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
    assert store.outbox.read_waiting("c1", now()).due_count == len(users)
    let_the_next_try_come(tmp_path / "record.db")
    server.start()
    dice, kill_count = random.Random(7), 0
    while store.outbox.read_waiting("c1", now()).due_count:
        process = start_sending(url, server.port, server, password_file)
        try:
            before = len(server.inbox.mails)
            wait_until(
                lambda seen=before: (
                    len(server.inbox.mails) > seen or not store.outbox.read_waiting("c1", now()).due_count
                ),
                60,
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
