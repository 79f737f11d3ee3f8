import gzip
import shutil
import struct

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.checkpoints.scanning.claiming import claim_tree
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.model import CheckpointState, Level

HEADER = b"""/*--------------------------------*- C++ -*----------------------------------*\\
FoamFile { version 2.0; format binary; arch "LSB;label=32;scalar=64"; class volVectorField; object U; }
// * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * * //
internalField nonuniform List<vector> 2
("""
CLOSING = b"// ************************************************************************* //\n"


@pytest.fixture
def case(tmp_path):
    return copy_real("openfoam/case", tmp_path)


def decompose(case, count=3):
    for number in range(count):
        for time in ("0.4", "0.5"):
            shutil.copytree(case / time, case / f"processor{number}" / time)
        shutil.copytree(case / "constant", case / f"processor{number}" / "constant")
    for time in ("0", "0.4", "0.5"):
        shutil.rmtree(case / time)


def reason_of(case, path="0.5", level=Level.STRUCTURE):
    found = recognise(case, level)[path]
    assert found.state is CheckpointState.DAMAGED
    return found.reason


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_a_written_time_is_complete_and_the_users_input_is_none(case, level):
    found = recognise(case, level)
    assert {path: (one.step, one.state) for path, one in found.items()} == {
        "0.4": (80, CheckpointState.COMPLETE),
        "0.5": (100, CheckpointState.COMPLETE),
    }
    assert found["0.5"].metrics["time"] == pytest.approx(0.5)


def test_a_directory_that_only_has_a_number_for_a_name_is_none(tmp_path):
    (tmp_path / "2.5").mkdir()
    (tmp_path / "2.5" / "notes").write_text("not a field\n")
    assert recognise(tmp_path) == {}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"", "U: the file is empty"),
        (lambda whole: whole[: len(whole) // 2], "U: the closing line is missing"),
        (lambda whole: whole[:-2], "U: the closing line is missing"),
        (lambda _: b"Traceback (most recent call last):\n", "U: it does not begin"),
        (lambda whole: bytes(len(whole)), "U: it does not begin"),
        (lambda whole: whole[: len(whole) // 2] + bytes(len(whole) // 2), "U: the closing line is missing"),
    ],
)
def test_a_damaged_field_is_named(case, damage, words):
    file = case / "0.5" / "U"
    file.write_bytes(damage(file.read_bytes()))
    assert words in reason_of(case)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"100\n(", b"101\n(", "100 of 101"),
        (b"(0.000652496 ", b"(0.0006x2496 ", "no number"),
        (b"(0.000652496 0.277736 0)", b"(0.000652496 0.277736)", "2 of 3 numbers"),
        (b"boundaryField", b"boundary\x04ield", "no text"),
    ],
)
def test_lists_are_counted_at_level_full(case, old, new, words):
    file = case / "0.4" / "U"
    content = file.read_bytes()
    if old not in content:
        old = content[content.index(b"(\n(") + 2 :].partition(b"\n")[0]
        numbers = old.strip(b"()").split()
        new = b"(" + b" ".join([b"0.x", *numbers[1:]] if b"x" in new else numbers[:2]) + b")"
    file.write_bytes(content.replace(old, new, 1))
    assert words in reason_of(case, "0.4", Level.FULL)


def test_compressed_fields_are_read(case):
    for file in [file for file in (case / "0.5").rglob("*") if file.is_file()]:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert recognise(case, Level.FULL)["0.5"].step == 100
    field = case / "0.5" / "U.gz"
    field.write_bytes(field.read_bytes()[:-9])
    assert "U.gz: the compressed data are cut off" in reason_of(case)


@pytest.mark.parametrize(("count", "state"), [(6, "complete"), (5, "damaged"), (7, "damaged")])
def test_binary_lists_end_where_they_should(case, count, state):
    numbers = struct.pack(f"<{count}d", *range(count))
    (case / "0.5" / "U").write_bytes(HEADER + numbers + b");\n" + CLOSING)
    assert recognise(case, Level.FULL)["0.5"].state == state


def test_a_field_that_the_times_around_have_is_missed(case):
    shutil.copytree(case / "0.5", case / "0.6")
    (case / "0.5" / "p").unlink()
    assert reason_of(case) == "the field p is missing, which the times around it have"


def test_a_field_that_only_later_times_have_is_not_missed(case):
    for time in ("0.6", "0.7"):
        shutil.copytree(case / "0.5", case / time)
        shutil.copy(case / "0.5" / "p", case / time / "pMean")
    assert {one.state for one in recognise(case).values()} == {CheckpointState.COMPLETE}


def test_one_time_of_all_processors_is_one_checkpoint(case):
    decompose(case)
    found = recognise(case, Level.FULL)
    assert {path: (one.step, one.state) for path, one in found.items()} == {
        "processor*@0.4": (80, CheckpointState.COMPLETE),
        "processor*@0.5": (100, CheckpointState.COMPLETE),
    }
    assert "processor2/0.5/U" in found["processor*@0.5"].files


def test_a_processor_without_a_time_or_field_is_named(case):
    decompose(case)
    shutil.rmtree(case / "processor1" / "0.5")
    (case / "processor2" / "0.4" / "phi").unlink()
    assert reason_of(case, "processor*@0.5") == "processor1 does not have this time"
    assert reason_of(case, "processor*@0.4") == "processor2 lacks the field phi"


def test_the_files_of_a_decomposed_time_belong_to_it_alone(case):
    decompose(case)
    with Reader(case) as reader:
        claims, left = claim_tree(list_tree(case), reader)
    taken = {file.path for claim in claims for file in claim.files}
    assert "processor1/0.5/uniform/time" in taken
    assert not taken & {file.path for file in left}


def add_times(case, *times):
    for time in times:
        shutil.copytree(case / "0.4", case / time)


@pytest.mark.parametrize("lost", ["uniform", "uniform/time"])
@pytest.mark.parametrize("time", ["0.2", "0.4", "0.5"])
def test_a_time_without_the_solver_s_own_file_is_damaged_beside_times_that_have_it(case, time, lost):
    add_times(case, "0.1", "0.2")
    path = case / time / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert reason_of(case, time) == "uniform/time is missing, which the times around it have"
    assert recognise(case)["0.1"].state is CheckpointState.COMPLETE


def test_the_first_time_may_come_from_elsewhere(case):
    shutil.rmtree(case / "0.4" / "uniform")
    assert recognise(case)["0.4"].state is CheckpointState.COMPLETE


def test_a_time_with_no_field_yet_is_no_time_to_restart_from(case):
    for name in ("U", "p", "phi"):
        (case / "0.5" / name).unlink()
    assert reason_of(case) == "it holds no field, unlike the times around it"


def test_a_processor_without_the_solver_s_own_file_is_named(case):
    decompose(case)
    shutil.rmtree(case / "processor1" / "0.5" / "uniform")
    assert reason_of(case, "processor*@0.5") == "processor1 lacks uniform/time"


def test_zeros_before_the_header_are_damage(case):
    for name in ("U", "uniform/time"):
        file = case / "0.5" / name
        content = file.read_bytes()
        size = content.index(b"FoamFile") - 1
        file.write_bytes(bytes(size) + content[size:])
        assert name in reason_of(case)
        file.write_bytes(content)


def collate(case, count=3):
    """Write the times as `-fileHandler collated` does: a list of bytes for each processor in one file."""
    for time in ("0.4", "0.5"):
        for file in list((case / time).rglob("*")):
            if file.is_file() and file.parent.name != "uniform":
                content = file.read_bytes()
                blocks = b"".join(
                    b"\n// Processor%d\n\n%d\n(" % (number, len(content)) + content + b")\n" for number in range(count)
                )
                head = HEADER.replace(b"volVectorField", b"decomposedBlockData").partition(b"internalField")[0]
                file.write_bytes(head + blocks.rstrip(b"\n"))
        shutil.copytree(case / time, case / f"processors{count}" / time)
        shutil.rmtree(case / time)


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_files_that_hold_all_processors_are_whole_when_each_list_ends(case, level):
    collate(case)
    found = recognise(case, level)
    assert {path: (one.state, one.step) for path, one in found.items()} == {
        "processors3/0.4": (CheckpointState.COMPLETE, 80),
        "processors3/0.5": (CheckpointState.COMPLETE, 100),
    }


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_files_that_hold_all_processors_are_damaged_when_cut(case, keep):
    collate(case)
    file = case / "processors3" / "0.5" / "U"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * keep)])
    assert "U" in reason_of(case, "processors3/0.5")


@pytest.mark.parametrize("is_decomposed", [False, True])
def test_fields_that_function_objects_write_between_the_times_are_no_checkpoint(case, is_decomposed):
    for time in ("0.42", "0.44", "0.46", "0.52"):
        (case / time).mkdir()
        shutil.copy(case / "0.4" / "p", case / time / "Q")
    if is_decomposed:
        for number in range(2):
            for time in ("0.4", "0.42", "0.44", "0.46", "0.5", "0.52"):
                shutil.copytree(case / time, case / f"processor{number}" / time)
        for time in ("0.4", "0.42", "0.44", "0.46", "0.5", "0.52"):
            shutil.rmtree(case / time)
    found = recognise(case)
    name = "processor*@{}" if is_decomposed else "{}"
    assert {path: one.state for path, one in found.items()} == {
        name.format("0.4"): CheckpointState.COMPLETE,
        name.format("0.5"): CheckpointState.COMPLETE,
    }
