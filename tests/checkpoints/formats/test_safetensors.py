import json
import struct
from datetime import timedelta

import numpy as np
import pytest
import safetensors.numpy

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

TENSORS = {
    "a.weight": np.linspace(1, 2, 2048, dtype=np.float32),
    "b.weight": np.linspace(1, 2, 2048, dtype=np.float32),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(TENSORS, path, metadata={"epoch": "3", "step": "400"})
    return path


def framed(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(begin, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_a_file_of_the_library_is_complete_with_the_facts_of_its_metadata(file, level):
    found = recognise(file.parent, level)["model.safetensors"]
    assert (found.state, found.format, found.epoch, found.step) == (CheckpointState.COMPLETE, "safetensors", 3, 400)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"\x08\0\0", "within the length"),
        (bytes(4000), "no JSON object"),
        (b"Traceback (most recent call last):\n", "claims"),
        (struct.pack("<Q", 1 << 60) + b"{}", "claims"),
        (framed(b'{"a": [1, 2'), "no JSON"),
        (framed(b'{"a":' * 20_000 + b"1" + b"}" * 20_000), "deeper"),
        (framed({"a": 7}), "does not place tensor 'a'"),
        (framed({"a": tensor(0, 8, [2])}, b"1234567"), "take 8 bytes, but 7"),
        (framed({"a": tensor(0, 8, [2])}, b"123456789"), "take 8 bytes, but 9"),
        (framed({"a": tensor(0, 8, [3])}, b"12345678"), "shape"),
        (framed({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}, b"123456789012"), "lies at 4, where 8"),
        (framed({"a": tensor(0, 4, [1]), "b": tensor(8, 12, [1])}, b"123456789012"), "lies at 8, where 4"),
        (framed({"a": tensor(-8, 0, [2])}), "no sizes"),
        (framed({"a": tensor(0, 1 << 70, [2])}), "no sizes"),
        (framed({"a": tensor(0, True, [1], "U8")}, b"1"), "no sizes"),
    ],
)
def test_a_header_that_disagrees_with_the_file_is_damage(tmp_path, content, reason):
    (tmp_path / "model.safetensors").write_bytes(content)
    found = recognise(tmp_path)["model.safetensors"]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_a_second_half_of_zeros_is_doubted_once_it_is_read(file):
    whole = file.read_bytes()
    half = len(whole) // 2 + 1000
    file.write_bytes(whole[:half] + bytes(len(whole) - half))
    assert recognise(file.parent)["model.safetensors"].state is CheckpointState.COMPLETE
    found = recognise(file.parent, Level.FULL)["model.safetensors"]
    assert found.state is CheckpointState.UNKNOWN
    assert "no checksum" in found.reason


def test_a_tensor_that_is_zero_from_its_first_element_is_no_reason_for_doubt(tmp_path):
    tensors = {**TENSORS, "c.weight": np.zeros(9000, dtype=np.float32)}
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    assert recognise(tmp_path, Level.FULL)["model.safetensors"].state is CheckpointState.COMPLETE


def test_its_temporary_name_means_writing_while_fresh_and_left_over_later(file):
    temporary = file.rename(file.with_name(".tmpAb3dEf"))
    fresh = recognise(file.parent, after=timedelta(0))[temporary.name]
    later = recognise(file.parent)[temporary.name]
    assert fresh.state is CheckpointState.WRITING
    assert later.state is CheckpointState.COMPLETE
    assert "temporary name" in later.reason


def test_a_temporary_name_of_the_users_own_is_a_save_of_what_it_stands_for(file):
    temporary = file.rename(file.with_name("step_7.safetensors.tmp"))
    found = recognise(temporary.parent, after=timedelta(0))[temporary.name]
    assert (found.format, found.name_step, found.state) == ("safetensors", 7, CheckpointState.WRITING)


def test_a_temporary_name_with_other_content_is_left_to_others(tmp_path):
    (tmp_path / ".tmpAb3dEf").write_bytes(b"something else entirely")
    assert recognise(tmp_path) == {}


WEIGHT = json.dumps(tensor(0, 4, [1]))
REASONS = [
    ('{"__metadata__":{"step":"7"},"a":%s}', None),
    ('{"__metadata__": {"step": "7"}, "a": %s}   ', None),
    ('{"a":%s,"__metadata__":{"step":"7"}}', None),
    ('{ "__metadata__":{"step":"7"},"a":%s}', None),
    ('{"__metadata__":{"step":"1"},"a":%s,"__metadata__":{"step":"7"}}', None),
    ('{"__metadata__":{"step":"1"},"a":%s,"\\u005f_metadata__":{"step":"7"}}', None),
    ('{"__metadata__":{"step":"7"},"a":%s', "its header is no JSON: Expecting ',' delimiter"),
    ('{"__metadata__":{"step":"7"},"a":%s}}', "its header is no JSON: Extra data"),
    ('{"__metadata__":{"step":"7"} "a":%s}', "its header is no JSON: Expecting ',' delimiter"),
    ('{"__metadata__":{"step":"7"},"a":%s,"b":1}', "its header does not place tensor 'b'"),
    ('{"__metadata__":{"step":"7"},}', "its header is no JSON: "),
    ('{"__metadata__":', "its header is no JSON: Expecting value: line 1 column 17 (char 16)"),
    ('{"__metadata__":{"step":"7"}', "its header is no JSON: Expecting ',' delimiter: line 1 column 29 (char 28)"),
    ('{"__metadata__":{"step":"7"},"a":' + "[" * 20_000, "its header is nested deeper"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REASONS)
def test_a_header_says_the_same_wherever_its_metadata_are_and_however_often_it_was_read(tmp_path, text, reason):
    """Of a series, the text behind the metadata is parsed once."""
    text = text.replace("%s", WEIGHT).encode()
    for number in range(3):
        (tmp_path / f"{number}.safetensors").write_bytes(framed(text, b"1234"))
    for found in recognise(tmp_path).values():
        assert (found.step, found.state is CheckpointState.COMPLETE) == (None if reason else 7, reason is None)
        assert (found.reason or "").startswith(reason or "")


@pytest.mark.parametrize("end", ["", " ", " \n"])
def test_a_header_whose_last_comma_nothing_follows_is_damaged_also_where_there_are_no_data(tmp_path, end):
    for number in range(2):
        (tmp_path / f"{number}.safetensors").write_bytes(
            framed(b'{"__metadata__":{"step":"7"},%b}' % end.encode(), b"")
        )
    for found in recognise(tmp_path).values():
        assert found.state is CheckpointState.DAMAGED
        assert found.reason.startswith("its header is no JSON: ")


def test_the_data_of_each_file_are_compared_with_its_tensors(tmp_path):
    text = ('{"__metadata__":{"step":"%d"},"a":' + WEIGHT + "}").encode()
    for number, data in enumerate([b"1234", b"123", b"12345", b"1234"]):
        (tmp_path / f"{number}.safetensors").write_bytes(framed(text % number, data))
    states = [found.state for _, found in sorted(recognise(tmp_path).items())]
    complete, damaged = CheckpointState.COMPLETE, CheckpointState.DAMAGED
    assert states == [complete, damaged, damaged, complete]
