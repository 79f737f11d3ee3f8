import struct

import pytest

from checkpoints.formats.real_files import (
    DATA,
    copy_real,
    cut,
    empty,
    fill_with_text,
    fill_with_zeros,
    lose_second_half,
    remove,
)
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Role


def test_what_a_run_leaves_at_its_end_is_a_result_and_no_restart_file(tmp_path):
    for suffix in ("coor", "vel"):
        copy_real(f"namd/run/apoa1.{suffix}", tmp_path)
    assert recognise(tmp_path) == {}


@pytest.mark.parametrize("damage", [cut, empty, fill_with_zeros, remove])
@pytest.mark.parametrize("kind", ["coor", "vel"])
def test_a_set_with_one_damaged_file_is_damaged_and_says_which(kind, damage, tmp_path):
    run = copy_real("namd/run", tmp_path)
    damage(run / f"apoa1.restart.{kind}")
    found = recognise(run)["apoa1.restart"]
    assert found.state is CheckpointState.DAMAGED
    assert f"apoa1.restart.{kind}" in found.reason
    assert found.role is Role.STATE


def test_coordinates_and_velocities_of_different_systems_are_damaged(tmp_path):
    run = copy_real("namd/run", tmp_path)
    (run / "apoa1.restart.vel").write_bytes(struct.pack("<i3d", 1, 0.1, 0.2, 0.3))
    assert "40 atoms and velocities of 1" in recognise(run)["apoa1.restart"].reason


def test_restart_files_as_text_are_whole_when_they_end(tmp_path):
    atom = "ATOM      1  N   MET P   1      27.340  24.430   2.614  1.00  0.00           N\n"
    for kind in ("coor", "vel"):
        (tmp_path / f"run.restart.{kind}").write_text(f"CRYST1   31.0   31.0   31.0\n{atom}END\n")
    assert recognise(tmp_path)["run.restart"].state is CheckpointState.COMPLETE
    (tmp_path / "run.restart.vel").write_text(f"CRYST1   31.0   31.0   31.0\n{atom}")
    assert recognise(tmp_path)["run.restart"].state is CheckpointState.DAMAGED


def test_files_in_the_other_byte_order_are_read(tmp_path):
    for kind in ("coor", "vel"):
        little = (DATA / "namd" / "run" / f"apoa1.restart.{kind}").read_bytes()
        values = struct.unpack("<120d", little[4:])
        (tmp_path / f"run.restart.{kind}").write_bytes(struct.pack(">i120d", 40, *values))
    assert recognise(tmp_path)["run.restart"].state is CheckpointState.COMPLETE


@pytest.mark.parametrize("damage", [cut, empty, fill_with_zeros, fill_with_text, remove])
def test_an_extended_system_that_the_save_before_has_is_needed_whole(damage, tmp_path):
    run = copy_real("namd/run", tmp_path)
    damage(run / "apoa1.restart.xsc")
    found = recognise(run)
    assert (found["apoa1.restart"].state, found["apoa1.restart"].format) == (CheckpointState.DAMAGED, "namd")
    assert found["apoa1.restart.old"].state is CheckpointState.COMPLETE


def test_an_extended_system_that_begins_with_zeros_is_damaged(tmp_path):
    run = copy_real("namd/run", tmp_path)
    content = (run / "apoa1.restart.xsc").read_bytes()
    (run / "apoa1.restart.xsc").write_bytes(bytes(70) + content[70:])
    assert "apoa1.restart.xsc" in recognise(run)["apoa1.restart"].reason


def test_coordinates_that_end_in_zeros_are_damaged_and_velocities_of_fixed_atoms_are_not(tmp_path):
    run = copy_real("namd/run", tmp_path)
    lose_second_half(run / "apoa1.restart.vel")
    assert recognise(run)["apoa1.restart"].state is CheckpointState.COMPLETE
    lose_second_half(run / "apoa1.restart.coor")
    assert "ends in zeros" in recognise(run)["apoa1.restart"].reason
