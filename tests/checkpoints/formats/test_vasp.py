import struct

from checkpoints.formats.real_files import copy_real, lose_second_half
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState


def test_the_empty_file_of_a_run_that_keeps_no_wave_functions_is_none(tmp_path):
    (tmp_path / "WAVECAR").touch()
    assert recognise(tmp_path) == {}


def test_a_file_of_the_other_byte_order_is_read(tmp_path):
    copy = copy_real("vasp/run/WAVECAR", tmp_path)
    whole = copy.read_bytes()
    count = len(whole) // 8
    copy.write_bytes(struct.pack(f">{count}d", *struct.unpack(f"<{count}d", whole[: 8 * count])) + whole[8 * count :])
    assert recognise(tmp_path)["WAVECAR"].state is CheckpointState.COMPLETE


def test_a_last_band_of_zeros_may_be_a_lost_write(tmp_path):
    copy = copy_real("vasp/run/WAVECAR", tmp_path)
    lose_second_half(copy)
    found = recognise(tmp_path)["WAVECAR"]
    assert found.state is CheckpointState.UNKNOWN
    assert "its last band holds zeros" in found.reason


def test_counts_that_no_file_can_hold_are_damage(tmp_path):
    copy = copy_real("vasp/run/WAVECAR", tmp_path)
    whole = copy.read_bytes()
    for at, value in ((8, b"\xff" * 8), (128, b"\0\0\0\0\0\0\xf0\x7f"), (128, b"\0\0\0\0\0\0\xe0\x43")):
        copy.write_bytes(whole[:at] + value + whole[at + 8 :])
        assert recognise(tmp_path)["WAVECAR"].state is CheckpointState.DAMAGED
