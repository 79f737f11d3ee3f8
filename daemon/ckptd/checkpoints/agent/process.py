"""Acts on users' files as their owners: the only process of the daemon that keeps the privilege to do so.

It starts before the main process drops its privileges, reads requests (one JSON document per line) from one socket, and
forks a child for each. The child becomes the owner of the files before it opens a path. A child that does not finish
in time is killed; if the kernel cannot end it because a file system hangs, nothing waits for it. The agent refuses
to act as root for a job, runs only the operations of its registry, and uses the answer of a child only for that child's
own request.

The main process talks to the network, and an attacker may control it. So the agent reads its policy from the
configuration itself, at the start and at each reload; no request contains a part of it. The agent of a daemon also
knows until when the daemon holds the lease of its cluster. After that time it starts no operation that changes
anything, and kills the children that run one.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ckptd.checkpoints.agent import child_states, confinement, node_scan_turns, orphans, request_child, requests
from ckptd.checkpoints.agent.answer_pieces import MARK, address
from ckptd.checkpoints.agent.answer_queue import AnswerQueue
from ckptd.checkpoints.agent.batch_child import BatchChild
from ckptd.checkpoints.agent.child_states import ChildSignals
from ckptd.checkpoints.agent.lease_memory import LEASE_OVER, NOT_BEGUN, LeaseOverError, LeaseView
from ckptd.checkpoints.agent.line_buffer import LineBuffer
from ckptd.checkpoints.agent.node_scan_turns import NodeScanTurns
from ckptd.checkpoints.agent.refusal_log import RefusalLog
from ckptd.checkpoints.agent.request_child import Operation
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.request_rate import RequestRate
from ckptd.checkpoints.agent.request_turns import check_size, find_turn_end
from ckptd.checkpoints.agent.scan_patience import STRETCHED, ScanPatience
from ckptd.checkpoints.agent.user_switch import effective_user
from ckptd.checkpoints.scanning.mounts import read_recent_mounts
from ckptd.errors import CkptdError

MAX_CHILDREN = 8  # at work at the same time
MAX_SILENT_CHILDREN = 32  # more that have not answered for a while: stopped by their owner, or on a disk that hangs
MAX_SILENT_OF_OWNER = 2
SILENT_SECONDS = 3.0  # after which a child no longer takes the place of another owner's
MAX_ANSWER_BYTES = 128 * 2**20
LEAST_PIECE_BYTES = 1024  # that a piece counts, because an empty one also takes memory and time
MAX_REQUEST_BYTES = 2**30  # the known checkpoints of fifty large directories
MAX_WAITING = 20_000
LAST_SECONDS = 1.0  # that the agent waits for processes that it has killed, before it ends itself
GATHER_SECONDS = 0.002  # for further answers: a scan in which nothing changed takes a quarter of a millisecond
FORK_SECONDS = 1.0  # between two attempts to start a child when there are too many processes
STOPPED = "its process was stopped"


class Agent:
    """Serves one main process until its socket closes."""

    def __init__(
        self,
        connection: socket.socket,
        read_policy: Callable[[], RequestPolicy],
        operations: Mapping[str, Operation],
        lease: LeaseView | None = None,
    ) -> None:
        """Read the policy for the first time.

        Raises:
            CkptdError: it cannot be read, or must not be trusted.

        """
        self._connection = connection
        self._answers = AnswerQueue(connection)
        self._read_policy = read_policy
        self._operations = operations
        self._lease = lease
        self._policy = read_policy()
        orphans.adopt()
        self._signals = ChildSignals()
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._waiting: deque[dict[str, Any]] = deque()
        self._children: dict[int, BatchChild] = {}
        self._abandoned: set[int] = set()
        self._has_orphans = False
        self._fork_at = 0.0  # no child is forked before, because it failed; 0: it did not
        self._received = LineBuffer()
        self._gathers = False  # whether a child is going to answer further items at once
        self._rate = RequestRate()
        self._node_turns = NodeScanTurns()
        self._log = RefusalLog()
        self._is_open = True

    def serve(self) -> None:
        """Work until the main process is gone."""
        self._send({"ready": True})
        while self._is_open or self._children:
            for key, events in self._wait():
                if key.fileobj is self._connection:
                    if events & selectors.EVENT_READ:
                        self._receive()
                elif key.fileobj is self._signals:
                    self._end_stopped_children()
                elif (child := self._children.get(key.fd)) is not None:
                    self._read_child(child)
            self._end_late_children()
            self._reap()
            while (request := self._choose_next()) is not None:
                self._start(request)
        self._reap_the_last()

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what can be read; nothing while the main process has much to read itself."""
        self._answers.send()
        if self._gathers:
            time.sleep(GATHER_SECONDS)
            self._gathers = False
        seconds = self._seconds_to_deadline()
        if self._is_open and self._answers.is_full:
            self._answers.wait(seconds)
            return []
        if self._is_open:
            waits = selectors.EVENT_READ if self._answers.is_empty else selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(self._connection, waits)
        return self._selector.select(seconds)

    def _choose_next(self) -> dict[str, Any] | None:
        """Remove and return the request to start now; None if all places are taken.

        A silent child leaves its place to a request of another owner, so that nobody who stops children delays others.
        """
        if time.monotonic() < self._fork_at:
            return None
        self._fork_at = 0.0
        silent_since = time.monotonic() - SILENT_SECONDS
        silent = [child.uid for child in self._children.values() if child.answered_at <= silent_since]
        if len(self._children) - min(len(silent), MAX_SILENT_CHILDREN) >= MAX_CHILDREN:
            return None
        full = {uid for uid in silent if silent.count(uid) >= MAX_SILENT_OF_OWNER}
        running = [child.operation for child in self._children.values()]
        for place, request in enumerate(self._waiting):
            if request["uid"] not in full and not node_scan_turns.must_wait(request, running, self._policy):
                del self._waiting[place]
                return request
        return None

    def _receive(self) -> None:
        try:
            data = self._connection.recv(1 << 16)
        except ConnectionResetError:  # it ended without reading all answers
            data = b""
        if not data:
            self._is_open = False
            self._selector.unregister(self._connection)
            self._waiting.clear()
            for child in list(self._children.values()):
                self._end(child, "the daemon stopped")
            return
        lines = self._received.take_lines(data)
        if len(self._received) > MAX_REQUEST_BYTES:
            raise requests.RequestError(f"a request is longer than {MAX_REQUEST_BYTES} bytes")
        for line in lines:
            self._accept(line)

    def _accept(self, line: bytes) -> None:
        """Queue a request, or refuse it."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, "it is not JSON")
            return
        if isinstance(request, dict) and request.keys() == {"id", "reload"}:
            self._reload(request["id"])
            return
        if isinstance(request, dict) and request.keys() == {"id", "ping"}:
            self._send({"id": request["id"], "done": True, "reason": None})
            return
        try:
            requests.check_envelope(request)
            check_size(request)
            self._policy.identities.check_number(request["uid"])
            self._count(request["uid"])
            self._node_turns.admit(request, self._policy, time.monotonic())
        except CkptdError as error:
            self._refuse(request, str(error))
            return
        self._waiting.append(request)

    def _count(self, uid: int) -> None:
        """Refuse what is more than one user may ask for, or more than may wait.

        Raises:
            RequestError: it is.

        """
        limit = self._policy.max_requests_per_minute
        if not self._policy.is_person and not self._rate.take(uid, limit, time.monotonic()):
            raise requests.RequestError(f"more than {limit} requests a minute for one user")
        if len(self._waiting) >= MAX_WAITING:
            raise requests.RequestError(f"more than {MAX_WAITING} requests wait")

    def _refuse(self, request: Any, reason: str) -> None:
        """Say why, and log it: the main process sends no such request unless the configuration has just changed."""
        self._log.note_refusal(request.get("uid") if isinstance(request, dict) else None, reason[:500])
        if isinstance(request, dict) and isinstance(request.get("id"), int):
            self._send({"id": request["id"], "done": True, "reason": f"refused: {reason}"})

    def _reload(self, request_id: Any) -> None:
        """Read the policy again; a wrong one leaves the old in force."""
        reason = None
        try:
            self._policy = self._read_policy()
        except CkptdError as error:
            reason = str(error)
        self._send({"id": request_id, "done": True, "reason": reason})

    def _is_leased(self, request: Mapping[str, Any]) -> bool:
        return self._lease is not None and request["operation"] not in requests.READING_OPERATIONS

    def _is_lease_over(self) -> bool:
        return self._lease is not None and self._lease.seconds_left <= 0

    def _require_lease(self, request: Mapping[str, Any]) -> None:
        """Raise LeaseOverError if the request would change something, and the main process may no longer do so."""
        if self._is_lease_over() and self._is_leased(request):
            raise LeaseOverError(NOT_BEGUN)

    def _start(self, request: dict[str, Any]) -> None:
        try:
            self._require_lease(request)
        except LeaseOverError as error:
            self._refuse(request, str(error))
            return
        with contextlib.suppress(OSError):
            read_recent_mounts()  # for the child, which would parse the table again
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            process_id = os.fork()
        except OSError as error:  # a user's programs, or others on this host, have used up what there is
            os.close(reading)
            os.close(writing)
            self._wait_to_fork(request, error)
            return
        if process_id == 0:
            for pipe in (reading, *self._children):  # what other owners' children answer is none of its business
                os.close(pipe)
            self._connection.close()
            self._signals.close()
            request_child.run(request, writing, self._policy, self._operations, partial(self._require_lease, request))
        os.close(writing)
        request_child.lead_group(process_id)
        now, seconds, count = time.monotonic(), request["deadline_seconds"], len(request["items"])
        asked = request["id"], request["uid"], request["operation"]
        patience = ScanPatience(process_id, seconds, now) if request["operation"] == STRETCHED else None
        deadline = now + seconds if patience is None else patience.first_at
        leaves_at, is_leased = find_turn_end(request, now), self._is_leased(request)
        child = BatchChild(*asked, process_id, reading, deadline, is_leased, count, leaves_at, now, patience)
        self._children[reading] = child
        self._selector.register(reading, selectors.EVENT_READ)

    def _wait_to_fork(self, request: dict[str, Any], error: OSError) -> None:
        """Put a request back: no child could be forked for it."""
        self._waiting.appendleft(request)
        self._fork_at = time.monotonic() + FORK_SECONDS
        self._log.write("fork", f"no process can be started: {error.strerror}; retrying every {FORK_SECONDS:g} s")

    def _read_child(self, child: BatchChild) -> None:
        data = os.read(child.pipe, 1 << 16)
        child.answered_at = time.monotonic()
        try:
            for line in child.buffer.take_lines(data):
                if line.startswith(MARK):
                    self._pass_on(child, line)
                    continue
                answer = json.loads(line)
                if "refused" in answer:
                    reason = str(answer["refused"])[:500]
                    self._log.note_refusal(child.uid, reason)
                    self._end(child, f"refused: {reason}")
                    return
                self._send({"id": child.request_id, "index": int(answer["index"]), "result": dict(answer["result"])})
                child.unanswered -= 1
                child.piece_bytes = 0
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # such as an infinite index
            self._end(child, "its answer is malformed")
            return
        if len(child.buffer) + child.piece_bytes > MAX_ANSWER_BYTES:
            self._end(child, "its answer is too large")
        elif child.unanswered < 0:
            self._end(child, "it answered more than it was asked")
        elif not data:
            self._end(child, "it ended before it had answered" if child.unanswered > 0 else None)
        elif child.unanswered > 0 and not child.buffer:
            self._gathers = True

    def _pass_on(self, child: BatchChild, line: bytes) -> None:
        """Send a piece of a child's next answer without parsing it."""
        child.piece_bytes += max(len(line), LEAST_PIECE_BYTES)
        if self._is_open:
            self._answers.add_line(address(line, child.request_id))

    def _end(self, child: BatchChild, reason: str | None) -> None:
        """Remove a child from the list, and kill it if it did not end by itself."""
        if reason is not None:
            with contextlib.suppress(ProcessLookupError), effective_user(child.uid):
                os.killpg(child.process_id, signal.SIGKILL)  # with the children that it has forked itself
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.pipe]
        self._abandoned.add(child.process_id)
        self._send({"id": child.request_id, "done": True, "reason": reason})

    def _end_stopped_children(self) -> None:
        """End each child that was stopped, even if it goes on, and start what its user waits for after all others."""
        self._signals.clear()
        for child in list(self._children.values()):
            if child_states.was_stopped(child.process_id):
                self._end(child, STOPPED)
                theirs = [request for request in self._waiting if request["uid"] == child.uid]
                others = [request for request in self._waiting if request["uid"] != child.uid]
                self._waiting = deque(others + theirs)

    def _end_late_children(self) -> None:
        now = time.monotonic()
        for child in list(self._children.values()):
            if (reason := child.find_reason_to_end(now)) is not None:
                self._end(child, reason)
        if self._is_lease_over():
            for child in [child for child in self._children.values() if child.is_leased]:
                self._end(child, LEASE_OVER)

    def _reap(self) -> None:
        """Wait for children that have ended, and end what they left behind."""
        for process_id in list(self._abandoned):
            if os.waitpid(process_id, os.WNOHANG)[0]:
                self._abandoned.discard(process_id)
                self._has_orphans = True  # perhaps
        if self._has_orphans:
            known = {child.process_id for child in self._children.values()} | self._abandoned
            self._has_orphans = orphans.end_orphans(known)

    def _reap_the_last(self) -> None:
        """Do so until nothing is left, or what is left does not end."""
        until = time.monotonic() + LAST_SECONDS
        while self._abandoned or self._has_orphans:
            self._reap()
            if time.monotonic() > until:
                return
            time.sleep(0.02)

    def _seconds_to_deadline(self) -> float | None:
        if self._abandoned or self._has_orphans:
            return 0.2
        now = time.monotonic()
        times = [child.due_at for child in self._children.values()]
        if self._fork_at:
            times.append(self._fork_at)
        if not times:
            return None
        if self._lease is not None and any(child.is_leased for child in self._children.values()):
            times.append(now + self._lease.seconds_left)
        if self._waiting:  # a place becomes free when a child is silent for too long
            times += [at for child in self._children.values() if (at := child.answered_at + SILENT_SECONDS) > now]
        return max(0.0, min(times) - now)

    def _send(self, message: dict[str, Any]) -> None:
        if self._is_open:
            self._answers.add(message)


def serve(
    descriptor: int,
    read_policy: Callable[[], RequestPolicy],
    operations: Mapping[str, Operation],
    lease: LeaseView | None = None,
) -> None:
    """Serve on a socket until its other end closes; where the policy cannot be read, say so there and raise.

    The caller has imported all that the operations need: a child that became a user may be unable to read the files.

    Raises:
        CkptdError: the policy cannot be read, or must not be trusted.

    """
    for missing in confinement.list_missing():
        sys.stderr.write(f"agent: {missing}\n")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process closes the socket when it ends
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the main process says when to reload
    connection = socket.socket(fileno=descriptor)
    try:
        agent = Agent(connection, read_policy, operations, lease)
    except CkptdError as error:
        connection.sendall(json.dumps({"refused": str(error)}).encode() + b"\n")
        raise
    agent.serve()
