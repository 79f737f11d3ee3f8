"""Stops each child of an agent as soon as it belongs to this program's user, as a user can who wants to delay others.

With a number of seconds, it lets each go on after that time.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

PAUSE_SECONDS = 0.0005


@contextmanager
def stopping(agent, uids, seconds=None):
    """Have each of these users stop the children of the agent with this process id."""
    argv = [sys.executable, "-I", "-S", __file__, str(agent), *([] if seconds is None else [str(seconds)])]
    started = [
        subprocess.Popen(argv, user=uid, group=uid, extra_groups=[], stdout=subprocess.PIPE, cwd="/") for uid in uids
    ]
    try:
        for each in started:
            os.setpriority(os.PRIO_PROCESS, each.pid, -19)  # on a busy host, a child could be done before it is stopped
            assert each.stdout.readline() == b"ready\n"
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()
            each.stdout.close()


def list_children(process_id):
    try:
        return [int(each) for each in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]
    except FileNotFoundError:
        return []


def stop_all(agent, seconds):
    stopped_at = {}  # by child; one that was stopped after its answer delays nobody, so those that follow are, too
    while True:
        for child in list_children(agent):
            if child not in stopped_at and signal_child(child, signal.SIGSTOP):
                stopped_at[child] = time.monotonic()
        if seconds is not None:
            for child, at in stopped_at.items():
                if time.monotonic() - at > seconds:
                    signal_child(child, signal.SIGCONT)
        time.sleep(PAUSE_SECONDS)


def signal_child(child, number):
    """Return whether that was possible: a child is root's until it has become the user."""
    try:
        os.kill(child, number)
    except (PermissionError, ProcessLookupError):
        return False
    return True


if __name__ == "__main__":
    print("ready", flush=True)
    stop_all(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else None)
