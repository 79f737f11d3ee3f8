"""The lease over hosts whose clocks run at different speeds, that stop for a while and lose their database."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ckptd.core.leadership import lease
from ckptd.core.leadership.lease import Lease, LeaseHolder, LeaseTimes
from support.examples import FACTOR

TIMES = LeaseTimes()
STEP = 0.5  # seconds of real time


def holder(name):
    return LeaseHolder(instance=name, program="run", host=name, pid=1, version="0")


def test_a_lease_that_is_renewed_is_never_taken():
    seen, watched = Lease(epoch=3, renewal=0, holder=holder("a")), None
    for second in range(100):
        watched = lease.watch(watched, Lease(epoch=3, renewal=second // 4, holder=seen.holder), float(second))
        assert not lease.may_take(watched, float(second), TIMES)


def test_a_lease_that_is_not_renewed_is_taken_after_its_duration_and_not_before():
    seen = Lease(epoch=3, renewal=7, holder=holder("a"))
    watched = lease.watch(lease.watch(None, seen, 10.0), seen, 20.0)
    assert not lease.may_take(watched, 24.9, TIMES)
    assert lease.may_take(watched, 25.0, TIMES)


def test_a_released_lease_is_free_at_once():
    assert lease.may_take(lease.watch(None, Lease(epoch=3, renewal=7, holder=None), 0.0), 0.0, TIMES)


def test_a_new_holder_starts_the_wait_again():
    watched = lease.watch(None, Lease(epoch=3, renewal=7, holder=holder("a")), 0.0)
    watched = lease.watch(watched, Lease(epoch=4, renewal=0, holder=holder("b")), 14.0)
    assert not lease.may_take(watched, 20.0, TIMES)


def test_a_killed_holder_is_replaced_within_half_a_minute():
    assert TIMES.longest_takeover < 30
    assert TIMES.renew_interval < TIMES.valid < TIMES.duration


class Record:
    """The row in the database: each change is one transaction, and the fence of every other one reads it."""

    def __init__(self):
        self.lease = Lease(epoch=0, renewal=0, holder=None)

    def take(self, seen, name):
        if (seen.epoch, seen.renewal) != (self.lease.epoch, self.lease.renewal):
            return None
        self.lease = Lease(epoch=seen.epoch + 1, renewal=0, holder=holder(name))
        return self.lease.epoch

    def renew(self, epoch):
        if self.lease.epoch != epoch:
            return False
        self.lease = Lease(epoch=epoch, renewal=self.lease.renewal + 1, holder=self.lease.holder)
        return True


@dataclass
class Node:
    """A daemon: its clock, its epoch while it holds the lease, and what it is in the middle of."""

    name: str
    speed: float
    clock: float
    epoch: int | None = None
    valid_until: float = 0.0
    due_at: float = 0.0
    watched: object = None
    is_stopped: bool = False
    is_cut_off: bool = False
    intended: int | None = None  # the epoch of an act that is recorded and not yet done
    began: float | None = None  # of a renewal whose answer is on its way
    acts: list = field(default_factory=list)

    def is_valid(self):
        return self.epoch is not None and self.clock < self.valid_until

    def run(self, record, at):
        if self.is_stopped:
            return
        if self.intended is not None:  # the act itself, right after the check by the own clock
            if self.is_valid() and self.intended == self.epoch:
                self.acts.append((at, self.epoch, record.lease.epoch))
            self.intended = None
        elif self.is_valid() and not self.is_cut_off and record.lease.epoch == self.epoch:
            self.intended = self.epoch
        if self.clock < self.due_at or self.is_cut_off:
            return
        if self.epoch is not None:
            self.due_at = self.clock + TIMES.renew_interval
            if record.renew(self.epoch):
                self.valid_until = lease.valid_until(self.clock, TIMES)
            else:
                self.epoch = None
            return
        self.due_at = self.clock + TIMES.watch_interval
        self.watched = lease.watch(self.watched, record.lease, self.clock)
        if lease.may_take(self.watched, self.clock, TIMES):
            began = self.clock
            self.epoch = record.take(self.watched.lease, self.name)
            if self.epoch is not None:
                self.valid_until = lease.valid_until(began, TIMES)


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["stop", "continue", "cut", "join", "crash"]), st.integers(1, 60)),
    max_size=25,
)


@settings(max_examples=24 * FACTOR)
@given(speeds=st.lists(st.floats(0.95, 1.05), min_size=3, max_size=3), events=EVENTS, offset=st.floats(0, 1e6))
def test_whatever_stops_or_is_cut_off_one_acts_at_a_time_and_somebody_always_does_again(speeds, events, offset):
    record = Record()
    nodes = [Node(name=str(index), speed=speed, clock=offset * index) for index, speed in enumerate(speeds)]
    at = 0.0

    def pass_time(seconds):
        nonlocal at
        for _ in range(round(seconds / STEP)):
            at += STEP
            for node in nodes:
                node.clock += STEP * node.speed  # a process that is stopped finds later what the time is
                node.run(record, at)
            assert sum(node.is_valid() for node in nodes) <= 1

    for index, event, seconds in events:
        node = nodes[index]
        if event in {"stop", "continue"}:
            node.is_stopped = event == "stop"
        elif event == "crash":
            nodes[index] = Node(name=node.name, speed=node.speed, clock=node.clock, acts=node.acts)
        else:
            node.is_cut_off = event == "cut"
        pass_time(seconds / 2)
    for _, epoch, current in (act for node in nodes for act in node.acts):
        assert epoch == current, "an act of a process whose lease another one had taken"
    for node in nodes:
        node.is_stopped = node.is_cut_off = False
    pass_time(40)
    assert sum(node.is_valid() for node in nodes) == 1


@given(frozen=st.floats(0, 100), seen_after=st.floats(0, 5), speed=st.floats(0.9, 1.1))
def test_a_holder_stops_before_another_one_begins(frozen, seen_after, speed):
    """A renewal is seen at the earliest when it is committed, which is after it began."""
    seen = Lease(epoch=1, renewal=1, holder=holder("a"))
    watched = lease.watch(None, seen, seen_after * speed)
    taken_at = frozen if lease.may_take(watched, frozen * speed, TIMES) else None
    assert taken_at is None or taken_at > lease.valid_until(0.0, TIMES)
