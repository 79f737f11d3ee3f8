"""Copies of small real checkpoints, and what killed jobs, full disks and broken file systems do to their files."""

import shutil
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "formats"


def copy_real(name, target):
    """Copy one real checkpoint of the test data below a directory; return its new path."""
    source = DATA / name
    copy = target / source.name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    return copy


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def fill_with_zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def fill_with_text(path):
    path.write_bytes(b"Traceback (most recent call last):\n" * 50)


def lose_second_half(path):
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2].ljust(size, b"\0"))


def remove(path):
    path.unlink()


FOUND_IN_STRUCTURE = [empty, cut, fill_with_zeros, fill_with_text, remove]
