"""Runs work on users' files in a forked child with limits, so that a hostile file affects only its own result.

The child answers in JSON, lists of values in lines, and writes the number of its current step to memory shared with its
parent. If it crashes, loops, hangs or exceeds its memory, the parent knows the step and the reason, and starts another
child.
"""

import contextlib
import ctypes
import gc
import json
import mmap
import os
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from ckptd.checkpoints.agent.confinement import confine_parser
from ckptd.checkpoints.agent.line_buffer import LineBuffer

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl
_LINE_LIMIT = 64 << 20
_POLL_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16
_HELD_SECONDS = 0.05
_MOST_ROWS = 256  # of numbers in one answer
_STEP = struct.Struct("=q")
RESERVE_FACTOR = 3  # what follows reading takes 1.5 to 2.5 times as long as all before: both go through all files
_NOT_CONFINED = 77  # exit status: the kernel did not confine the child, which then reads nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildLimits:
    """Resource limits of a child. The seconds are for one step; a full check gets more time, by its size.

    `until` is a time of the monotonic clock, after which no file is read. `keep_reserve` brings it forward for what
    follows reading, so that this is over at `over_at`. `begin_reading` puts it off if less than `least_seconds` would
    be left for reading, or less than all before has taken since `begun_at`: then most of each scan would be overhead.
    """

    memory_bytes: int = 2 << 30  # beyond what the parent maps already
    seconds: float = 30
    full_bytes_per_second: int = 4 << 20  # slower than this a full check is given up
    open_files: int = 64
    until: float | None = None
    least_seconds: float = 0.0
    begun_at: float = 0.0
    over_at: float | None = None

    def keep_reserve(self) -> "ChildLimits":
        """Return limits that leave what follows reading its time, from what all until now has taken on this host."""
        if self.until is None or self.over_at is None:
            return self
        reserve = RESERVE_FACTOR * (time.monotonic() - self.begun_at)
        return replace(self, until=min(self.until, self.over_at - reserve))

    def begin_reading(self) -> "ChildLimits":
        """Return the limits of a child that begins to read now."""
        now = time.monotonic()
        before = 0.0 if self.over_at is None else min(now, self.over_at) - self.begun_at
        least = now + max(self.least_seconds, before)
        return self if self.until is None or self.until >= least else replace(self, until=least)

    def is_time_over(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until


class ChildReporter:
    """The child's side: reports its current step, and sends answers in groups."""

    def __init__(self, pipe: int, shared: mmap.mmap) -> None:
        self._pipe = pipe
        self._shared = shared
        self._held = bytearray()
        self._rows: list[tuple[float | None, ...]] = []
        self._sent_at = time.monotonic()
        self._limited_at, self._seconds = 0.0, 0.0

    def begin(self, step: int, seconds: float) -> None:
        """Report the step that begins, and how long it may take."""
        _STEP.pack_into(self._shared, 0, step)
        now = time.monotonic()
        if now - self._limited_at > 1 or seconds != self._seconds:
            self._limited_at, self._seconds = now, seconds
            _limit_processor(seconds + 1)
        if (self._held or self._rows) and now - self._sent_at > _HELD_SECONDS:
            self.send()

    def answer(self, value: Any) -> None:
        """Answer with a value of JSON's types."""
        if self._rows:
            self._end_rows()
        self._held += (b"," if self._held else b"[") + json.dumps(value).encode()
        if len(self._held) >= _CHUNK_BYTES:
            self.send()

    def answer_row(self, *numbers: float | None) -> None:
        """Answer with a few numbers; those that follow one another are sent as one answer, a list of columns."""
        self._rows.append(numbers)
        if len(self._rows) >= _MOST_ROWS:
            self._end_rows()

    def _end_rows(self) -> None:
        columns, self._rows = list(zip(*self._rows, strict=True)), []
        self.answer(columns)

    def send(self) -> None:
        """Send the collected answers."""
        if self._rows:
            self._end_rows()
        if self._held:
            self._held += b"]\n"
        while self._held:
            del self._held[: os.write(self._pipe, self._held)]
        self._sent_at = time.monotonic()


Work = Callable[[ChildReporter], None]


class LimitedChild:
    """One running child. Afterwards, `failure` is the reason if it failed, and `step` the step where it failed."""

    def __init__(
        self,
        work: Work,
        limits: ChildLimits,
        allowed: Callable[[int], float],
        directories: Sequence[int],
        pipe: int | None = None,
    ) -> None:
        """Fork the child, which can read below these open directories only; all else that is open is closed in it.

        `pipe` stays open in it, too.

        `allowed` returns how many seconds a step may take.
        """
        self.failure: str | None = None
        self._allowed = allowed
        self._status: int | None = None
        self._buffer = LineBuffer()
        self._shared = mmap.mmap(-1, _STEP.size)
        _STEP.pack_into(self._shared, 0, -1)
        self._pipe, writing = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        try:
            self.process_id = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(writing)
            raise
        if self.process_id == 0:
            kept = [writing, *directories, *([] if pipe is None else [pipe])]
            _run(work, limits, kept, self._shared, parent, directories)
        os.close(writing)

    @property
    def step(self) -> int:
        """The child's current or last step, as the child reports it, so it cannot be trusted."""
        return int(_STEP.unpack_from(self._shared)[0])

    def answers(self, watch: Callable[[], None] | None = None) -> Iterator[Any]:
        """Yield the answers as they arrive, until the child ends or fails; call `watch` periodically."""
        while (lines := self._next_lines(watch)) is not None:
            for line in lines:
                try:
                    answers = json.loads(line.decode())  # with bytes, the module would look for their encoding first
                except (ValueError, RecursionError) as error:
                    self.fail(error)
                    return
                if not isinstance(answers, list):
                    self.fail(ValueError("a line that is no list"))
                    return
                yield from answers

    def fail(self, error: Exception) -> None:
        """Kill the child, because its answer is malformed."""
        self.failure = f"its reader's answer is garbled: {error!r}"

    def _next_lines(self, watch: Callable[[], None] | None) -> list[bytes] | None:
        at, began = self.step, time.monotonic()
        while True:
            ready, _, _ = select.select([self._pipe], [], [], _POLL_SECONDS)
            if watch is not None:
                watch()
            if ready:
                data = os.read(self._pipe, _CHUNK_BYTES)
                if not data:
                    self._end()
                    return None
                if lines := self._buffer.take_lines(data):
                    return lines
                if len(self._buffer) > _LINE_LIMIT:
                    self.failure = "its reader's answer is too long"
                    return None
            now = time.monotonic()
            if self.step != at:
                at, began = self.step, now
            elif now - began > self._allowed(at):
                self.failure = f"its reader did not finish within {self._allowed(at):.0f} s"
                return None

    def _end(self) -> None:
        os.kill(self.process_id, signal.SIGKILL)  # it may have closed the pipe only; the status of an end stays
        _, self._status = os.waitpid(self.process_id, 0)
        if os.WIFSIGNALED(self._status):
            name = _name_signal(os.WTERMSIG(self._status))
            self.failure = f"its reader was ended by {name}"
            if name == "SIGXCPU":
                self.failure = f"its reader used more than {self._allowed(self.step):.0f} s of processor time"
        elif os.WEXITSTATUS(self._status) == _NOT_CONFINED:
            self.failure = "the kernel refused to confine its reader"
        elif self._status:
            self.failure = f"its reader ended with status {os.WEXITSTATUS(self._status)}"

    def close(self) -> None:
        """Kill the child if it still runs, and release its resources."""
        os.close(self._pipe)
        if self._status is None:
            os.kill(self.process_id, signal.SIGKILL)
            os.waitpid(self.process_id, 0)
        self._shared.close()

    def read_bytes_read(self) -> int:
        """Return how many bytes the child has read so far; 0 if unknown."""
        try:
            with open(f"/proc/{self.process_id}/io", encoding="ascii") as file:
                return int(file.readline().split()[1])
        except (OSError, ValueError, IndexError):
            return 0


class RunningChild:
    """A child and its answers, so that several functions in turn can read them; as a context, it closes the child."""

    is_shared = False  # whether it reads several directories: its failure may be the fault of another one

    def __init__(self, child: LimitedChild, watch: Callable[[], None] | None = None) -> None:
        self.child = child
        self.answers = child.answers(watch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()


def _run(
    work: Work, limits: ChildLimits, kept: Sequence[int], shared: mmap.mmap, parent: int, directories: Sequence[int]
) -> None:
    """Run as the child, with these descriptors, of which the first is the pipe for answers; never return."""
    status = 1
    try:
        _close_others(kept)
        _limit(limits)
        end_with(parent)
        gc.freeze()  # what the parent made is not gone through, again and again
        gc.enable()
        teller = ChildReporter(kept[0], shared)
        status = _NOT_CONFINED
        confine_parser(directories)
        status = 1
        work(teller)
        teller.send()
        status = 0
    except MemoryError:
        status = 12  # ENOMEM
    finally:
        os._exit(status)


def _close_others(kept: Collection[int]) -> None:
    """Close what the parent has open: its answers, for example, are none of the child's business."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in kept:
            with contextlib.suppress(OSError):  # that of this listing
                os.close(descriptor)


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name there
        return f"signal {number}"


def end_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends, because the parent may be killed at its deadline."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _limit(limits: ChildLimits) -> None:
    for kind, amount in (
        (resource.RLIMIT_AS, read_mapped_bytes() + limits.memory_bytes),
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


def read_mapped_bytes() -> int:
    """Return how much memory this process maps: a limit of its address space counts from there."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30
