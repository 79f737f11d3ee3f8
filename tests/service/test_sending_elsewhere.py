"""Messages that nobody gets at the address that a job names: which go to another, and which never."""

from dataclasses import replace

import pytest

from ckptd.core.notices.delivery import SendOutcome, SendResult
from core.histories import at
from core.notice_facts import POLICY
from service.outbox_facts import Fake, record
from support.outbox_sender import make_sender

NOBODY = SendOutcome(result=SendResult.REFUSED, reason="550 5.1.1 no such user", is_about_address=True)
SPAM = SendOutcome(result=SendResult.REFUSED, reason="554 5.7.1 looks like spam")


def send_named(store, channel, minute=10):
    return make_sender(store, clock=lambda: at(minute), channels={"mail": channel}, policy=POLICY).send_due(at(minute))


def test_what_nobody_gets_at_the_address_that_a_job_names_goes_to_the_site_s_once(store, caplog):
    record(store, "alice", "bob", mail_user="gone@uni.example")
    channel = Fake(NOBODY)
    assert send_named(store, channel) == 2
    addresses = [message.address for message in channel.messages]
    assert addresses == ["gone@uni.example", "alice@example.org", "bob@example.org"]
    assert "redirecting messages for 'gone@uni.example' to 'alice@example.org'" in caplog.text
    assert send_named(store, channel, 10_000) == 0
    told = store.outbox.read_notified({each.topic for each in record(store, "alice")})
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
        ("gone@uni.example", "alice", replace(NOBODY, result=SendResult.DEFERRED)),
    ],
)
def test_no_other_refusal_is_sent_elsewhere(store, mail_user, user, outcome):
    record(store, user, mail_user=mail_user)
    channel = Fake(outcome)
    assert send_named(store, channel) == 0
    assert len(channel.messages) == 1


def test_what_an_administrator_hears_is_never_sent_to_a_user_instead(store):
    record(store, "alice", audience=("admin",))
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
