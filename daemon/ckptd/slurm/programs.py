"""Runs Slurm's programs with a pinned environment and a time limit.

Output is passed on while it arrives, because a full queue is tens of megabytes. A program that is missing, hangs or
fails gives an Unknown and never an exception.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from ckptd.core.model import Unknown
from ckptd.slurm import failure_reasons

STDERR_BYTES = 64 * 1024
_PINNED = {
    "LC_ALL": "C",
    "LANG": "C",
    "TZ": "UTC",
    "SLURM_TIME_FORMAT": "%s",
    "SLURM_BITSTR_LEN": "0",  # the whole expression for an array's tasks, not only 64 letters
    "SQUEUE_ARRAY_UNIQUE": "1",
}
CHUNK_BYTES = 256 * 1024

# These variables change what the programs list or how they print it.
_DROPPED_PREFIXES = ("SQUEUE_", "SACCT_", "SLURM_DEBUG")
_DROPPED = frozenset(
    {"SLURM_BITSTR_LEN", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_FEDERATION", "SLURM_JSON", "SLURM_YAML"}
)


def pinned_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that change output; times are printed as seconds since the epoch."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES) and not name.startswith("LC_")
    }
    return {**kept, **_PINNED}


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended."""

    returncode: int
    stderr: str

    @property
    def is_clean(self) -> bool:
        return self.returncode == 0 and not failure_reasons.has_error(self.stderr)


@dataclass(frozen=True, kw_only=True)
class Programs:
    """The environment to run Slurm's programs in, and their limits of time and output."""

    timeout_seconds: float = 30.0
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    limit_bytes: int = 64 * 1024 * 1024  # maximum output that `read` collects

    def stream(self, what: str, argv: Sequence[str], consume: Callable[[bytes], object]) -> ProgramResult | Unknown:
        """Run a program and pass its stdout to `consume` in pieces; Unknown if it is missing or exceeds its time."""
        environment = pinned_environment(self.environment)
        try:
            process = subprocess.Popen(  # noqa: S603  # arguments are a list, built from constants and integers
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            return failure_reasons.make_unknown(
                what, failure_reasons.FailureReason.MISSING, f"{argv[0]} is not on PATH"
            )
        except OSError as error:
            return failure_reasons.make_unknown(
                what, failure_reasons.FailureReason.FAILED, f"{argv[0]}: {error.strerror}"
            )
        with process:
            try:
                stderr = _pump(process, consume, time.monotonic() + self.timeout_seconds)
                if stderr is not None:
                    return ProgramResult(process.wait(), stderr.decode("utf-8", "replace"))
            finally:
                _end(process)
        return failure_reasons.make_unknown(
            what, failure_reasons.FailureReason.TIMED_OUT, f"{argv[0]} took over {self.timeout_seconds:g} s"
        )

    def read(self, what: str, argv: Sequence[str]) -> tuple[str, ProgramResult] | Unknown:
        """Run a program and return its whole stdout; bytes that are not UTF-8 become lone surrogates."""
        pieces: list[bytes] = []
        size = 0

        def collect(piece: bytes) -> None:
            nonlocal size
            size += len(piece)
            if size <= self.limit_bytes:
                pieces.append(piece)

        finished = self.stream(what, argv, collect)
        if isinstance(finished, Unknown):
            return finished
        if size > self.limit_bytes:
            return failure_reasons.make_unknown(
                what, failure_reasons.FailureReason.GARBLED, f"{argv[0]} printed {size} bytes"
            )
        return b"".join(pieces).decode("utf-8", "surrogateescape"), finished


def _pump(process: subprocess.Popen[bytes], consume: Callable[[bytes], object], deadline: float) -> bytes | None:
    """Pass stdout to `consume` and return stderr; None if the deadline passed."""
    assert process.stdout is not None
    assert process.stderr is not None
    stderr = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            for key, _ in ready:
                pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
                piece = os.read(pipe.fileno(), CHUNK_BYTES)
                if not piece:
                    selector.unregister(pipe)
                elif pipe is process.stdout:
                    consume(piece)
                elif len(stderr) < STDERR_BYTES:
                    stderr += piece
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return bytes(stderr)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and its children if they still run."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
