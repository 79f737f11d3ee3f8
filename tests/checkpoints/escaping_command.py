"""A quota command that leaves processes behind in each way that a program has: a program, run as the quota's owner.

Each process that it leaves writes its number into a directory, and stays longer than any test.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

SECONDS = 120


def fork():
    """Return whether this is the child."""
    return os.fork() == 0


def stay(folder):
    os.closerange(0, 3)
    Path(folder, str(os.getpid())).touch()
    time.sleep(SECONDS)


def leave_double_forked(folder):
    """As a daemon starts."""
    if fork():
        os.setsid()
        if fork():
            stay(folder)
        os._exit(0)
    os.wait()


def leave_in_own_group(folder):
    if fork():
        os.setpgid(0, 0)
        stay(folder)


def leave_running_away(folder):
    """A process that forks and ends, again and again, in new sessions: who looks for it finds one that has ended."""
    if fork():
        os.closerange(0, 3)
        Path(folder, str(os.getpid())).touch()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if not fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.001)  # what looks for it takes longer, and other tests get some processor time


def leave_hidden(folder):
    """One that ignores what can be ignored."""
    if fork():
        for number in (1, 2, 3, 15):
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_IGN)
        os.setsid()
        stay(folder)


WAYS = {
    "double-forked": leave_double_forked,
    "own-group": leave_in_own_group,
    "running-away": leave_running_away,
    "hidden": leave_hidden,
}


if __name__ == "__main__":
    way, how, where = sys.argv[1:]
    WAYS[way](where)
    Path(where, f"begun-{os.getuid()}").touch()
    if how == "hangs":
        time.sleep(SECONDS)
    print("1 2")
