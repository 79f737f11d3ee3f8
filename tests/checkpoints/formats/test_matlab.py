import struct
import zlib

import h5py
import pytest

from checkpoints.formats.real_files import DATA
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level


def header(order):
    mark = b"\x00\x01IM" if order == "<" else b"\x01\x00MI"
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark


def element(order, kind, data):
    return struct.pack(order + "2I", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(order, name, value, *, count=1, dimensions=(1, 1)):
    parts = element(order, 6, struct.pack(order + "2I", 6, 0))
    parts += element(order, 5, struct.pack(order + "2i", *dimensions))
    parts += element(order, 1, name) + element(order, 9, struct.pack(order + "d", value) * count)
    return element(order, 14, parts)


def examined(directory, content, level=Level.STRUCTURE):
    (directory / "state.mat").write_bytes(content)
    return recognise(directory, level)["state.mat"]


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_are_read(tmp_path, order):
    found = examined(tmp_path, header(order) + matrix(order, b"iter", 70) + matrix(order, b"epoch", 3))
    assert (found.state, found.epoch, found.step) == (CheckpointState.COMPLETE, 3, 70)


def test_the_header_of_version_7_3_leads_to_hdf5(tmp_path):
    with h5py.File(tmp_path / "state.mat", "w", userblock_size=512) as file:
        file["iter"] = [[90.0]]
    content = (tmp_path / "state.mat").read_bytes()
    content = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + content[128:]
    found = examined(tmp_path, content)
    assert (found.format, found.state, found.step) == ("matlab", CheckpointState.COMPLETE, 90)
    assert examined(tmp_path, content[:-100]).state is CheckpointState.DAMAGED


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "ends after its header"),
        (bytes(64), "type 0"),
        (matrix("<", b"x", 1)[:-3], "left"),
        (matrix("<", b"x", 1, count=2), "16 bytes are stored for 1 numbers"),
        (matrix("<", b"x", 1, dimensions=(-1, 1)), "dimensions"),
        (matrix("<", b"x", 1, dimensions=(2**30, 2**30)), "stored for"),
        (struct.pack("<2I", 15, 2**31) + bytes(64), "left"),
        (struct.pack("<2I", 15, 12) + b"no zlib data", "compressed data are damaged"),
        (element("<", 15, zlib.compress(struct.pack("<2I", 9, 8) + bytes(8))), "type 9"),
    ],
)
def test_elements_that_do_not_hold_together_are_damage(tmp_path, body, words):
    found = examined(tmp_path, header("<") + body)
    assert found.state is CheckpointState.DAMAGED
    assert words in found.reason


def test_adler_32_finds_a_flipped_byte(tmp_path):
    whole = (DATA / "matlab" / "state_v7.mat").read_bytes()
    first = struct.unpack("<I", whole[132:136])[0]
    for offset in range(138, 136 + first, 5):
        content = whole[:offset] + bytes([whole[offset] ^ 0x55]) + whole[offset + 1 :]
        assert examined(tmp_path, content, Level.FULL).state is CheckpointState.DAMAGED, offset


def test_cells_in_cells_cost_no_recursion(tmp_path):
    head = element("<", 6, struct.pack("<2I", 1, 0)) + element("<", 5, struct.pack("<2i", 1, 1)) + element("<", 1, b"")
    inside = struct.pack("<2I", 14, 0)
    for _ in range(2_000):
        inside = element("<", 14, head + inside)
    assert examined(tmp_path, header("<") + inside).state is CheckpointState.COMPLETE
