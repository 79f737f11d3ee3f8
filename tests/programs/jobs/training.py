"""What the trainings in Python share: their settings, what they mark, and how they die in the middle of a save."""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

EPOCH_SECONDS = float(os.environ["SAVE_SECONDS"])
SAVES = int(os.environ.get("SAVES") or 1_000_000)
DIRECTORY = Path("ckpt")
MODE = sys.argv[1]  # resume, older or fresh
_LARGEST_TORN = int(os.environ["LARGEST_TORN"])
_KILL_NOTE = Path(os.environ["TRUTH"] + ".kill")  # the next save is cut short when this is there


def mark(event, **fields):
    words = [f"{name}={value}" for name, value in fields.items()]
    subprocess.run([f"{os.environ['JOBS']}/mark", event, *words], check=True)


def mark_loaded(path, step):
    """Mark what was loaded; None: nothing."""
    mark("program", pid=os.getpid())
    mark("loaded", path=path or "none", step=step)


def mark_saved(path, step, size):
    """Mark a complete save, its bytes, and those that are free after it."""
    disk = os.statvfs(DIRECTORY)
    mark("saved", path=path, step=step, size=size, free=disk.f_bavail * disk.f_frsize)


def mark_failed(path, step):
    """Mark a save that left a file cut short."""
    mark("torn", path=path, step=step)


def choose(pattern):
    """Return the file to resume from, by the number in its name; None: start from nothing."""
    found = sorted(DIRECTORY.glob(pattern), key=lambda path: int(re.findall(r"\d+", path.name)[-1]))
    complete = [path for path in found if path.stat().st_size > _LARGEST_TORN]
    if MODE == "resume":
        return complete[-1] if complete else None
    if MODE == "older":
        return complete[-3]
    return None


def die_if_told(path, step):
    """Let the kernel kill this process in the middle of the save that follows, where the driver asks for it."""
    if _KILL_NOTE.exists():
        mark_failed(path, step)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_TORN, _LARGEST_TORN))
