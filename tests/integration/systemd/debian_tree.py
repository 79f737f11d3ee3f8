"""A small Debian for a container, made from the packages that this host takes its own from, and kept for the next time.

To make one costs twenty seconds of CPU time. Nothing writes to it: each container has an overlay of its own. A host
whose packages have other versions by now makes a new one, which replaces the old one.
"""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from demo.patience import allow

KEPT = Path("/var/cache/ckptd-tests")
PACKAGES = "systemd,systemd-sysv,dbus,procps,python3,python3-venv,iproute2,munge,slurmctld,slurmd,slurm-client"
# what nobody reads in a container takes a third of the files
WITHOUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@contextmanager
def lend():
    """Give the directory of the tree, made where there is none for these packages, to one container at a time."""
    KEPT.mkdir(mode=0o700, parents=True, exist_ok=True)  # its programs are root's alone
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tree = KEPT / f"debian-{_hash_versions()}"
        if not tree.exists():
            _make(tree)
        yield tree


def _make(tree):
    for old in KEPT.glob("debian-*"):
        shutil.rmtree(old)
    for unfinished in KEPT.glob("making-*"):
        shutil.rmtree(unfinished)
    place = Path(tempfile.mkdtemp(prefix="making-", dir=KEPT))
    sources = [*Path("/etc/apt").glob("sources.list"), *Path("/etc/apt/sources.list.d").glob("*.sources")]
    options = ["--quiet", "--variant=minbase", f"--include={PACKAGES}", "--dpkgopt=force-unsafe-io"]
    options += [f"--dpkgopt=path-exclude={paths}" for paths in WITHOUT]
    subprocess.run(["mmdebstrap", *options, "bookworm", place / "root", *sources], check=True, timeout=allow(280))
    (place / "root").rename(tree)
    place.rmdir()


def _hash_versions():
    """Tell packages of other versions, and another list of them, apart by a name."""
    form = "-f=${Package} ${Version}\n"
    argv = ["dpkg-query", "--show", form, *PACKAGES.split(",")]
    found = subprocess.run(argv, capture_output=True, check=False)  # it complains of what this host does not have
    assert found.stdout, found.stderr
    return hashlib.sha256(f"{PACKAGES} {WITHOUT}\n".encode() + found.stdout).hexdigest()[:16]
