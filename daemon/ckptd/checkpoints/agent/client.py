"""The main process's side of the agent: sends batches of work; missing answers become Unknown."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from ckptd.checkpoints.agent import answer_pieces, helper_process, scan_patience
from ckptd.checkpoints.agent.answer_pieces import PackedItems
from ckptd.checkpoints.agent.lease_memory import LeaseMemory
from ckptd.checkpoints.agent.request_turns import TURN_OVER
from ckptd.core.model import Unknown
from ckptd.errors import CkptdError

_GRACE_SECONDS = 10.0
_START_SECONDS = 60.0
_GATHER_SECONDS = 0.2  # after the first of several answers, for more of them
_ENDED_EARLY = "it ended before it was ready"
_REFUSED = "refused: "  # before the reason, where nothing of what is unanswered was begun


class AgentGoneError(CkptdError):
    """The agent process has ended; the daemon cannot reach users' files without it."""


class AgentRefusedError(AgentGoneError):
    """The agent does not work with this configuration."""


class AgentReloadError(CkptdError):
    """The agent does not take the new configuration, and keeps the previous one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Work for one owner: one operation on several items, all of it within `deadline_seconds`."""

    uid: int
    operation: str
    items: tuple[dict[str, Any], ...]
    deadline_seconds: float


Answer = dict[str, Any] | Unknown
NOT_REACHED = Unknown(what="batch", reason="the time of its batch was over before it was reached")


SILENCE = Unknown(what="agent", reason="it did not answer in time")


def _longest_wait(batch: Batch, count: int) -> float:
    """Return how many seconds to wait for one of `count` batches, of which the agent runs some at once."""
    stretch = scan_patience.MOST if batch.operation == scan_patience.STRETCHED else 1
    return batch.deadline_seconds * stretch * (1 + count // 8) + _GRACE_SECONDS


@dataclass(slots=True)
class _PendingBatch:
    answers: list[Answer]
    future: "Future[list[Answer]]" = field(default_factory=Future)
    reason: str | None = None  # why it was not done
    pieces: list[bytes] = field(default_factory=list)  # of the next answer, packed

    def explain(self, reason: str) -> None:
        """Assign a child's failure to the item that it worked on; later items were not reached and may be retried.

        If a child ended by itself after some answers, the next item caused it. If its turn was over, none did. A
        refusal is the answer for all that is left: the same request would be refused again.
        """
        silent = [index for index, answer in enumerate(self.answers) if answer is SILENCE]
        failed_count = len(silent) if reason.startswith(_REFUSED) else int(reason != TURN_OVER)
        for place, index in enumerate(silent):
            self.answers[index] = Unknown(what="agent", reason=reason) if place < failed_count else NOT_REACHED


def _unpack(value: object) -> list[Any]:
    if isinstance(value, PackedItems):
        return [*value]
    raise TypeError(f"{type(value).__name__} is no type of JSON")


class AgentClient:
    """Starts the agent and sends it requests. Thread-safe."""

    def __init__(self, module: str, arguments: Sequence[str] = (), lease: LeaseMemory | None = None) -> None:
        """Start the module, with the descriptor of its socket as the first argument and these after it.

        With `lease`, it inherits that descriptor, too.
        """
        ours, theirs = socket.socketpair()
        self._connection = ours
        self._lock = threading.Lock()  # of what is pending: never held while anything is sent
        self._sending = threading.Lock()
        self._pending: dict[int, _PendingBatch] = {}
        self._next_id = 1
        self._is_gone = False
        self._lease = lease
        self._begun: Future[str | None] = Future()  # why it refused to work, None: it works
        self._process = subprocess.Popen(  # noqa: S603 - this very program
            # -P: import nothing from the current directory
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
            pass_fds=[theirs.fileno(), *([] if lease is None else [lease.descriptor])],
        )
        theirs.close()
        if lease is not None:
            lease.close()
        self._thread = threading.Thread(target=self._receive, name="agent-client", daemon=True)
        self._thread.start()

    @property
    def is_gone(self) -> bool:
        return self._is_gone

    def run(self, batches: Sequence[Batch]) -> list[list[Answer]]:
        """Return the answers of every batch, in order; a missing one is Unknown with the reason.

        Raises:
            AgentGoneError: the agent has ended.

        """
        pending = [self._submit(batch) for batch in batches]
        results: list[list[Answer]] = []
        for batch, waiting in zip(batches, pending, strict=True):
            try:
                results.append(waiting.future.result(timeout=_longest_wait(batch, len(batches))))
            except TimeoutError:
                results.append(list(waiting.answers))
        return results

    def run_as_answered(self, batches: Sequence[Batch]) -> Iterator[list[tuple[int, list[Answer]]]]:
        """Yield the answers of batches with their places, a few at a time, as soon as these are complete.

        In the end come those that are not, as in `run`.

        Raises:
            AgentGoneError: the agent has ended.

        """
        places = {waiting.future: (place, waiting) for place, waiting in enumerate(map(self._submit, batches))}
        over_at = time.monotonic() + max((_longest_wait(each, len(batches)) for each in batches), default=0.0)
        left = set(places)
        while left:
            done, _ = wait(left, timeout=max(over_at - time.monotonic(), 0.0), return_when=FIRST_COMPLETED)
            if done:
                done, _ = wait(left, timeout=_GATHER_SECONDS, return_when=ALL_COMPLETED)
            else:
                done = set(left)
            left -= done
            found = [places[future] for future in done]
            yield [(place, list(waiting.answers)) for place, waiting in found]

    def wait_until_ready(self) -> None:
        """Wait until the agent has read its configuration.

        Raises:
            AgentRefusedError: it refuses to work, with the reason.
            AgentGoneError: it has ended, or is not ready in time.

        """
        try:
            reason = self._begun.result(timeout=_START_SECONDS)
        except TimeoutError:
            raise AgentGoneError(f"the agent does not start: it was not ready after {_START_SECONDS:g} s") from None
        if reason is not None:
            kind = AgentGoneError if reason == _ENDED_EARLY else AgentRefusedError
            raise kind(f"the agent does not start: {reason}")

    def reload(self) -> None:
        """Have the agent read its configuration again.

        Raises:
            AgentGoneError: the agent has ended.
            AgentReloadError: it refuses the new configuration, and keeps the previous one.

        """
        waiting = _PendingBatch(answers=[SILENCE])
        self._send(waiting, {"reload": True})
        try:
            waiting.future.result(timeout=_START_SECONDS)
        except TimeoutError:
            raise AgentReloadError(f"the agent did not reload within {_START_SECONDS:g} s") from None
        if waiting.reason is not None:
            raise AgentReloadError(f"the agent refuses the configuration: {waiting.reason}")

    def ping(self) -> None:
        """Wait until the agent answers, for as long as that takes.

        Raises:
            AgentGoneError: the agent has ended.

        """
        waiting = _PendingBatch(answers=[])
        self._send(waiting, {"ping": True})
        waiting.future.result()

    def show_lease(self, valid_until: float) -> None:
        """Show an agent that was started with a lease until when it may act; this never waits for it."""
        if self._lease is not None:
            self._lease.write(valid_until)

    def close(self) -> None:
        """End the agent and its children."""
        helper_process.end(self._process, self._connection)

    def _submit(self, batch: Batch) -> _PendingBatch:
        waiting = _PendingBatch(answers=[SILENCE] * len(batch.items))
        request = {
            "uid": batch.uid,
            "operation": batch.operation,
            "items": batch.items,
            "deadline_seconds": batch.deadline_seconds,
        }
        self._send(waiting, request)
        return waiting

    def _send(self, waiting: _PendingBatch, request: dict[str, Any]) -> None:
        with self._lock:
            if self._is_gone:
                raise AgentGoneError(f"the agent has ended{self._describe_refusal()}")
            request_id = self._next_id
            self._next_id += 1
            self._pending[request_id] = waiting
        # an agent that waits for its answers to be read accepts no request: the reading thread must not wait here
        try:
            with self._sending:  # one at a time in memory, too
                line = json.dumps({"id": request_id, **request}, default=_unpack).encode() + b"\n"
                self._connection.sendall(line)
        except OSError as error:  # it has ended, which the reading thread has yet to see
            with self._lock:
                self._pending.pop(request_id, None)
            raise AgentGoneError("the agent has ended") from error

    def _describe_refusal(self) -> str:
        refusal = self._begun.result() if self._begun.done() else None
        return f": {refusal}" if refusal else ""

    def _receive(self) -> None:
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    if line.startswith(answer_pieces.MARK):
                        self._keep_piece(line)
                    else:
                        self._accept(json.loads(line))
        except (OSError, ValueError):
            pass  # the connection was closed under the reader: that is how it ends
        with self._lock:
            self._is_gone = True
            left, self._pending = self._pending, {}
        if not self._begun.done():
            self._begun.set_result(_ENDED_EARLY)
        for waiting in left.values():
            waiting.reason = "the agent has ended"
            waiting.future.set_result(waiting.answers)

    def _keep_piece(self, line: bytes) -> None:
        request_id, piece = answer_pieces.read_address(line)
        with self._lock:
            waiting = self._pending.get(request_id)
        if waiting is not None:
            waiting.pieces.append(answer_pieces.pack(piece))

    def _accept(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self._begun.set_result(message.get("refused"))
            return
        with self._lock:
            waiting = self._pending.get(message["id"])
            if waiting is None:
                return
            if message.get("done"):
                del self._pending[message["id"]]
        if message.get("done"):
            if message["reason"]:
                waiting.reason = message["reason"]
                waiting.explain(message["reason"])
            waiting.future.set_result(waiting.answers)
            return
        result = message["result"]
        pieces, waiting.pieces = waiting.pieces, []
        if pieces:
            result[answer_pieces.SPLIT] = PackedItems(pieces, result.get(answer_pieces.SPLIT))
        if "unknown" in result:
            result = Unknown(what="directory", reason=str(result["unknown"]))
        if 0 <= message["index"] < len(waiting.answers):  # a child may have been subverted by what it read
            waiting.answers[message["index"]] = result
