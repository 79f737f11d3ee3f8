"""Real checkpoints in real directories, children that act as another user, and what must be true afterwards."""

import os
import pickle
import shutil
import signal
import tempfile
import traceback
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from ckptd.checkpoints import trash
from ckptd.core.model import FileIdentity

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = datetime(2026, 12, 20, 12, tzinfo=UTC)
OTHER_UID = 54_321 if os.geteuid() == 0 else os.geteuid()

SHAPES = {
    "file": {"step_{n}.pt": b"weights {n}"},
    "set": {
        "ckpt-{n}.data-00000-of-00002": b"first {n}",
        "ckpt-{n}.data-00001-of-00002": b"second {n}",
        "ckpt-{n}.index": b"index {n}",
    },
    "directory": {
        "checkpoint-{n}/model.safetensors": b"model {n}",
        "checkpoint-{n}/rank/0/state.pt": b"state {n}",
        "checkpoint-{n}/trainer_state.json": b"{}",
    },
}
PATHS = {"file": "step_{n}.pt", "set": "ckpt-{n}", "directory": "checkpoint-{n}"}


@contextmanager
def scratch(uid=OTHER_UID):
    """A directory that another user may reach, with a run's directory of that user in it."""
    root = Path(tempfile.mkdtemp(prefix="ckptd-test-"))
    try:
        root.chmod(0o755)
        home = root / "home"
        home.mkdir()
        (home / "ckpts").mkdir()
        own(home, uid)
        yield home / "ckpts"
    finally:
        shutil.rmtree(root)


def own(top, uid=OTHER_UID):
    for path in (top, *top.rglob("*")):
        os.chown(path, uid, -1, follow_symlinks=False)


def write(directory, shape, n, uid=OTHER_UID):
    """Write checkpoint `n`; return its files, relative to the directory, and their bytes."""
    files = {name.format(n=n): data.replace(b"{n}", str(n).encode()) for name, data in SHAPES[shape].items()}
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    own(directory, uid)
    return files


def identity(path):
    status = os.lstat(path)
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def request(directory, shape, n, *, uid=OTHER_UID, **changes):
    names = tuple(name.format(n=n) for name in SHAPES[shape])
    facts = {
        "act_id": f"act-{n}",
        "directory": PurePosixPath(directory),
        "path": PurePosixPath(directory, PATHS[shape].format(n=n)),
        "uid": uid,
        "files": names,
        "identities": tuple(identity(directory / name) for name in names) if "identities" not in changes else (),
        "is_directory": shape == "directory",
        "reasons": ("no rule keeps it",),
        "allowed_roots": (PurePosixPath(directory).parent,),
    }
    return trash.MoveRequest(**{**facts, **changes})


def read_files(directory):
    """Every file below, the trash left out, with its bytes."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and trash.TRASH not in path.parts
    }


class Killer:
    """A step that kills its own process with -9 at one of the fault points; counts them in any case."""

    def __init__(self, at=None):
        self.at = at
        self.count = 0

    def __call__(self, _name):
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


def start_child(act, uid=OTHER_UID):
    """Run `act` in a real process as another user; return its process id and the pipe with what it returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(reading)
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                data = pickle.dumps(act())
                while data:
                    data = data[os.write(writing, data) :]
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                raise
        os._exit(1)
    os.close(writing)
    return child, reading


def in_child(act, uid=OTHER_UID):
    """Run `act` in a real process as another user; return its wait status."""
    child, reading = start_child(act, uid)
    with os.fdopen(reading, "rb") as pipe:
        pipe.read()
    return os.waitpid(child, 0)[1]


def as_user(act, uid=OTHER_UID):
    """Run `act` in a real process as another user and return what it returned."""
    child, reading = start_child(act, uid)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(data)


def is_killed(status):
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def move(asked, **options):
    """Move a checkpoint aside as its owner."""
    return as_user(lambda: trash.move_aside(asked, now=NOW, **options))


def released(held_before=LATER, now=None, **facts):
    """What may be deleted: by a person, unless an instant is given at which the daemon does it."""
    return trash.ReleaseRule(held_before, now, **facts)


def beside(directory):
    """Where the trash of a run's directory is."""
    return PurePosixPath(directory.parent / trash.TRASH)
