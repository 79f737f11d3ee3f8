import gzip
import struct
import tracemalloc

import pytest

from checkpoints.formats.real_files import DATA, copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

HEAD = b"X\n" + struct.pack(">3i", 2, 0x40202, 0x20300)
LIST, PAIRS, DOUBLES, NIL = 19, 2, 14, 254


def examined(directory, content, level=Level.FULL, name="state.rds"):
    (directory / name).write_bytes(content)
    return recognise(directory, level)[name]


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
@pytest.mark.parametrize("name", ["state_gzip.rds", "state_bzip2.rds", "many.RData"])
def test_no_flipped_byte_of_compressed_data_goes_unseen(tmp_path, name, level):
    whole = (DATA / "r" / name).read_bytes()
    for offset in range(24, len(whole) - 12, 37):
        content = whole[:offset] + bytes([whole[offset] ^ 0x55]) + whole[offset + 1 :]
        assert examined(tmp_path, content, level, name).state is not CheckpointState.COMPLETE, offset


def test_nesting_costs_no_recursion(tmp_path):
    deep = HEAD + struct.pack(">2i", LIST, 1) * 50_000
    found = examined(tmp_path, deep + struct.pack(">i", NIL))
    assert found.state is CheckpointState.COMPLETE
    assert "only 0 are left" in examined(tmp_path, deep).reason


@pytest.mark.parametrize("count", [2**31 - 1, 10**9])
def test_a_declared_length_is_not_believed(tmp_path, count):
    tracemalloc.start()
    found = examined(tmp_path, HEAD + struct.pack(">2i", DOUBLES, count) + bytes(4096))
    assert found.state is CheckpointState.DAMAGED
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (bytes(5000), "no serialised R object"),
        (b"Traceback (most recent call last)\n", "no serialised R object"),
        (b"RDX9\nX\n", "R workspace"),
        (b"X\n" + struct.pack(">i", 9), "version 9"),
        (HEAD + struct.pack(">i", 200), "type 200"),
        (HEAD + struct.pack(">i", 255 | 7 << 8), "points at nothing"),
        (HEAD + struct.pack(">2i", DOUBLES, -7), "length of -7"),
        (b"A\n2\n262658\n131840\n14\n2\n1.5\nx\n", "where a number should"),
        (b"A\n2\n262658\n131840\n14\n2\n1.5\n2.5", "middle of a line"),
    ],
)
def test_what_is_no_whole_object_is_damaged(tmp_path, content, words):
    found = examined(tmp_path, content, Level.STRUCTURE)
    assert found.state is CheckpointState.DAMAGED
    assert words in found.reason


def test_a_decompression_bomb_is_sampled_at_level_structure(tmp_path):
    count = 40 << 20
    with gzip.open(tmp_path / "bomb.rds", "wb", compresslevel=1) as stream:
        stream.write(HEAD + struct.pack(">2i", DOUBLES, count))
        for _ in range(count >> 17):
            stream.write(bytes(1 << 20))
    tracemalloc.start()
    assert recognise(tmp_path)["bomb.rds"].state is CheckpointState.COMPLETE
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    file = tmp_path / "bomb.rds"
    file.write_bytes(file.read_bytes()[:-100] + bytes(100))
    assert "do not end as gzip" in recognise(tmp_path)["bomb.rds"].reason


def test_the_temporary_of_save_image_is_told(tmp_path):
    copy_real("r/many.RData", tmp_path).rename(tmp_path / ".RDataTmp")
    assert recognise(tmp_path)[".RDataTmp"].reason == "the temporary name of save.image"
