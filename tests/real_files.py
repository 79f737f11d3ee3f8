"""Copies of the small real files under tests/data/formats, to be damaged by a test."""

import shutil
from pathlib import Path

FORMATS = Path(__file__).parent / "data" / "formats"


def copy_of(path, target):
    """Copy a file or directory of tests/data/formats into the directory `target` under its own name."""
    source = FORMATS / path
    if source.is_dir():
        return Path(shutil.copytree(source, target / source.name))
    return Path(shutil.copy(source, target))
