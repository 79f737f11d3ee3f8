"""Files that change while their digest is computed, by a writer that waits for just that moment."""

import mmap
import os
import threading
import time

import pytest

from ckptd.checkpoints.scanning import digest_operation
from ckptd.checkpoints.scanning.digest_operation import digest
from demo.patience import Deadline
from support.flipped_byte import flip_a_byte

WAITING, READING, CHANGED = 0, 1, 2


def append(path):
    with path.open("ab") as file:
        file.write(b"more")


def truncate(path):
    os.truncate(path, 10)


@pytest.fixture
def moment(monkeypatch):
    """Shared with the child, which waits for the change after it has read the identity for the first time."""
    shared = mmap.mmap(-1, 1)
    identify = digest_operation._identify

    def identify_and_wait(file):
        found = identify(file)
        if shared[0] == WAITING:
            shared[0] = READING
            while shared[0] != CHANGED:  # as long as the child may take for a file
                time.sleep(0.01)
        return found

    monkeypatch.setattr(digest_operation, "_identify", identify_and_wait)
    return shared


def wait_for(shared, state):
    deadline = Deadline(60)
    while shared[0] != state:
        assert not deadline.has_passed()
        time.sleep(0.01)


@pytest.mark.parametrize("change", [flip_a_byte, append, truncate], ids=lambda change: change.__name__)
def test_a_file_that_changes_while_it_is_read_has_no_digest(tmp_path, moment, change):
    path = tmp_path / "epoch_1.pt"
    path.write_bytes(bytes(100_000))

    def write():
        wait_for(moment, READING)
        change(path)
        moment[0] = CHANGED

    writer = threading.Thread(target=write)
    writer.start()
    answer = digest({"directory": str(tmp_path), "allowed_roots": ["/"], "files": [[path.name, 100_000]]})
    writer.join()
    assert answer == {"refused": "epoch_1.pt: it changed while it was read"}


def test_files_before_the_one_that_cannot_be_read_are_of_no_use(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "c").write_bytes(b"c")
    item = {"directory": str(tmp_path), "allowed_roots": ["/"], "files": [["a", 1], ["b", 1], ["c", 1]]}
    assert digest(item) == {"refused": "b: No such file or directory"}


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/etc/hostname", "", "."])
def test_no_name_leads_out_of_the_directory(tmp_path, name):
    (tmp_path / "outside").write_bytes(b"1")
    (tmp_path / "run").mkdir()
    answer = digest({"directory": str(tmp_path / "run"), "allowed_roots": [str(tmp_path)], "files": [[name, 1]]})
    assert "refused" in answer
