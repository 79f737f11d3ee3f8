"""Examines claims in a forked child with limits, so that a hostile or broken file costs no more than its own answer.

The child answers with one JSON line for each claim, in order. Where it crashes, loops, balloons or hangs, the claim
that it was at becomes `unknown` with the reason, and a fresh child goes on with the next.
"""

import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.reader import Reader
from ckptd.checkpoints.recognise import examine_claim
from ckptd.core.model import CheckpointState, Level

_LINE_LIMIT = 4 << 20
_POLL_SECONDS = 0.2

Progress = Callable[[int], None]  # is told how many bytes were read so far


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the child may use. The seconds are for one claim, and a full check has more by its size."""

    memory_bytes: int = 2 << 30  # beyond what the parent maps already
    seconds: float = 30
    full_bytes_per_second: int = 4 << 20  # slower than this a full check is given up
    open_files: int = 64


def examine_in_child(
    claims: Sequence[Claim], reader: Reader, level: Level, *, limits: Limits, progress: Progress | None = None
) -> Iterator[Examination]:
    """Examine each claim in order, in as many children, one after the other, as it takes."""
    done = 0
    while done < len(claims):
        child = _Child(claims[done:], reader, level, limits)
        try:
            for found in child.answers(progress):
                done += 1
                yield found
        finally:
            child.end()


class _Child:
    def __init__(self, claims: Sequence[Claim], reader: Reader, level: Level, limits: Limits) -> None:
        self._claims = claims
        self._level = level
        self._limits = limits
        self._pipe, writing = os.pipe2(os.O_CLOEXEC)
        self._process_id = os.fork()
        if self._process_id == 0:
            _run(claims, reader, level, limits, writing)
        os.close(writing)
        self._status: int | None = None
        self._buffer = bytearray()

    def answers(self, progress: Progress | None) -> Iterator[Examination]:
        """Yield what it answers; where it fails, the reason as the answer for the claim it was at, and no more."""
        for claim in self._claims:
            allowed = _seconds(claim, self._level, self._limits)
            line = self._next_line(time.monotonic() + allowed, progress)
            if line is None:
                yield Examination(state=CheckpointState.UNKNOWN, reason=self._why(allowed))
                return
            try:
                yield decode(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                yield Examination(state=CheckpointState.UNKNOWN, reason=f"its reader's answer is garbled: {error!r}")
                return

    def _next_line(self, deadline: float, progress: Progress | None) -> bytes | None:
        while (end := self._buffer.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or len(self._buffer) > _LINE_LIMIT:
                return None
            ready, _, _ = select.select([self._pipe], [], [], min(left, _POLL_SECONDS))
            if progress is not None:
                progress(_bytes_read(self._process_id))
            if ready:
                data = os.read(self._pipe, 1 << 16)
                if not data:
                    _, self._status = os.waitpid(self._process_id, 0)
                    return None
                self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _why(self, allowed: float) -> str:
        if self._status is None:
            return f"its reader did not finish within {allowed:.0f} s"
        if os.WIFSIGNALED(self._status):
            name = signal.Signals(os.WTERMSIG(self._status)).name
            if name == "SIGXCPU":
                return f"its reader used more than {allowed:.0f} s of processor time"
            return f"its reader was ended by {name}"
        return f"its reader ended with status {os.WEXITSTATUS(self._status)}"

    def end(self) -> None:
        """Kill it where it still runs, and let go of it."""
        os.close(self._pipe)
        if self._status is None:
            os.kill(self._process_id, signal.SIGKILL)
            os.waitpid(self._process_id, 0)


def _run(claims: Sequence[Claim], reader: Reader, level: Level, limits: Limits, pipe: int) -> None:
    """Be the child: never return."""
    status = 1
    try:
        _limit(limits)
        for claim in claims:
            _limit_processor(_seconds(claim, level, limits))
            line = json.dumps(encode(examine_claim(claim, reader, level))).encode() + b"\n"
            while line:
                line = line[os.write(pipe, line) :]
        status = 0
    except MemoryError:
        status = 12  # ENOMEM
    finally:
        os._exit(status)


def _limit(limits: Limits) -> None:
    for kind, amount in (
        (resource.RLIMIT_AS, _mapped_bytes() + limits.memory_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)  # noqa: PLW2901 - never above it
        resource.setrlimit(kind, (amount, amount))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _limit_processor(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    wanted = int(used.ru_utime + used.ru_stime + seconds) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _mapped_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


def _bytes_read(process_id: int) -> int:
    try:
        with open(f"/proc/{process_id}/io", encoding="ascii") as file:
            return int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _seconds(claim: Claim, level: Level, limits: Limits) -> float:
    if level is not Level.FULL:
        return limits.seconds
    return limits.seconds + sum(file.size_bytes for file in claim.files) / limits.full_bytes_per_second


def encode(found: Examination) -> dict[str, Any]:
    """Turn an examination into JSON's types."""
    return {
        "state": found.state.value,
        "reason": found.reason,
        "epoch": found.epoch,
        "step": found.step,
        "is_best": found.is_best,
        "best_path": found.best_path,
        "metrics": dict(found.metrics),
        "unsafe": list(found.unsafe),
        "has_checksum": found.has_checksum,
    }


def decode(data: dict[str, Any]) -> Examination:
    """Build the examination anew.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `encode` makes.

    """
    epoch, step = data["epoch"], data["step"]
    return Examination(
        state=CheckpointState(data["state"]),
        reason=None if data["reason"] is None else str(data["reason"]),
        epoch=epoch if epoch is None or isinstance(epoch, int) else float(epoch),
        step=None if step is None else int(step),
        is_best=None if data["is_best"] is None else bool(data["is_best"]),
        best_path=None if data["best_path"] is None else str(data["best_path"]),
        metrics={str(name): float(value) for name, value in data["metrics"].items()},
        unsafe=tuple(str(name) for name in data["unsafe"]),
        has_checksum=bool(data["has_checksum"]),
    )
