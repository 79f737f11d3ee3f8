"""What every executor promises, whoever reads the bytes."""

import os

import pytest

from checkpoints.verify_jobs_site import open_site
from ckptd.checkpoints.executor import NO_RESULT, Ticket, TicketState, Witness
from ckptd.core.model import CheckpointState, Level, Unknown
from support.flipped_byte import flip_a_byte

NAMES = ("epoch_1.npz", "epoch_2.npz", "epoch_3.npz")


@pytest.fixture
def site(monkeypatch):
    with open_site(monkeypatch) as site:
        site.save(*NAMES)
        yield site


@pytest.fixture(params=["this node", "jobs"])
def executor(request, site):
    return site.make_local() if request.param == "this node" else site.make_jobs()


def test_each_checkpoint_is_read_whole_and_a_damaged_byte_is_found(site, executor):
    flip_a_byte(site.directory / NAMES[1])
    ticket = executor.submit(site.request())
    site.finish(executor, ticket)
    found = {each.path.name: each for each in executor.collect(ticket)}
    assert {name: each.state for name, each in found.items()} == {
        NAMES[0]: CheckpointState.COMPLETE,
        NAMES[1]: CheckpointState.DAMAGED,
        NAMES[2]: CheckpointState.COMPLETE,
    }
    assert found[NAMES[1]].reason
    assert found[NAMES[0]].level is Level.FULL
    assert {name: each.identities for name, each in found.items()} == {
        name: each.identities for name, each in site.scan().items()
    }


def test_results_are_about_the_requested_checkpoints_only(site, executor):
    ticket = executor.submit(site.request(NAMES[2]))
    site.finish(executor, ticket)
    assert [each.path.name for each in executor.collect(ticket)] == [NAMES[2]]


def test_files_that_changed_after_the_scan_have_other_identities_in_the_result(site, executor):
    ticket = executor.submit(request := site.request(NAMES[0]))
    flip_a_byte(site.directory / NAMES[0])
    site.finish(executor, ticket)
    (found,) = executor.collect(ticket)
    assert found.identities != request.checkpoints[0].identities


@pytest.mark.skipif(os.geteuid() != 0, reason="root reads everything, its own user nothing less")
def test_what_the_owner_may_not_read_is_not_complete(site, executor):
    ticket = executor.submit(site.request(NAMES[0]))
    os.chown(site.directory / NAMES[0], 0, 0)
    (site.directory / NAMES[0]).chmod(0o600)
    site.finish(executor, ticket)
    found = executor.collect(ticket)
    assert not isinstance(found, Unknown)
    assert all(each.state is CheckpointState.UNKNOWN for each in found)


def test_a_result_stays_until_its_ticket_is_released(site, executor):
    ticket = executor.submit(site.request(NAMES[0]))
    site.finish(executor, ticket)
    assert executor.collect(ticket) == executor.collect(ticket)
    assert executor.release(ticket) is None
    for answer in (executor.collect(ticket), executor.follow(ticket)):
        assert isinstance(answer, Unknown)
        assert answer.what == NO_RESULT


def test_to_release_a_ticket_twice_or_one_that_was_never_given_is_no_error(site, executor):
    ticket = executor.submit(site.request(NAMES[0]))
    other = executor.submit(site.request(NAMES[1]))
    assert executor.release(ticket) is None
    assert executor.release(ticket) is None
    assert executor.release(Ticket("00000000deadbeef")) is None
    assert executor.follow(other).state in set(TicketState)


def test_the_witness_is_the_node_only_where_this_node_reads(site):
    assert (site.make_local().witness, site.make_jobs().witness) == (Witness.NODE, Witness.OWNER)
