"""A small file system that a test can fill."""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from demo.patience import allow

SIZE_BYTES = 3_000_000


class FullDisk:
    """A file system of a few megabytes, which a file can fill."""

    def __init__(self, folder):
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, left_bytes=65536):
        """Leave a few pages."""
        free = os.statvfs(self.folder)
        try:
            self._ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - left_bytes))
        except OSError as error:  # a daemon took some of it in between: the disk is full
            if error.errno != errno.ENOSPC:
                raise

    def empty(self):
        self._ballast.unlink()


@contextlib.contextmanager
def mount_small_disk(size_bytes=SIZE_BYTES):
    """Mount a `FullDisk`, which is still empty; unmount it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ckptd-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", folder], check=True, timeout=allow(30))
    try:
        yield FullDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=allow(30))
        shutil.rmtree(folder, ignore_errors=True)
