"""Runs work in a forked child that its parent can abandon, because SIGKILL cannot end a process that a disk blocks.

The child has none of the parent's files open. A shell waits for every process that has its pipe open, so
`CKPT=$(ckptd newest DIR)` would otherwise hang as long as the file system.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from ckptd.checkpoints.agent.limited_child import end_with
from ckptd.core.model import Unknown

_REAP_SECONDS = 0.5  # after which it is left to init
_POLL_SECONDS = 0.5
_CHUNK_BYTES = 1 << 16
_WHAT = "reader"

Work = Callable[[Callable[[], None]], Any]


def run(work: Work, seconds: float) -> Any | Unknown:
    """Return the result of `work` as JSON types; Unknown if it fails, dies or hangs.

    `work` gets a function to call whenever it makes progress; it is abandoned `seconds` after the last call. Call this
    from a process with one thread.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _be_child(work, writing, parent)
    os.close(writing)
    try:
        answer = _receive(reading, child, seconds)
    finally:
        os.close(reading)
        status = _end(child)
    if answer is None:
        return Unknown(what=_WHAT, reason=f"the reader ended with status {status}")
    if isinstance(answer, Unknown):
        return answer
    return Unknown(what=_WHAT, reason=str(answer["error"])) if "error" in answer else answer["answer"]


def _be_child(work: Work, pipe: int, parent: int) -> None:
    """Run as the child; never return."""
    status = 1
    try:
        end_with(parent)
        _close_files(pipe)
        try:
            answer: dict[str, Any] = {"answer": work(lambda: _send(pipe, b"\n"))}
        except Exception as error:  # noqa: BLE001 - whatever it is, its parent shall say so
            answer = {"error": f"{type(error).__name__}: {error}"}
        _send(pipe, json.dumps(answer).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _close_files(kept: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _send(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _receive(pipe: int, child: int, seconds: float) -> dict[str, Any] | Unknown | None:
    """Return the child's answer; None if it ended without one."""
    buffer = bytearray()
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], min(left, _POLL_SECONDS))[0]:
            data = os.read(pipe, _CHUNK_BYTES)
            if not data:
                return None
            buffer += data
            deadline = time.monotonic() + seconds
            if not data.endswith(b"\n"):
                continue
            if answer := buffer.strip():
                found: dict[str, Any] = json.loads(answer)
                return found
            buffer.clear()
        elif os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return None  # what it had started may be blocked, and keep the pipe open
    return Unknown(what=_WHAT, reason=f"the file system did not answer within {seconds:g} s")


def _end(child: int) -> int | None:
    """Kill a child that still runs; return its status, or None if it cannot be killed."""
    deadline = time.monotonic() + _REAP_SECONDS
    while True:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
