"""One user's jobs cannot use up the mail that other users need."""

from dataclasses import replace

import pytest

from ckptd.config import Config
from ckptd.core import notices
from ckptd.core.model import Severity
from ckptd.service.build_notify import build_policy
from core.histories import at
from core.notice_facts import POLICY, facts_of, flag, opened, run_of
from service.outbox_facts import Fake, record
from support.outbox_sender import make_sender
from support.recorded import note_run

ATTACKER, VICTIM = 7, 8
MAIL = {"mode": "on", "sender": "ckptd@example.org", "recipient": "{user}@example.org"}


def record_flag(store, uid, number, *, severity=Severity.CRITICAL, mail_user=None, made_at=None):
    """Record a flag of one more run of a user, with its notice."""
    run = run_of(number)._replace(uid=uid)
    due = flag(None, user=f"user{uid}", run=run, job_id=number, severity=severity)
    note_run(store, run, at(0), user=f"user{uid}", located_by="watch")
    planned = notices.plan(opened(due), facts_of(due, mail_user=mail_user), POLICY, made_at or at(0))
    store.flags.record(opened(due), made_at or at(0), planned)


def invent_addresses(store, count, **changes):
    for number in range(count):
        record_flag(store, ATTACKER, number, mail_user=f"a{number}@example.org", **changes)


def sender_of(store, channel, **limits):
    return make_sender(store, clock=lambda: at(120), channels={"mail": channel}, policy=POLICY, **limits)


def test_sixty_invented_addresses_of_one_user_do_not_delay_a_critical_mail_of_another(store):
    invent_addresses(store, 60)
    record_flag(store, VICTIM, 100, made_at=at(60))
    channel = Fake()
    sender_of(store, channel, max_per_hour=50, max_per_user=20).send_due(at(120))
    addresses = [message.address for message in channel.messages]
    assert f"user{VICTIM}@example.org" in addresses
    assert len(addresses) == 21


def test_a_user_s_limit_counts_what_was_sent_before_a_restart_and_ends_after_an_hour(store, caplog):
    invent_addresses(store, 30)
    channel, clock = Fake(), [at(60)]
    counts = []
    for minute in (60, 90, 121):
        clock[0] = at(minute)
        sender = make_sender(store, clock=lambda: clock[0], channels={"mail": channel}, policy=POLICY, max_per_user=20)
        counts.append(sender.send_due(clock[0]))
    assert counts == [20, 0, 10]
    assert "mail limit of uid 7 reached: 20 mails within an hour; delaying its others" in caplog.text


def test_an_administrator_gets_what_concerns_a_user_at_the_limit(store):
    invent_addresses(store, 3)
    record(store, "bob", rule="no-room", audience=("admin",))
    channel = Fake()
    sender_of(store, channel, max_per_user=1).send_due(at(120))
    assert max(message.address for message in channel.messages) == "root@example.org"


def test_mail_about_critical_flags_is_sent_first(store):
    invent_addresses(store, 5, severity=Severity.WARNING)
    record_flag(store, VICTIM, 100, made_at=at(60))
    channel = Fake()
    sender_of(store, channel).send_due(at(120))
    assert channel.messages[0].address == f"user{VICTIM}@example.org"


def test_a_fifth_of_the_site_s_limit_is_for_critical_flags_only(store):
    for number in range(10):
        record_flag(store, 1000 + number, number, severity=Severity.WARNING)
    channel = Fake()
    sender = sender_of(store, channel, max_per_hour=10)
    sender.send_due(at(120))
    to_users = [message for message in channel.messages if message.address != "root@example.org"]
    assert len(to_users) == 8
    record_flag(store, VICTIM, 100, made_at=at(60))
    sender.send_due(at(120))
    assert channel.messages[-1].address == f"user{VICTIM}@example.org"


def test_many_users_together_leave_room_for_one_who_got_no_mail(store):
    for number in range(60):
        record_flag(store, 1000 + number % 3, number, mail_user=f"a{number}@example.org")
    channel = Fake()
    sender = sender_of(store, channel, max_per_hour=50, max_per_user=20)
    sender.send_due(at(120))
    record_flag(store, VICTIM, 100, made_at=at(60))
    sender.send_due(at(120))
    to_users = [message.address for message in channel.messages if message.address != "root@example.org"]
    assert (len(to_users), to_users[-1]) == (46, f"user{VICTIM}@example.org")


def policy_of(**changes):
    return build_policy(Config.model_validate({"mail": MAIL | changes}))


def test_jobs_may_name_addresses_in_the_domain_of_the_site_s_rule_unless_it_allows_others():
    def find(address, policy):
        return notices.find_address("alice", address, policy)

    assert find("al@example.org", policy_of()) == "al@example.org"
    assert find("al@elsewhere.example", policy_of()) == "alice@example.org"
    assert find("al@elsewhere.example", policy_of(allowed_domains=["elsewhere.example"])) == "al@elsewhere.example"
    assert find("al@elsewhere.example", policy_of(allowed_domains=["*"])) == "al@elsewhere.example"


@pytest.mark.parametrize("address", ["victim%elsewhere.example@example.org", "elsewhere.example!victim@example.org"])
def test_no_relay_is_asked_to_send_mail_on_to_another_domain(address):
    """Postfix, for one, sends a%b@here to a@b unless it is told otherwise."""
    assert notices.find_address("alice", address, policy_of()) == "alice@example.org"
    assert notices.find_refused(address, policy_of()) == address
    assert notices.find_address("alice", address, policy_of(allowed_domains=["*"])) == address


def test_a_notice_keeps_the_address_that_was_not_allowed(store):
    policy = replace(POLICY, allowed_domains=("example.org",))
    due = flag()
    note_run(store, due.finding.run, at(0), user="alice", located_by="watch")
    planned = notices.plan(opened(due), facts_of(due, mail_user="al@elsewhere.example"), policy, at(0))
    assert [(each.recipient.address, each.refused_address) for each in planned] == [
        ("alice@example.org", "al@elsewhere.example")
    ]
    store.flags.record(opened(replace(due, flag_id=None)), at(0), planned)
    assert store.notices.list_refused_addresses(due.finding.run) == (("al@elsewhere.example", "alice@example.org"),)
