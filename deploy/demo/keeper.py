"""Takes a private cluster down, however the process that started it ended.

A keeper runs beside each cluster in a session of its own and waits for its standard input to close: that is
what happens when the starter is done, is interrupted or is killed. It holds a lock for as long as it lives, so
that a cluster whose keeper was killed too is recognised and swept away by the next one.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from demo import processes, users

TOP = Path("/tmp")
NAME_PREFIX = "ckptd-cluster-"
_YOUNG_SECONDS = 60


def record_users(directory: Path, named: dict[str, int]) -> None:
    """Record the users (name to uid) that must go with the cluster."""
    temporary = directory / "users.json.tmp"
    temporary.write_text(json.dumps(named))
    temporary.replace(directory / "users.json")


def _read_users(directory: Path) -> dict[str, int]:
    try:
        return {str(name): int(uid) for name, uid in json.loads((directory / "users.json").read_text()).items()}
    except FileNotFoundError:
        return {}


def tear_down(directory: Path) -> list[int]:
    """End the cluster's processes, remove its users and its directory; return the pids that would not end."""
    named = _read_users(directory)
    left = processes.kill_processes(lambda: processes.list_processes(directory, named.values()))
    for name in named:
        users.remove_user(name)
    shutil.rmtree(directory, ignore_errors=True)
    return left


def start(directory: Path) -> "subprocess.Popen[bytes]":
    """Start the keeper of a cluster. Closing its standard input tells it to take the cluster down."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo.keeper", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        start_new_session=True,
    )


def sweep() -> None:
    """Take down what killed keepers left behind."""
    for directory in TOP.glob(f"{NAME_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            status = directory.lstat()
            # Another user could put a directory of this name here to have root remove users of its choice.
            if (
                status.st_uid != os.geteuid()
                or directory.is_symlink()
                or time.time() - status.st_ctime < _YOUNG_SECONDS
            ):
                continue
            with _lock(directory) as is_mine:
                if is_mine:
                    tear_down(directory)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[bool]:
    with (directory / "keeper.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def main(directory: Path) -> int:
    """Wait until the starter is gone, then take the cluster down."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with _lock(directory) as is_mine:
        if not is_mine:
            return 1
        sys.stdin.buffer.read()
        left = tear_down(directory)
    if left:
        print(f"the processes {left} of the private cluster would not end.", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
