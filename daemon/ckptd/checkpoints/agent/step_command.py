"""Runs a command that starts a step in a user's job, in the agent's child that has become that user.

What it prints may be hostile and without end, so it is read up to a limit; and it ends within a given time.
"""

import os
import selectors
import signal
import subprocess
import time
from typing import IO, NamedTuple

from ckptd.checkpoints.agent import confinement
from ckptd.checkpoints.agent.job_commands import CommandError, make_environment

MAX_ERROR_BYTES = 16_384
END_SECONDS = 3.0  # that srun has to end the step before it is killed; slurmctld then ends it


class FinishedStep(NamedTuple):
    """What a step printed, and the seconds that it took."""

    output: bytes
    seconds: float


class StepError(CommandError):
    """A step did not do its work."""

    def __init__(self, reason: str, seconds: float) -> None:
        """Say why, and how long it took nevertheless."""
        super().__init__(reason)
        self.seconds = seconds


def run_step(argv: list[str], deadline_seconds: float, max_bytes: int) -> FinishedStep:
    """Run srun to its end.

    Raises:
        StepError: it fails, takes too long, or prints too much.

    """
    began = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603 - the command line of the site's policy, as the job's own user
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=make_environment(),
            cwd="/",
            start_new_session=True,
            preexec_fn=confinement.hold_in_group,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        raise StepError(f"{argv[0]}: {error.strerror}", 0.0) from error
    with process:
        try:
            output, errors = _read(process, began + deadline_seconds, max_bytes)
        finally:
            _end(process)
        seconds = time.monotonic() - began
    if output is None:
        raise StepError(f"the step did not end within {deadline_seconds:g} s", seconds)
    if len(output) > max_bytes:
        raise StepError(f"the step printed more than {max_bytes} bytes", seconds)
    if process.returncode != 0:
        said = errors.decode("utf-8", "replace").strip()
        raise StepError(f"srun ended with {process.returncode}: {said[-500:]}", seconds)
    return FinishedStep(output, seconds)


def _read(process: "subprocess.Popen[bytes]", until: float, max_bytes: int) -> tuple[bytes | None, bytes]:
    """Read both outputs until they end, the time is over (None), or there is more than allowed."""
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, target in ((process.stdout, output), (process.stderr, errors)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, target)
        while selector.get_map():
            ready = selector.select(timeout=max(0.0, until - time.monotonic()))
            if not ready and time.monotonic() >= until:
                return None, bytes(errors)
            for key, _ in ready:
                pipe = _as_file(key.fileobj)
                data = os.read(pipe.fileno(), 1 << 16)
                if not data:
                    selector.unregister(pipe)
                key.data.extend(data)
                if len(output) > max_bytes:
                    return bytes(output), bytes(errors)
                del errors[:-MAX_ERROR_BYTES]
    try:
        process.wait(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None, bytes(errors)
    return bytes(output), bytes(errors)


def _as_file(given: object) -> IO[bytes]:
    assert not isinstance(given, int)
    return given  # type: ignore[return-value]  # the pipe that was registered


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End srun, which ends its step; one that does not answer is killed."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
