import gzip
import io

import pytest

from checkpoints.formats.real_files import DATA
from checkpoints.recognising import recognise
from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.encodings.octave_binary import BinaryWalk
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.core.model import CheckpointState, Level

HEAD = b"# Created by Octave 7.3.0, Fri Nov 20 21:41:31 2026 UTC <a@b>\n"
MATRIX = HEAD + b"# name: u\n# type: matrix\n# rows: 2\n# columns: 3\n 1 2 3\n 4 NA Inf\n\n\n"


def examined(directory, content, level=Level.FULL, name="octave-workspace"):
    (directory / name).write_bytes(content)
    return recognise(directory, level)[name]


def test_a_whole_matrix_is_complete(tmp_path):
    assert examined(tmp_path, MATRIX).state is CheckpointState.COMPLETE


@pytest.mark.parametrize(
    ("content", "words", "level"),
    [
        (b"", "empty", Level.STRUCTURE),
        (bytes(4096), "middle of line 1", Level.STRUCTURE),
        (b"Traceback\n", "belongs to no variable", Level.STRUCTURE),
        (HEAD + b"\n\n", "no variable", Level.STRUCTURE),
        (MATRIX[:-2], "empty lines", Level.STRUCTURE),
        (MATRIX.replace(b" 4 NA Inf\n", b""), "0 of 3 numbers", Level.FULL),
        (MATRIX.replace(b"# rows: 2", b"# rows: 99999999999"), "of 99999999999 rows", Level.STRUCTURE),
        (MATRIX.replace(b"# rows: 2", b"# rows: -1"), "whole number", Level.STRUCTURE),
        (MATRIX.replace(b" 2 3", b" 2\x9f3"), "2 of 3 numbers", Level.FULL),
        (MATRIX.replace(b" 2 3", b" 2 3x"), "no number", Level.FULL),
        (MATRIX.replace(b"# columns: 3", b"# lines: 3"), "should give the columns", Level.STRUCTURE),
        (HEAD + b"# name: s\n# type: scalar struct\n# ndims: 2\n 1 1\n# length: 2\n\n\n\n", "2 parts", Level.STRUCTURE),
    ],
)
def test_text_that_does_not_hold_what_it_declares_is_damage(tmp_path, content, words, level):
    found = examined(tmp_path, content, level)
    assert found.state is CheckpointState.DAMAGED
    assert words in found.reason


def test_a_cut_binary_file_passes_only_between_two_of_its_variables():
    whole = (DATA / "octave" / "state_binary.mat").read_bytes()
    passed = 0
    for end in range(10, len(whole)):
        try:
            BinaryWalk(Cursor(io.BytesIO(whole[:end]), order="<", start=10)).run()
            passed += 1
        except DamagedError:
            pass
    assert passed == 30  # behind each of 28 variables but the last, twice where the type of an empty matrix may lack


def test_gzip_is_looked_through(tmp_path):
    found = examined(tmp_path, gzip.compress(MATRIX), name="a.mat")
    assert (found.format, found.state) == ("octave", CheckpointState.COMPLETE)
    assert examined(tmp_path, gzip.compress(MATRIX)[:-1], name="a.mat").state is CheckpointState.DAMAGED


def test_a_variable_of_an_unknown_binary_type_leaves_the_rest_unknown(tmp_path):
    record = b"\x01\0\0\0f\0\0\0\0\0\xff" + b"\x0f\0\0\0function handle" + bytes(40)
    found = examined(tmp_path, b"Octave-1-L\0" + record, name="f.mat")
    assert found.state is CheckpointState.UNKNOWN
