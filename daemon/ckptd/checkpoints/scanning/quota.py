"""Reads the remaining quota of a directory's owner, with `quota` or a command of the site.

It runs in the agent's child, as the owner, and says nothing of anyone else. What it prints may be anything; it is read
up to a bound and within a time, and what makes no sense is Unknown, never "no limit".
"""

import json
import os
import pwd
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import PurePosixPath

from ckptd.checkpoints.agent import confinement
from ckptd.core.model import Unknown

BUILT_IN = "quota"
TIMEOUT_SECONDS = 10.0
MAX_OUTPUT_BYTES = 64 << 10
_LARGEST = 2**63 - 1
_NO_LIMIT = frozenset({"0", "-", "none", "unlimited"})
_BLOCK_BYTES = 1024


def read_quota_left(
    command: Sequence[str], directory: PurePosixPath, mount_point: PurePosixPath
) -> int | Unknown | None:
    """Return how many more bytes this process's user may write there; None if there is no limit.

    An argument of the command that is `{user}`, `{uid}`, `{path}` or `{mount}` stands for that, and so do the variables
    CKPTD_USER, CKPTD_UID, CKPTD_PATH and CKPTD_MOUNT in its environment.
    """
    is_built_in = tuple(command) == (BUILT_IN,)
    facts = {
        "user": _user_name(),
        "uid": str(os.geteuid()),
        "path": str(directory),
        "mount": str(mount_point),
    }
    argv = [facts.get(word[1:-1], word) if word[:1] + word[-1:] == "{}" else word for word in command]
    if is_built_in:
        argv = [BUILT_IN, "--no-wrap", "--raw-grace", f"--filesystem={mount_point}"]
    output = _run(argv, {f"CKPTD_{name.upper()}": value for name, value in facts.items()})
    if isinstance(output, Unknown):
        return output
    try:
        return _parse_quota(output) if is_built_in else _parse_site(output)
    except (ValueError, RecursionError):
        return _unknown(f"{argv[0]} printed {output[:80]!r}")


def _parse_site(output: str) -> int | None:
    """Parse what a site's command prints: an object with `used_bytes` and `limit_bytes`, or the two as words.

    Raises:
        ValueError: it is neither.

    """
    text = output.strip()
    if text.startswith("{"):
        said = json.loads(text)
        used, limit = said.get("used_bytes"), said.get("limit_bytes")
        if limit is None and "limit_bytes" in said:
            return None
        words = [str(each) for each in (used, limit) if isinstance(each, int)]
    else:
        words = text.split()
    if len(words) != 2:
        raise ValueError
    used_bytes = _whole(words[0])
    return None if words[1].lower() in _NO_LIMIT else max(_whole(words[1]) - used_bytes, 0)


def _parse_quota(output: str) -> int | None:
    """Parse quota(1): a line for each file system that ends in blocks, quota, limit, grace and the same for files.

    Blocks over the quota have a star. The hard limit counts, where there is none the quota.

    Raises:
        ValueError: there are no such lines, and it does not say that there is no quota either.

    """
    found: list[int] = []
    is_listed = False
    for line in output.splitlines():
        words = line.split()
        if len(words) < 9 or not all(word.rstrip("*").isdecimal() for word in words[-8:]):
            continue
        is_listed = True
        blocks, soft, hard = (_whole(word.rstrip("*")) for word in words[-8:-5])
        if limit := hard or soft:
            found.append(max(limit - blocks, 0) * _BLOCK_BYTES)
    if not is_listed and not output.strip().endswith("none") and output.strip():
        raise ValueError
    return min(found, default=None)


def _whole(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 19 or int(word) > _LARGEST:
        raise ValueError
    return int(word)


def _run(argv: Sequence[str], facts: dict[str, str]) -> str | Unknown:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    try:
        process = subprocess.Popen(  # noqa: S603 - the site's own command, as the directory's owner
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, **facts, "LC_ALL": "C"},
            cwd="/",
            start_new_session=True,
            preexec_fn=confinement.hold_in_group,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _unknown(f"{argv[0]}: {error}")
    with process:
        try:
            output = _collect(process, time.monotonic() + TIMEOUT_SECONDS)
        finally:
            _end(process)
    if isinstance(output, Unknown):
        return output
    if process.returncode != 0 and (not output.strip() or argv[0] != BUILT_IN):  # quota(1) fails where one is exceeded
        return _unknown(f"{argv[0]} ended with {process.returncode}")
    return output


def _collect(process: subprocess.Popen[bytes], deadline: float) -> str | Unknown:
    assert process.stdout is not None
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(process.stdout.fileno(), 1 << 14)
            output += piece
            if len(output) > MAX_OUTPUT_BYTES:
                return _unknown(f"it printed more than {MAX_OUTPUT_BYTES} bytes")
            if not piece:
                break
        else:
            return _unknown(f"it took over {TIMEOUT_SECONDS:g} s")
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return _unknown(f"it took over {TIMEOUT_SECONDS:g} s")
    return output.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # also what it left behind
    except ProcessLookupError:
        return


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _unknown(reason: str) -> Unknown:
    return Unknown(what="quota", reason=reason)
