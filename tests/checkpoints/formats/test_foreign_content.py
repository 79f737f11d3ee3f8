"""Files that have the suffix of a checkpoint and are something else that people keep beside their runs."""

import pytest

from checkpoints.recognising import recognise
from ckptd.checkpoints.formats import foreign_content
from ckptd.core.model import CheckpointState

PAGE = b"<!DOCTYPE html>\n<html><head><title>403 Forbidden</title></head></html>\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
ERROR = b"Traceback (most recent call last):\n  File 'train.py', line 3\nMemoryError\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("etopo.cpt", b"# a color palette\n-8000 0 0 80 -6000 0 30 100\nB black\n"),
        ("simulation.jl", b"using DifferentialEquations\nfunction f(u)\n  u\nend\n"),
        ("site-packages/editable.pth", b"import os; var = 'SETUPTOOLS_USE_DISTUTILS'\n"),
        ("MOD09.hdf", b"\x0e\x03\x13\x01" + bytes(2000)),
        ("BLOSUM62.mat", b"# Matrix\n   A  R  N\nA  4 -1 -2\n" * 9),
        ("data.mat", b"   1.0000000e+00   2.0000000e+00\n" * 50),
        ("water.wfn", b" water RHF\nGAUSSIAN 5 MOL ORBITALS 19 PRIMITIVES 3 NUCLEI\n"),
        ("RESTART", b""),
        ("run_checkpoint", b"#!/bin/bash\n#SBATCH -N 1\n"),
    ],
)
def test_what_people_write_under_such_names_is_no_checkpoint(tmp_path, name, content):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert recognise(tmp_path) == {}


@pytest.mark.parametrize("content", [PAGE, POINTER, ERROR, bytes(4096), b"", b"$"])
@pytest.mark.parametrize("name", ["state.cpt", "state.jl", "state.mat", "h2-RESTART.wfn", "state.hdf", "epoch_3.pth"])
def test_failed_writes_under_such_names_are_damage(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert recognise(tmp_path)[name].state is CheckpointState.DAMAGED


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89HDF\r\n\x1a\n" + bytes(3000), "HDF5"),
        (b"\x93NUMPY\x01\x00" + b"x" * 200, "an array of numpy"),
        (b"\x1f\x8b" + b"x" * 100, "gzip"),
    ],
)
@pytest.mark.parametrize("name", ["weights.ckpt", "model_3.pt"])
def test_another_format_under_a_name_of_torch_is_unknown(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    found = recognise(tmp_path)[name]
    assert (found.state, found.reason) == (CheckpointState.UNKNOWN, f"it is {words}, under a name of torch's")


def test_text_may_end_within_a_character_but_has_no_control_characters():
    assert foreign_content.is_text("schön".encode()[:4])
    assert not foreign_content.is_text(b"")
    assert not foreign_content.is_text(b"step\x00 12")
    assert not foreign_content.is_text(b"\xff\xfe\x00\x01\x02\x03")
