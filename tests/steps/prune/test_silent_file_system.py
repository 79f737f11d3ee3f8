"""A file system falls silent in the middle of a move, for longer than the agent waits: and then?

The agent kills a child at its deadline; one that the kernel holds in a system call ends when that call does, done or
not. Both ends are played at every call of a move, by a real child that stops there.
"""

import os
import pickle
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from ckptd.checkpoints import trash
from ckptd.checkpoints.agent import requests
from ckptd.checkpoints.agent.client import NOT_REACHED, SILENCE
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.trash import trash_operations
from ckptd.core.retention import KeepLast
from ckptd.steps.prune.silent_users import SilentUsers
from support.prune_facts import UID, make_policy, make_site, workshop
from support.trash_facts import start_child


class Stopper:
    """A step that stops its own process before one system call, and kills it before the next."""

    def __init__(self, at):
        self.at = at
        self.count = 0

    def __call__(self, _name):
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.count == self.at + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


class Silent:
    """An agent whose next move does not answer."""

    def __init__(self, agent):
        self.agent = agent
        self.at = None
        self.child = None
        self.is_over = False

    def run(self, batches):
        if self.at is None or not batches or batches[0].operation != "move_aside":
            return self.agent.run(batches)
        item = batches[0].items[0]
        now = datetime.fromtimestamp(item["now"], UTC)
        completed = requests.complete("move_aside", item, RequestPolicy(is_person=True))
        asked = trash_operations.decode_request(completed)
        self.child, pipe = start_child(lambda: trash.move_aside(asked, now=now, step=Stopper(self.at)), UID)
        found = os.waitid(os.P_PID, self.child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.at = None
        with os.fdopen(pipe, "rb") as reading:
            if found.si_code == os.CLD_STOPPED:
                return [[SILENCE] + [NOT_REACHED] * (len(batch.items) - 1) for batch in batches]
            self.is_over = True  # a move has fewer calls
            os.waitpid(self.child, 0)
            return [[{"outcomes": [trash_operations.encode_outcome(pickle.load(reading))]}]]

    def end(self, *, is_done):
        """End the child: with the system call that it is in, or without."""
        os.kill(self.child, signal.SIGCONT if is_done else signal.SIGKILL)
        os.waitpid(self.child, 0)


@pytest.mark.parametrize("is_done", [True, False])  # each at every other call
def test_a_move_that_falls_silent_at_any_call_is_finished_or_undone_and_nothing_else_is_done_to_its_run(is_done):
    with workshop() as shop:
        silent = Silent(shop.agent)
        shop.parts = replace(shop.parts, agent=silent)
        shop.site = make_site(shop.root, make_policy(KeepLast(1)))
        shop.start_job()
        written = {}
        shop.train([1])
        for at in count(int(is_done), 2):
            written |= read(shop)
            shop.train([at + 2])
            shop.wait(90)
            shop.look()
            shop.memory.silent = SilentUsers()  # else the pause grows with each of these moves
            silent.at = at
            done = shop.act()
            if silent.is_over:
                break
            assert (done.moved_count, done.failed_count) == (0, 1)
            assert shop.memory.pruned.unconfirmed_run_count == 1
            check(shop, written)
            shop.wait(3)
            assert shop.act().moved_count == 0  # it is not tried again at once
            silent.end(is_done=is_done)
            shop.wait(25)
            shop.act()
            shop.wait(5)
            shop.act()
            assert shop.memory.pruned.unconfirmed_run_count == 0
            check(shop, written)
            assert shop.names() == [f"epoch_{at + 2}.npz"]
            assert [entry for entry in shop.audit() if entry.finished_at is None] == []
        assert at > 10


def read(shop):
    return {path.name: path.read_bytes() for path in shop.directory.iterdir() if path.is_file()}


def check(shop, written):
    """Every checkpoint is whole, once: where it was, or in the trash."""
    there = read(shop)
    held = [path.read_bytes() for path in shop.trash().glob("*/0")]
    for name, data in written.items():
        assert (there.get(name) == data) + held.count(data) == 1, name


@pytest.mark.parametrize("operation", ["list_known", "empty"])
def test_while_a_trash_does_not_answer_its_run_is_left_alone_and_asked_again_after_a_pause(operation):
    class Deaf:
        def __init__(self, agent):
            self.agent = agent
            self.is_deaf = False
            self.asked = 0

        def run(self, batches):
            if not self.is_deaf or not batches or batches[0].operation != operation:
                return self.agent.run(batches)
            self.asked += 1
            return [[SILENCE] * len(batch.items) for batch in batches]

    with workshop() as shop:
        deaf = Deaf(shop.agent)
        shop.parts = replace(shop.parts, agent=deaf)
        shop.site = replace(shop.site, hold=timedelta(hours=1))
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.wait(90)
        shop.act()
        shop.wait(120)
        deaf.is_deaf = True
        for _ in range(3):
            assert shop.act().deleted_count == 0
            shop.wait(3)
        assert (deaf.asked, shop.memory.pruned.unconfirmed_run_count) == (1, 1)
        assert shop.memory.pruned.held.count == 4  # what it held when it was last heard of
        deaf.is_deaf = False
        shop.wait(10)
        shop.act()  # its owner has the last turn
        shop.wait(1)
        assert shop.act().deleted_count == 4
        assert shop.memory.pruned.unconfirmed_run_count == 0
        assert [entry for entry in shop.audit() if entry.finished_at is None] == []
