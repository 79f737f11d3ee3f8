import shutil

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.checkpoints.formats import FORMATS
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import list_tree
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
        (lambda whole: whole[:16] + b"\x01\x00\x01\x00" + whole[20:], "byte order"),
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


PARTS = ["name.250.{}", "out.{}.250", "melt{}", "poly.{}.250.bin", "{}.melt", "melt.{}"]  # as in `restart N name.*.%`


def put_parts(ranks, directory, name):
    """Give the parts of a restart another name, and remove those that had the old one."""
    for part in ("base", "0", "1", "2"):
        shutil.copy(ranks / f"final.{part}.rst", directory / name.format(part))


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_one_checkpoint_whatever_a_user_calls_them(ranks, tmp_path_factory, name):
    directory = tmp_path_factory.mktemp("run")
    put_parts(ranks, directory, name)
    (path, found), *others = recognise(directory).items()
    assert (path, found.format, others) == (name.format("%"), "lammps", [])
    assert (found.state, len(found.files)) == (CheckpointState.COMPLETE, 4)
    (directory / name.format("1")).unlink()
    (found,) = recognise(directory).values()
    assert (found.state, found.reason) == (
        CheckpointState.DAMAGED,
        "1 of 3 files of processes are missing, the first is number 1",
    )


def test_a_missing_base_is_found_beside_another_restart(ranks, tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    put_parts(ranks, directory, "name.250.{}")
    put_parts(ranks, directory, "name.500.{}")
    (directory / "name.500.base").unlink()
    (directory / "name.700.0").write_text("no part of anything")
    found = recognise(directory)
    assert {path: one.state.value for path, one in found.items()} == {"name.250.%": "complete", "name.500.%": "damaged"}
    assert (found["name.500.%"].reason, found["name.500.%"].step) == ("name.500.base is missing", 500)


def test_a_name_that_ends_in_its_step_is_looked_into_and_so_is_all_beside_the_log(run):
    whole = (run / "restart.100").read_bytes()
    for name, content in {
        "melt.250": whole,
        "melt.500": whole[: len(whole) // 2],
        "melt.750": b"",
        "melt.1000": bytes(len(whole)),
        "melt.1250": b"Traceback",
        "dump.250": b"ITEM: TIMESTEP\n250\n",
        "state.bin": whole,
    }.items():
        (run / name).write_bytes(content)
    found = {path: one.state.value for path, one in recognise(run).items() if "rest" not in path and "rst" not in path}
    assert found == {"melt.250": "complete", "melt.500": "damaged", "melt.750": "damaged", "melt.1000": "damaged"}
    (run / "log.lammps").write_text("LAMMPS (29 Sep 2021)\n")
    assert recognise(run)["state.bin"].state is CheckpointState.COMPLETE


def test_few_of_many_numbered_files_of_other_programs_are_opened(tmp_path):
    for number in range(500):
        (tmp_path / f"wave.{number:04}").write_bytes(b"\x01\x02")
    (tmp_path / "database").write_bytes(b"SQLite")
    opened = []

    class Counting(Reader):
        def read_head(self, path, size=512):
            opened.append(path)
            return super().read_head(path, size)

    with Counting(tmp_path) as reader:
        assert list(FORMATS["lammps"].claim(list_tree(tmp_path), reader)) == []
    assert len(opened) < 10


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda base: base.unlink(), "final.base.rst is missing"),
        (lambda base: base.write_bytes(b""), "final.base.rst: the file is empty"),
        (lambda base: base.write_bytes(bytes(900)), "final.base.rst: it does not begin"),
        (lambda base: base.write_bytes(b"<html>403</html>\n"), "final.base.rst: it does not begin"),
    ],
)
@pytest.mark.parametrize("name", ["final.{}.rst", "melt.750.{}", "poly.{}.750"])
def test_a_lost_base_file_is_seen_without_another_restart_beside_it(ranks, name, damage, words):
    for file in list(ranks.iterdir()):
        file.rename(ranks / name.format(file.name.split(".")[1]))
    damage(ranks / name.format("base"))
    (found,) = recognise(ranks).values()
    assert (found.state, found.format) == (CheckpointState.DAMAGED, "lammps")
    assert words.replace("final.base.rst", name.format("base")) in found.reason


@pytest.mark.parametrize("suffix", ["bin", "dat", "rst"])
def test_restarts_with_the_step_before_a_suffix_are_found_by_their_bytes(run, suffix):
    whole = (run / "restart.100").read_bytes()
    for file in list(run.iterdir()):
        file.unlink()
    for step in (800, 900, 1000):
        (run / f"save.{step}.{suffix}").write_bytes(whole)
        (run / f"dump.{step}.{suffix}").write_bytes(b"\x05\0\0\0 atoms")
    (run / f"save.900.{suffix}").write_bytes(bytes(len(whole)))
    found = {path: (one.state.value, one.name_step) for path, one in recognise(run).items() if one.format == "lammps"}
    assert found == {
        f"save.800.{suffix}": ("complete", 800),
        f"save.900.{suffix}": ("damaged", 900),
        f"save.1000.{suffix}": ("complete", 1000),
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.restart", b"units lj\nread_restart restart.*\n"),
        ("run_restart", b"#!/bin/bash\n#SBATCH -N 1\n"),
        ("README.rst", b"Title\n=====\n"),
        ("protein.rst", b"\x43\x44\x46\x01 of AMBER"),
    ],
)
def test_inputs_and_texts_beside_restart_files_are_no_damaged_ones(run, name, content):
    (run / "log.lammps").write_text("LAMMPS (29 Sep 2021)\n")
    (run / name).write_bytes(content)
    assert name not in recognise(run)


def test_an_empty_file_that_only_signals_a_restart_is_none(tmp_path):
    (tmp_path / "RESTART").touch()
    assert all(one.format != "lammps" for one in recognise(tmp_path).values())
