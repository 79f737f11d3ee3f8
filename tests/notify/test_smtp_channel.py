import smtplib
import socket
import ssl
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from aiosmtpd.smtp import AuthResult
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import Severity
from ckptd.core.notices.delivery import SendResult
from ckptd.notify import smtp_channel
from ckptd.notify.interface import Message
from ckptd.notify.smtp_channel import Relay, build_mail, encode_mail
from demo.patience import allow
from support.mail_server import Inbox, MailServer, TricklingServer, free_port

MESSAGE = Message(
    address="alice@example.org",
    key="k" * 32,
    thread="t" * 32,
    severity=Severity.CRITICAL,
    subject="[ckptd c1] critical: Ünfortunate",
    text="What happened\n.\n.hidden\nend\n",
    html="<p>What happened</p>\n",
)


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # of the server, which means STARTTLS
def test_a_message_arrives_whole_encrypted_and_authenticated(any_mail_server, channel_to):
    outcome = channel_to(any_mail_server).send(MESSAGE)
    assert outcome.result is SendResult.SENT, outcome
    (mail,) = any_mail_server.inbox.mails
    assert (mail.envelope.mail_from, mail.envelope.rcpt_tos) == ("ckptd@example.org", ["alice@example.org"])
    assert mail.session.authenticated
    assert mail.session.ssl or any_mail_server.security == "tls"  # the server's listener speaks nothing else
    assert mail["Subject"] == MESSAGE.subject
    assert mail["Message-ID"] == f"<{MESSAGE.key}@example.org>"
    assert mail["References"] == mail["In-Reply-To"] == f"<run-{MESSAGE.thread}@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_body(["plain"]).get_content().splitlines() == MESSAGE.text.splitlines()
    assert mail.get_body(["html"]).get_content().splitlines() == MESSAGE.html.splitlines()


@pytest.mark.parametrize(
    ("step", "answer", "result"),
    [
        ("MAIL", "550 not you", SendResult.UNREACHABLE),
        ("RCPT", "550 no such user", SendResult.REFUSED),
        ("RCPT", "451 greylisted", SendResult.DEFERRED),
        ("RCPT", "421 closing", SendResult.UNREACHABLE),
        ("RCPT", "550 5.1.1 unknown user", SendResult.REFUSED),
        ("RCPT", "550 5.2.1 account closed", SendResult.REFUSED),
        ("RCPT", "552 5.2.2 mailbox full", SendResult.DEFERRED),
        ("RCPT", "554 5.7.1 relay access denied", SendResult.DEFERRED),
        ("RCPT", "553 5.1.8 sender's domain unknown", SendResult.DEFERRED),
        ("RCPT", "530 authenticate first", SendResult.DEFERRED),
        ("DATA", "552 too big", SendResult.REFUSED),
        ("DATA", "552 5.3.4 too big", SendResult.REFUSED),
        ("DATA", "554 5.7.1 looks like spam", SendResult.REFUSED),
        ("DATA", "554 5.3.0 no disk", SendResult.DEFERRED),
        ("DATA", "452 disk full", SendResult.DEFERRED),
    ],
)
def test_a_refusal_is_final_where_it_is_about_the_address_or_the_message_and_else_waits(
    mail_server, channel_to, step, answer, result
):
    mail_server.inbox.answers[step] = answer
    outcome = channel_to(mail_server).send(MESSAGE)
    assert outcome.result is result
    assert outcome.is_about_address is (step == "RCPT" and result is SendResult.REFUSED)
    assert answer.partition(" ")[2] in outcome.reason
    assert mail_server.inbox.mails == []


@pytest.fixture
def other_server(tmp_path):
    (tmp_path / "other").mkdir()
    server = MailServer(tmp_path / "other", certificate=(tmp_path / "certificate.pem", tmp_path / "key.pem"))
    server.start()
    yield server
    server.stop()


def to_both(channel_to, first, second):
    return channel_to(first, relays=tuple(Relay("127.0.0.1", each.port) for each in (first, second)))


@pytest.mark.parametrize(
    ("step", "answer"),
    [("RCPT", "554 5.7.1 relay access denied"), ("RCPT", "550 not here"), ("DATA", "554 5.7.1 looks like spam")],
)
def test_what_one_relay_refuses_by_its_own_rules_another_may_take(mail_server, other_server, channel_to, step, answer):
    mail_server.inbox.answers[step] = answer
    assert to_both(channel_to, mail_server, other_server).send(MESSAGE).result is SendResult.SENT
    assert (len(mail_server.inbox.mails), len(other_server.inbox.mails)) == (0, 1)


def test_an_address_that_does_not_exist_is_not_tried_elsewhere(mail_server, other_server, channel_to):
    mail_server.inbox.answers["RCPT"] = "550 5.1.1 no such user"
    assert to_both(channel_to, mail_server, other_server).send(MESSAGE).result is SendResult.REFUSED
    assert other_server.inbox.mails == []


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (("550 no such user", "550 no such user"), SendResult.REFUSED),
        (("550 no such user", "450 4.2.0 greylisted"), SendResult.DEFERRED),
        (("550 no such user", "421 closing"), SendResult.DEFERRED),
        (("421 closing", "421 closing"), SendResult.UNREACHABLE),
    ],
)
def test_relays_that_differ_leave_the_message_waiting(mail_server, other_server, channel_to, answers, result):
    for server, answer in zip((mail_server, other_server), answers, strict=True):
        server.inbox.answers["RCPT"] = answer
    outcome = to_both(channel_to, mail_server, other_server).send(MESSAGE)
    assert outcome.result is result
    assert f"127.0.0.1:{mail_server.port}: " in outcome.reason


def test_a_connection_lost_after_the_whole_message_is_uncertain_and_not_offered_to_another_relay(
    mail_server, channel_to
):
    mail_server.inbox.cuts = 1
    other = Relay("127.0.0.1", mail_server.port)
    assert channel_to(mail_server, other).send(MESSAGE).result is SendResult.UNCERTAIN
    assert len(mail_server.inbox.mails) == 1


def test_what_one_relay_never_answers_goes_to_the_next_one_at_the_next_try(mail_server, other_server, channel_to):
    mail_server.inbox.cuts = 1
    channel = to_both(channel_to, mail_server, other_server)
    assert channel.send(MESSAGE).result is SendResult.UNCERTAIN
    assert channel.send(MESSAGE).result is SendResult.SENT
    assert mail_server.inbox.ids == other_server.inbox.ids == {f"<{MESSAGE.key}@example.org>": 1}


@pytest.mark.parametrize("answer", ["2", "25", "OK taken", "354 taken"])
def test_what_one_relay_answered_with_no_valid_code_is_not_offered_to_another(
    mail_server, other_server, channel_to, answer
):
    mail_server.inbox.answers["DATA"] = answer
    outcome = to_both(channel_to, mail_server, other_server).send(MESSAGE)
    assert outcome.result is SendResult.UNCERTAIN
    assert other_server.inbox.mails == []


def test_a_relay_that_filters_the_whole_message_may_answer_until_the_deadline(mail_server, channel_to):
    mail_server.inbox.is_held = True
    release = threading.Timer(allow(2), setattr, (mail_server.inbox, "is_held", False))
    release.start()
    outcome = channel_to(mail_server, timeout_seconds=allow(1), deadline_seconds=allow(20)).send(MESSAGE)
    release.join()
    assert outcome.result is SendResult.SENT


def test_a_dead_relay_is_passed_over_and_asked_last_from_then_on(mail_server, channel_to):
    dead = Relay("127.0.0.1", free_port())
    channel = channel_to(mail_server, dead)
    assert channel.send(MESSAGE).result is SendResult.SENT
    assert channel._is_down(dead)
    assert channel.send(replace(MESSAGE, key="l" * 32)).result is SendResult.SENT


def test_all_relays_dead_is_told_with_each_one_s_trouble(mail_server, channel_to):
    ports = [free_port(), free_port()]
    outcome = channel_to(mail_server, relays=tuple(Relay("127.0.0.1", port) for port in ports)).send(MESSAGE)
    assert outcome.result is SendResult.UNREACHABLE
    assert all(f"127.0.0.1:{port}: " in outcome.reason for port in ports)


def test_a_relay_that_trickles_is_cut_off_at_the_deadline(mail_server, channel_to):
    trickling = TricklingServer()
    began = time.monotonic()
    channel = channel_to(mail_server, relays=(Relay("127.0.0.1", trickling.port),), deadline_seconds=0.5)
    try:
        assert channel.send(MESSAGE).result is SendResult.UNREACHABLE
    finally:
        trickling.stop()
    assert time.monotonic() - began < allow(5)


def test_a_relay_that_is_cut_off_while_tls_begins_is_cut_off_after_it_too(mail_server, channel_to):
    trickling = TricklingServer((mail_server.certificate, mail_server.key), silent_seconds=1)
    began = time.monotonic()
    changes = {"security": "tls", "deadline_seconds": 0.5, "timeout_seconds": allow(20)}
    channel = channel_to(mail_server, relays=(Relay("127.0.0.1", trickling.port),), **changes)
    stop = threading.Timer(allow(10), trickling.stop)
    stop.start()
    assert channel.send(MESSAGE).result is SendResult.UNREACHABLE
    took_seconds = time.monotonic() - began
    stop.cancel()
    trickling.stop()
    assert took_seconds < allow(8)


def test_what_is_sent_while_a_connection_is_being_cut_off_is_encrypted(mail_server, monkeypatch):
    server = TricklingServer((mail_server.certificate, mail_server.key))
    context = ssl.create_default_context(cafile=str(mail_server.certificate))
    is_cut = threading.Event()
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        connection = smtplib.SMTP()
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection.sock, monkeypatch.context() as patch:
            patch.setattr(socket.socket, "shutdown", lambda *_: is_cut.set())  # it has not been carried out yet
            deadline = smtp_channel._Deadline(connection, 0)
            assert is_cut.wait(allow(10))
            deadline.cancel()
            assert connection.sock.version()
    server.stop()


def test_where_md5_is_forbidden_another_way_to_log_in_is_used(tmp_path, channel_to, monkeypatch):
    def forbid(*_):
        raise ValueError("[digital envelope routines] unsupported")

    monkeypatch.setattr(smtplib.hmac, "HMAC", forbid)
    monkeypatch.setattr(Inbox, "auth_CRAM__MD5", ask_for_a_digest, raising=False)
    server = MailServer(tmp_path)
    server.security = "starttls"
    server.start()
    try:
        assert channel_to(server).send(MESSAGE).result is SendResult.SENT
    finally:
        server.stop()


async def ask_for_a_digest(_inbox, server, _arguments):
    await server.challenge_auth("<1@relay>")
    return AuthResult(success=False, handled=True)


def test_a_certificate_that_nobody_vouches_for_ends_the_conversation(mail_server, channel_to):
    outcome = channel_to(mail_server, ca_file=None).send(MESSAGE)
    assert outcome.result is SendResult.UNREACHABLE
    assert "certificate" in outcome.reason
    assert mail_server.inbox.mails == []


def test_a_wrong_password_is_trouble_of_the_channel_and_not_of_the_message(mail_server, channel_to, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    outcome = channel_to(mail_server, password_file=wrong).send(MESSAGE)
    assert outcome.result is SendResult.UNREACHABLE
    assert "535" in outcome.reason
    assert "wrong" not in outcome.reason


def test_a_missing_password_file_is_trouble_of_the_channel(mail_server, channel_to, tmp_path):
    assert channel_to(mail_server, password_file=tmp_path / "none").send(MESSAGE).result is SendResult.UNREACHABLE


@given(st.text(), st.text(), st.text())
def test_no_text_whatever_adds_a_header_or_a_byte_that_is_not_ascii(subject, text, html):
    text, html = (each.encode("utf-8", "replace").decode() for each in (text, html))
    message = replace(MESSAGE, subject=subject, text=text, html=html)
    data = encode_mail(build_mail(message, "ckptd@example.org", datetime(2026, 3, 1, tzinfo=UTC)))
    assert data.isascii()
    assert max(map(len, data.split(b"\r\n"))) <= 998
    head = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    names = [line.partition(b":")[0].lower() for line in head if not line.startswith((b" ", b"\t"))]
    assert sorted(names) == sorted(
        b"from to subject date message-id in-reply-to references auto-submitted x-auto-response-suppress "
        b"mime-version content-type".split()
    )


@pytest.mark.parametrize("length", [1, 69, 75, 150, 280])
def test_a_subject_is_on_the_line_of_its_name_where_filters_look_for_it(length):
    subject = "[ckptd c1] " + "w" * length
    mail = build_mail(replace(MESSAGE, subject=subject), "ckptd@example.org", datetime(2026, 3, 1, tzinfo=UTC))
    assert f"\r\nSubject: {subject}\r\n".encode() in encode_mail(mail)
