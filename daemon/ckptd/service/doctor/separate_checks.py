"""Runs each check in a process of its own, as its account, all at once: one that hangs or crashes hides no other."""

import json
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from ckptd.config import Config
from ckptd.errors import CkptdError
from ckptd.service.accounts import has_account
from ckptd.service.doctor.findings import Account, Check, CheckResult, Verdict, error
from ckptd.service.privileges import drop_root

_CHUNK_BYTES = 65_536
_ENDING_SECONDS = 1.0  # how long a check that is given up may take to end its programs


class CheckedTopic(NamedTuple):
    """What one check found, and as which account it ran."""

    topic: str
    account: str
    finding: CheckResult


class _Child(NamedTuple):
    check: Check
    pid: int
    pipe: int


def run_checks(checks: Sequence[Check], config: Config, timeout_seconds: float) -> Iterator[CheckedTopic]:
    """Run all checks and yield their findings in the order of the checks."""
    possible = [check for check in checks if not _lacks_account(check, config)]
    if skipped := dict.fromkeys(check.topic for check in checks if check not in possible):
        what = f"{config.service.user!r}, so nothing was checked from there: {', '.join(skipped)}"
        yield CheckedTopic("account", "root", error(f"there is no account {what}", "create it and run this again"))
    children = [_start(check, config) for check in possible]
    deadline = time.monotonic() + timeout_seconds
    for child in children:
        output = _read(child, deadline)
        for finding in _parse(output, timeout_seconds):
            yield CheckedTopic(child.check.topic, _name_account(child.check, config), finding)


def _lacks_account(check: Check, config: Config) -> bool:
    """Return whether a check runs as the service's account, and this host has no such account."""
    return (
        check.account is Account.SERVICE
        and os.geteuid() == 0
        and config.service.user is not None
        and not has_account(config.service.user)
    )


def _name_account(check: Check, config: Config) -> str:
    if check.account is Account.SERVICE and os.geteuid() == 0 and config.service.user:
        return config.service.user
    return "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"


def _start(check: Check, config: Config) -> _Child:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(check, config, writing)
    os.close(writing)
    return _Child(check, pid, reading)


def _be_child(check: Check, config: Config, pipe: int) -> NoReturn:
    """Do the child's work and exit; never return."""
    try:
        os.setpgid(0, 0)  # so that its own children end with it
        signal.signal(signal.SIGTERM, _give_up)
        found: list[CheckResult] = []
        try:
            if check.account is Account.SERVICE and config.service.user:
                drop_root(config.service.user)
            found.extend(check.run(config))
        except CkptdError as failure:
            found.append(error(str(failure), "see the message"))
        except Exception as failure:  # noqa: BLE001 - one check must not hide the others
            found.append(error(f"the check failed: {type(failure).__name__}: {failure}", "report this as a bug"))
        with os.fdopen(pipe, "wb") as out:
            out.write(json.dumps(found).encode())
    finally:
        os._exit(0)


def _give_up(_signal: int, _frame: object) -> NoReturn:
    """End this check. Programs of Slurm have sessions of their own: whoever runs one ends it while this is raised."""
    raise SystemExit


def _read(child: _Child, deadline: float) -> bytes | None:
    """Return what a child wrote; None if it took too long."""
    pieces: list[bytes] = []
    with os.fdopen(child.pipe, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = pipe.read(_CHUNK_BYTES)
            if not piece:
                os.waitpid(child.pid, 0)
                return b"".join(pieces)
            pieces.append(piece)
        os.kill(child.pid, signal.SIGTERM)
        select.select([pipe], [], [], _ENDING_SECONDS)  # readable when it has ended
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    os.waitpid(child.pid, os.WNOHANG)  # one that hangs on a dead file system ends when that answers
    return None


def _parse(output: bytes | None, timeout_seconds: float) -> list[CheckResult]:
    if output is None:
        why = f"the check took over {timeout_seconds:g} s"
        return [error(why, "look whether a file system, a name service or a server does not answer")]
    if not output:
        return [error("the check ended without a result", "report this as a bug")]
    return [CheckResult(Verdict(verdict), text, advice) for verdict, text, advice in json.loads(output)]
