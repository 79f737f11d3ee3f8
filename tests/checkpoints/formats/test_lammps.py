import shutil

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState


@pytest.fixture
def run(tmp_path):
    restart = copy_real("lammps/melt.600.rst", tmp_path)
    for name in ("restart.100", "melt.restart"):
        shutil.copy(restart, tmp_path / name)
    return tmp_path


@pytest.fixture
def ranks(tmp_path):
    return copy_real("lammps/ranks", tmp_path)


def test_any_name_with_restart_in_it_is_looked_into(run):
    (run / "restart.txt").write_text("how to restart\n")
    found = recognise(run)
    assert {path: (one.format, one.step) for path, one in found.items()} == {
        "melt.600.rst": ("lammps", 600),
        "restart.100": ("lammps", 600),
        "melt.restart": ("lammps", 600),
    }


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"", "empty"),
        (lambda whole: bytes(len(whole)), "begin"),
        (lambda _: b"Traceback (most recent call last):\n", "begin"),
        (lambda whole: whole[:3] + b"\x01" + whole[4:], "begin"),
        (lambda whole: whole[:20] + b"\x43" + whole[21:], "revision 67"),
        (lambda whole: whole[:24] + b"\xff" * 4 + whole[28:], "no timestep"),
        (lambda whole: whole[: len(whole) // 2], "closing magic"),
        (lambda whole: whole[:-1] + b"x", "closing magic"),
        (lambda whole: whole[:5000] + whole[6000:], "beyond the end"),
    ],
)
def test_damage_is_found_beside_a_good_file(run, damage, words):
    file = run / "restart.100"
    file.write_bytes(damage(file.read_bytes()))
    found = recognise(run)["restart.100"]
    assert (found.state, found.format) == (CheckpointState.DAMAGED, "lammps")
    assert words in found.reason


def test_a_big_endian_file_is_read(tmp_path):
    def word(*values):
        return b"".join(value.to_bytes(4, "big", signed=True) for value in values)

    magic = b"LammpS RestartT\0"
    step = word(1, 3, 0, 4) + b"now\0" + word(5) + (7_000_000_000).to_bytes(8, "big") + word(-1)
    atoms = word(44, 0, 45, 0, -1, 47, 2) + bytes(16)
    (tmp_path / "restart.7").write_bytes(magic + step + atoms + magic)
    found = recognise(tmp_path)["restart.7"]
    assert (found.state, found.step) == (CheckpointState.COMPLETE, 7_000_000_000)


def test_a_set_needs_the_file_of_every_process(ranks):
    assert len(recognise(ranks)["final.%.rst"].files) == 4
    (ranks / "final.2.rst").unlink()
    found = recognise(ranks)["final.%.rst"]
    assert (found.state, found.reason) == (
        CheckpointState.DAMAGED,
        "1 of 3 files of processes are missing, the first is number 2",
    )


@pytest.mark.parametrize("cut", [1, 16, 200, 736])
def test_a_cut_file_of_a_process_is_named(ranks, cut):
    file = ranks / "final.1.rst"
    file.write_bytes(file.read_bytes()[:-cut])
    found = recognise(ranks)["final.%.rst"]
    assert (found.state, found.reason.partition(":")[0]) == (CheckpointState.DAMAGED, "final.1.rst")
