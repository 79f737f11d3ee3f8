"""Small files are read at once: a directory may have 100,000. What changes meanwhile is read as a stream."""

import io
import os

import pytest

from ckptd.checkpoints.scanning.reader import BUFFER_BYTES, NotRegularError, Reader

SIZES = [0, 1, 120, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 5 * BUFFER_BYTES]


def list_descriptors():
    return sorted(os.listdir("/proc/self/fd"))


@pytest.fixture
def reader(tmp_path):
    (tmp_path / "below").mkdir()
    with Reader(tmp_path) as reader:
        yield reader


@pytest.mark.parametrize("name", ["a.pt", "below/a.pt"])
@pytest.mark.parametrize("size", SIZES)
def test_a_file_of_any_size_is_read_whole_and_anywhere(tmp_path, reader, name, size):
    data = os.urandom(size)
    (tmp_path / name).write_bytes(data)
    before = list_descriptors()
    with reader.open(name) as file:
        assert isinstance(file, io.BytesIO) is (size <= BUFFER_BYTES)
        assert file.read() == data
        file.seek(size // 2)
        assert file.read(10) == data[size // 2 :][:10]
    assert reader.read_head(name, 100) == data[:100]
    assert list_descriptors() == before


@pytest.mark.parametrize("way", ["open", "open_descriptor"])
def test_no_place_lies_before_the_beginning_of_a_file(tmp_path, reader, way):
    """A file may have become shorter than it was when it was listed: its end is not looked for at its beginning."""
    (tmp_path / "a.pt").write_bytes(b"12345")
    with getattr(reader, way)("a.pt") as file:
        assert [file.seek(-5, 2), file.read(2), file.seek(-2, 1), file.seek(3), file.seek(9, 2)] == [0, b"12", 0, 3, 14]
        file.seek(1)
        for offset, whence in ((-6, 2), (-2, 1), (-1, 0)):
            with pytest.raises(OSError, match="Invalid argument"):
                file.seek(offset, whence)
        assert file.read() == b"2345"


def test_a_file_that_grows_while_it_is_opened_is_read_whole(tmp_path, reader, monkeypatch):
    path, status = tmp_path / "a.pt", os.fstat
    path.write_bytes(b"begun")

    def grow(descriptor):
        found = status(descriptor)
        path.write_bytes(b"begun and ended")
        return found

    monkeypatch.setattr(os, "fstat", grow)
    with reader.open("a.pt") as file:
        assert file.read() == b"begun and ended"


def test_a_file_system_that_returns_less_than_there_is_is_asked_again(tmp_path, reader, monkeypatch):
    (tmp_path / "a.pt").write_bytes(b"x" * 1000)
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, count: read(descriptor, min(count, 100)))
    with reader.open("a.pt") as file:
        assert file.read() == b"x" * 1000


def test_a_small_file_that_cannot_be_read_leaves_nothing_open(tmp_path, reader, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    (tmp_path / "a.pt").touch()
    before = list_descriptors()
    monkeypatch.setattr(os, "read", fail)
    with pytest.raises(OSError, match="Input/output"):
        reader.open("a.pt")
    assert list_descriptors() == before


def test_a_descriptor_is_there_for_those_who_need_it(tmp_path, reader):
    (tmp_path / "a.pt").write_bytes(b"abc")
    with reader.open_descriptor("a.pt") as file:
        assert os.read(file.fileno(), 10) == b"abc"


@pytest.mark.parametrize("path", ["", ".", "..", "a/..", "../a.pt", "a/../a.pt", "below/../a.pt", "below/", "below/."])
@pytest.mark.parametrize("way", ["open", "open_descriptor"])
def test_what_is_not_below_is_not_opened(tmp_path, reader, path, way):
    (tmp_path / "a.pt").touch()
    before = list_descriptors()
    with pytest.raises(NotRegularError):
        getattr(reader, way)(path)
    assert list_descriptors() == before


@pytest.mark.parametrize("way", ["open", "open_descriptor"])
def test_no_link_and_no_pipe_is_opened(tmp_path, reader, way):
    (tmp_path / "a.pt").touch()
    (tmp_path / "link.pt").symlink_to("a.pt")
    (tmp_path / "linked").symlink_to("below")
    os.mkfifo(tmp_path / "pipe.pt")
    before = list_descriptors()
    for name in ("link.pt", "linked/a.pt", "pipe.pt", "below"):
        with pytest.raises((NotRegularError, OSError)):
            getattr(reader, way)(name)
    assert list_descriptors() == before
