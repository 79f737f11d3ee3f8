"""What a term of a lease lets through, and what not."""

import pytest

from ckptd.checkpoints.agent.client import Batch
from ckptd.checkpoints.agent.requests import READING_OPERATIONS, SHAPES
from ckptd.core.notices.delivery import SendResult
from ckptd.service import lease_term
from ckptd.service.lease_term import LeasedAgent, LeasedChannel, LeaseExpiredError, LeaseTerm

ACTING_OPERATIONS = {
    "signal_job", "hold_job", "resubmit_job", "move_aside", "restore", "empty", "recover", "submit_verification",
    "submit_digests", "submit_scan", "cancel_verification", "scan_on_node",
}  # fmt: skip


class Recorder:
    """An agent and a channel that note what reached them."""

    def __init__(self):
        self.seen = []

    def run(self, batches):
        self.seen += [batch.operation for batch in batches]
        return []

    def send(self, message):
        self.seen.append(message)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(lease_term, "read_elapsed", lambda: now[0])
    return now


def batch(operation):
    return Batch(uid=1, operation=operation, items=(), deadline_seconds=1)


def test_every_operation_of_the_agent_either_reads_or_needs_the_lease():
    assert SHAPES.keys() == READING_OPERATIONS | ACTING_OPERATIONS
    assert not READING_OPERATIONS & ACTING_OPERATIONS


@pytest.mark.parametrize("operation", sorted(ACTING_OPERATIONS))
def test_nothing_is_changed_after_the_term_has_expired(operation, clock):
    agent, term = Recorder(), LeaseTerm("c", 1, valid_until=112.0)
    leased = LeasedAgent(agent, term)
    leased.run([batch(operation)])
    clock[0] = 112.0
    with pytest.raises(LeaseExpiredError, match="could not be renewed in time"):
        leased.run([batch("scan"), batch(operation)])
    term.extend(120.0)
    leased.run([batch(operation)])
    assert agent.seen == [operation, operation]


def test_reading_needs_no_lease(clock):
    agent, term = Recorder(), LeaseTerm("c", 1, valid_until=0.0)
    LeasedAgent(agent, term).run([batch(operation) for operation in READING_OPERATIONS])
    assert len(agent.seen) == len(READING_OPERATIONS)


def test_a_message_is_deferred_and_not_uncertain_after_the_end(clock):
    channel, term = Recorder(), LeaseTerm("c", 1, valid_until=112.0)
    leased = LeasedChannel(channel, term)
    leased.send("first")
    term.lose("another daemon acts")
    assert leased.send("second").result is SendResult.DEFERRED
    assert channel.seen == ["first"]


def test_a_term_whose_renewal_gets_no_answer_ends_the_daemon(clock):
    """A proxy accepts what it is sent and passes nothing on, so no time limit of TCP or of the server applies."""
    clock[0] = 100.0
    term = LeaseTerm("c", 1, valid_until=112.0)
    with term.renewing():
        clock[0] = 159.0
        assert term.describe_loss() is None
        assert term.seconds_to_renew == 59.0
        clock[0] = 161.0
        assert term.describe_loss().startswith("the database has not answered for 60 s")
    assert term.describe_loss() is None
    assert term.seconds_to_renew == 0.0


def test_a_term_that_was_lost_never_begins_again(clock):
    term = LeaseTerm("c", 1, valid_until=112.0)
    term.lose("another daemon acts")
    term.extend(1000.0)
    with pytest.raises(LeaseExpiredError, match="is lost"):
        term.require()
