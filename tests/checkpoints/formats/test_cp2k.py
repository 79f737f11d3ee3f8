import re
import struct

import pytest

from checkpoints.formats.real_files import DATA, copy_real, lose_second_half
from checkpoints.recognising import recognise
from ckptd.checkpoints.formats.encodings import fortran_records
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.core.model import CheckpointState, Level

RESTART = (DATA / "cp2k-restart" / "h2-1_10.restart").read_bytes()
WAVE = (DATA / "cp2k-wavefunction" / "h2-RESTART.wfn").read_bytes()


def examined(directory, name, content, level=Level.STRUCTURE):
    (directory / name).write_bytes(content)
    return recognise(directory, level)[name]


@pytest.mark.parametrize(
    ("content", "words", "level"),
    [
        (b"", "empty", Level.STRUCTURE),
        (bytes(4196), "middle of line 1", Level.STRUCTURE),
        (b"Traceback (most recent call last):\n", "no section", Level.STRUCTURE),
        (RESTART[:-60], "middle of line", Level.STRUCTURE),
        (RESTART[: RESTART.index(b" &END FORCE_EVAL")], "section FORCE_EVAL is not closed", Level.STRUCTURE),
        (RESTART.replace(b"&END SUBSYS", b"&END DFT"), "closes section DFT, open is SUBSYS", Level.STRUCTURE),
        (RESTART.replace(b"     &END COORD\n", b""), "open is COORD", Level.STRUCTURE),
        (re.sub(rb"(&VELOCITY\s+)(\S+)", rb"\1\2x", RESTART), "where a number should be", Level.FULL),
        (b" &A\n" * 100, "deeper", Level.STRUCTURE),
    ],
)
def test_a_restart_file_that_is_not_whole_is_damaged(tmp_path, content, words, level):
    found = examined(tmp_path, "h2-1_20.restart", content, level)
    assert (found.state, found.name_step) == (CheckpointState.DAMAGED, 20)
    assert words in found.reason


def test_lammps_files_and_others_of_the_same_suffix_are_left_alone(tmp_path):
    copy_real("lammps/melt.600.rst", tmp_path).rename(tmp_path / "run-1_20.restart")
    assert recognise(tmp_path)["run-1_20.restart"].format == "lammps"


def test_a_restart_file_too_large_to_read_is_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr("ckptd.checkpoints.formats.cp2k_restart._STRUCTURE_BYTES", 1000)
    assert examined(tmp_path, "h2-1.restart", RESTART).step == 10
    found = examined(tmp_path, "h2-1.restart", RESTART[:-300])
    assert (found.state, found.reason) == (
        CheckpointState.DAMAGED,
        "the last section is not closed: the file is cut off",
    )


@pytest.mark.parametrize("size", range(len(WAVE)))
def test_no_cut_of_a_wave_function_goes_unseen(tmp_path, size):
    assert examined(tmp_path, "h2-RESTART.wfn", WAVE[:size]).state is CheckpointState.DAMAGED


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_of_both_byte_orders_and_in_pieces_are_walked(tmp_path, order):
    def piece(data, *, more=False, later=False):
        mark = struct.pack(order + "i", -len(data) if more else len(data))
        closing = struct.pack(order + "i", -len(data) if later else len(data))
        return mark + data + closing

    file = tmp_path / "records"
    file.write_bytes(piece(struct.pack(order + "2i", 7, 8)) + piece(b"abcd", more=True) + piece(b"efgh", later=True))
    with file.open("rb") as stream:
        first, second = fortran_records.walk(stream)
    assert first.integers() == [7, 8]
    assert (second.size_bytes, second.head) == (8, b"abcdefgh")


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0", struct.pack("<i4xi", 4, 5), struct.pack("<i", 2**31 - 1) * 3])
def test_lengths_that_disagree_are_damage(tmp_path, content):
    file = tmp_path / "records"
    file.write_bytes(content)
    with file.open("rb") as stream, pytest.raises(DamagedError):
        list(fortran_records.walk(stream))


def test_orbitals_that_were_lost_to_zeros_are_damage(tmp_path):
    file = copy_real("cp2k-wavefunction/h2-RESTART.wfn", tmp_path)
    lose_second_half(file)
    found = recognise(tmp_path)[file.name]
    assert found.state is CheckpointState.DAMAGED
