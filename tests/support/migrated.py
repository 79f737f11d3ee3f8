"""Records whose tables the migrations made once: to migrate each test's own costs 0.15 s of CPU time."""

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from ckptd.store.database_errors import SchemaError
from ckptd.store.store import Store

SQLITE = "sqlite:///"
_NAME = "CKPTD_TEST_TEMPLATE"  # tells the programs that a test starts, and may kill, where it is


@functools.cache
def get_template():
    """Return an empty SQLite record, migrated for the first test of this process that asks; it is to be copied."""
    if _NAME in os.environ:
        return Path(os.environ[_NAME])
    folder = tempfile.mkdtemp(prefix="ckptd-template-")
    atexit.register(shutil.rmtree, folder)
    path = Path(folder, "record.db")
    Store.open(f"{SQLITE}{path}", upgrade=True).close()
    os.environ[_NAME] = str(path)
    return path


def open_record(url):
    """Open a record as a daemon does, which makes its tables where it is new."""
    path = Path(url.removeprefix(SQLITE))
    if url.startswith(SQLITE) and not path.exists():
        shutil.copyfile(get_template(), path)
    try:
        return Store.open(url)
    except SchemaError:
        return Store.open(url, upgrade=True)
