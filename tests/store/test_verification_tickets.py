"""Verification tickets on record, in both databases, until their result is."""

from dataclasses import replace

import pytest

from ckptd.core.model import RunKey
from ckptd.core.verification.ticket import VerificationTicket
from ckptd.steps.follow_verifications import INTERVAL, MAX_TICKETS, choose_turn
from ckptd.store.database_errors import UnknownRunError
from store.observing import HOSTILE, poll
from support.queue_facts import CLUSTER, RUN, at, make_checkpoint, make_job
from support.recorded import locate

WILD = make_checkpoint(HOSTILE.replace("/", ""), files=(HOSTILE,))


@pytest.fixture
def tickets(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    return store.verification_tickets


def make_ticket(name="00112233aabbccdd", **changes):
    fields = {"run": RUN, "requested_at": at(2), "tasks": ((WILD,), (make_checkpoint("b.pt"),)), **changes}
    return VerificationTicket(name=name, **fields)


def test_a_ticket_comes_back_as_it_was_added_and_as_it_was_changed(tickets):
    tickets.add(ticket := make_ticket())
    assert tickets.read(ticket.name) == ticket
    changed = replace(ticket, job_id=2**31, try_count=3, silent_since=at(5), end_reason=HOSTILE)
    tickets.change(changed)
    assert tickets.read(ticket.name) == changed
    assert tickets.list_unwatched(CLUSTER, at(9)) == (changed,)


def test_a_ticket_says_whether_its_jobs_compare(tickets):
    tickets.add(ticket := make_ticket(is_comparison=True))
    assert tickets.read(ticket.name) == ticket
    assert tickets.list_unwatched(CLUSTER, at(9)) == (ticket,)
    assert (tickets.list_runs(CLUSTER), tickets.list_runs(CLUSTER, is_comparison=True)) == (frozenset(), {RUN})


def test_a_ticket_of_a_first_scan_is_followed_and_stands_in_the_way_of_no_verification(tickets):
    tickets.add(ticket := make_ticket(is_scan=True, tasks=((),) * 3))
    assert tickets.read(ticket.name) == ticket
    assert tickets.list_unwatched(CLUSTER, at(9)) == (ticket,)
    assert (tickets.list_runs(CLUSTER), tickets.count_open(CLUSTER, RUN.uid)) == (frozenset(), 1)


def test_a_deleted_ticket_is_neither_read_nor_changed(tickets):
    tickets.add(ticket := make_ticket())
    tickets.delete(ticket.name)
    tickets.change(replace(ticket, job_id=4))
    assert (tickets.read(ticket.name), tickets.list_runs(CLUSTER)) == (None, frozenset())


def test_a_ticket_of_a_run_that_is_not_on_record_is_refused(tickets):
    with pytest.raises(UnknownRunError):
        tickets.add(make_ticket(run=RunKey(CLUSTER, 4, "/elsewhere")))


def test_tickets_are_counted_for_each_user_and_cluster(tickets):
    tickets.add(make_ticket())
    tickets.add(make_ticket("1" * 16))
    found = [
        tickets.count_open(cluster, uid) for cluster, uid in ((CLUSTER, RUN.uid), (CLUSTER, 4), ("other", RUN.uid))
    ]
    assert found == [2, 0, 0]
    assert tickets.list_runs(CLUSTER) == {RUN}


def test_what_a_command_follows_is_left_to_it_as_long_as_it_says_so(tickets):
    tickets.add(ticket := make_ticket())
    tickets.watch([ticket.name], at(10))
    tickets.change(replace(ticket, job_id=4))  # by whoever has read it before
    assert tickets.list_unwatched(CLUSTER, at(9)) == ()
    assert [each.name for each in tickets.list_unwatched(CLUSTER, at(11))] == [ticket.name]
    tickets.watch([ticket.name], None)
    assert [each.name for each in tickets.list_unwatched(CLUSTER, at(9))] == [ticket.name]


@pytest.mark.parametrize("count", [0, 1, MAX_TICKETS, MAX_TICKETS + 1, 5 * MAX_TICKETS - 3])
def test_every_ticket_has_a_turn_and_no_step_asks_about_too_many(count):
    open_tickets = [make_ticket(f"{number:016x}") for number in range(count)]
    turns = [choose_turn(open_tickets, at(0) + step * INTERVAL) for step in range(max(1, -(-count // MAX_TICKETS)))]
    assert sorted(each.name for turn in turns for each in turn) == [each.name for each in open_tickets]
    assert max(map(len, turns)) <= MAX_TICKETS
