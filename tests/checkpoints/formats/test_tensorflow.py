import shutil
from pathlib import Path

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level
from support.tensorflow_table import entry, masked, table, varint

DATA = Path(__file__).parents[2] / "data" / "formats"


@pytest.fixture
def run(tmp_path):
    """A run with a set of a CheckpointManager, its state file, and a set of the TF1 saver."""
    return Path(shutil.copytree(DATA / "tensorflow", tmp_path / "run"))


def rewrite(path, change):
    data = bytearray(path.read_bytes())
    changed = change(data)
    path.write_bytes(bytes(data if changed is None else changed))


def flip(offset):
    def change(data):
        data[offset] ^= 0x40

    return change


def write_set(directory, shards, rows):
    (directory / "p.index").write_bytes(table([(b"", b"\x08" + varint(len(shards))), *rows]))
    for number, data in enumerate(shards):
        if data is not None:
            (directory / f"p.data-{number:05d}-of-{len(shards):05d}").write_bytes(data)


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_sets_are_whole_with_step_and_epoch_from_their_variables(run, level):
    found = recognise(run, level)
    manager, saver = found["ckpt-6"], found["model.ckpt-400"]
    assert (manager.state, manager.epoch, manager.step, manager.is_newest) == (CheckpointState.COMPLETE, 6, 48, True)
    assert (saver.state, saver.step, saver.is_newest) == (CheckpointState.COMPLETE, 400, None)
    assert sorted(manager.files) == ["ckpt-6.data-00000-of-00001", "ckpt-6.index"]


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("index", lambda data: data[:500], "magic"),
        ("index", lambda _: b"", "too short"),
        ("index", lambda data: bytes(len(data)), "magic"),
        ("index", lambda _: b"Traceback (most recent call last)\n" * 9, "magic"),
        ("index", flip(100), "checksum"),
        ("index", flip(-1), "magic"),
        ("data-00000-of-00001", lambda data: data[:-1000], "ends at byte"),
        ("data-00000-of-00001", lambda _: b"", "ends at byte"),
    ],
)
def test_damage_of_index_or_sizes_is_found_in_the_structure(run, name, change, reason):
    rewrite(run / f"ckpt-6.{name}", change)
    found = recognise(run)["ckpt-6"]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_a_flipped_byte_inside_the_data_is_found_at_level_full_only(run):
    rewrite(run / "ckpt-6.data-00000-of-00001", flip(9000))
    assert recognise(run)["ckpt-6"].state is CheckpointState.COMPLETE
    found = recognise(run, Level.FULL)["ckpt-6"]
    assert found.state is CheckpointState.DAMAGED
    assert "checksum" in found.reason


@pytest.mark.parametrize(
    "change",
    [
        flip(3),
        flip(-3),
        lambda data: bytes(len(data)),
        lambda data: data[: len(data) // 2].ljust(len(data), b"\0"),
        lambda data: b"<html>403</html>\n".ljust(len(data), b" "),
    ],
)
@pytest.mark.parametrize("name", ["ckpt-6", "model.ckpt-400"])
def test_lost_writes_fail_the_checksum_of_the_first_or_last_tensor(run, name, change):
    rewrite(run / f"{name}.data-00000-of-00001", change)
    found = recognise(run)[name]
    assert found.state is CheckpointState.DAMAGED
    assert "fail their checksum" in found.reason or "do not fill their place" in found.reason


def test_bytes_behind_the_last_tensor_are_harmless(run):
    rewrite(run / "ckpt-6.data-00000-of-00001", lambda data: data + bytes(64))
    assert recognise(run, Level.FULL)["ckpt-6"].state is CheckpointState.COMPLETE


@pytest.mark.parametrize(
    ("gone", "reason"), [("index", "index is missing"), ("data-00000-of-00001", "shard 0 of 1 is missing")]
)
def test_a_set_without_one_of_its_files_is_damaged(run, gone, reason):
    (run / f"ckpt-6.{gone}").unlink()
    found = recognise(run)["ckpt-6"]
    assert (found.state, found.reason) == (CheckpointState.DAMAGED, f"{reason}".replace("index is", "its index is"))


def test_a_state_file_that_names_what_is_gone_is_reported(run):
    for path in run.glob("ckpt-6.*"):
        path.unlink()
    found = recognise(run)
    assert list(found) == ["model.ckpt-400"]
    assert found["model.ckpt-400"].state is CheckpointState.COMPLETE
    assert found["model.ckpt-400"].reason == "checkpoint names ckpt-6, which is missing"


def test_a_graph_that_was_cut_off_beside_whole_variables_is_told(run):
    (run / "model.ckpt-400.meta").write_bytes(b"\x0a\x7f cut off")
    found = recognise(run)["model.ckpt-400"]
    assert found.state is CheckpointState.COMPLETE
    assert "model.ckpt-400.meta ends inside a field" in found.reason


@pytest.mark.parametrize("path", ["/elsewhere/of/old/ckpt-6", "./ckpt-6", "ckpt\\0556"])
def test_the_state_file_may_name_the_newest_by_another_path(run, path):
    (run / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
    assert recognise(run)["ckpt-6"].is_newest


def test_the_state_file_lists_what_the_manager_still_wants(run):
    assert {name: each.is_listed for name, each in recognise(run).items()} == {"ckpt-6": True, "model.ckpt-400": None}
    with (run / "checkpoint").open("a") as file:
        file.write('all_model_checkpoint_paths: "/elsewhere/model.ckpt-400"\n')
    assert recognise(run)["model.ckpt-400"].is_listed


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b'model_checkpoint_path: "..', b'model_checkpoint_path: ".."\n'])
def test_a_state_file_that_says_nothing_is_no_marker(run, text):
    (run / "checkpoint").write_bytes(text)
    assert recognise(run)["ckpt-6"].is_newest is None


@pytest.mark.parametrize("name", ["ckpt-7_temp", "model.ckpt-500_temp_0123456789abcdef0123456789abcdef"])
def test_a_temporary_directory_is_a_save_that_is_not_finished(run, name):
    (run / name).mkdir()
    (run / name / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"x" * 10)
    found = recognise(run)[name]
    assert (found.state, found.size_bytes) == (CheckpointState.WRITING, 10)


def test_every_shard_that_the_index_counts_must_be_there(tmp_path):
    value = (7).to_bytes(8, "little")
    crc = int.from_bytes(masked(value), "little")
    rows = [(b"global_step", entry(shard=1, crc=crc))]
    write_set(tmp_path, [b"", value], rows)
    found = recognise(tmp_path, Level.FULL)["p"]
    assert (found.state, found.step, found.reason) == (CheckpointState.COMPLETE, 7, None)
    (tmp_path / "p.data-00000-of-00002").unlink()
    found = recognise(tmp_path)["p"]
    assert (found.state, found.reason) == (CheckpointState.DAMAGED, "shard 0 of 2 is missing")


def test_a_tensor_of_strings_is_checked_by_its_own_rule(tmp_path):
    texts = [b"alpha", b"", b"gamma"]
    lengths = b"".join(len(text).to_bytes(4, "little") for text in texts)
    data = b"".join(varint(len(text)) for text in texts) + masked(lengths) + b"".join(texts)
    crc = int.from_bytes(masked(lengths + masked(lengths) + b"".join(texts)), "little")
    rows = [(b"names", entry(dtype=7, size=len(data), crc=crc, shape=b"\x12\x02\x08\x03"))]
    write_set(tmp_path, [data], rows)
    assert recognise(tmp_path, Level.FULL)["p"].state is CheckpointState.COMPLETE
    rewrite(tmp_path / "p.data-00000-of-00001", flip(-1))
    assert recognise(tmp_path, Level.FULL)["p"].state is CheckpointState.DAMAGED


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (entry(shard=9), "shard 9 of 1"),
        (entry(offset=2**62), "ends at byte"),
        (entry(size=4), "shape needs 8"),
        (b"\x12\xff", "ends inside"),
    ],
)
def test_an_index_that_lies_is_damage(tmp_path, row, reason):
    write_set(tmp_path, [bytes(8)], [(b"v", row)])
    found = recognise(tmp_path)["p"]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_a_missing_slice_of_a_partitioned_variable_is_damage(tmp_path):
    whole = entry(dtype=1, size=0) + b"\x3a\x00\x3a\x00"
    write_set(tmp_path, [bytes(8)], [(b"\0one", entry(dtype=1, size=4)), (b"v", whole)])
    found = recognise(tmp_path)["p"]
    assert (found.state, found.reason) == (
        CheckpointState.DAMAGED,
        "its index has 1 slices of the 2 that its tensors are made of",
    )


def test_a_compressed_index_is_unknown_instead_of_damaged(tmp_path):
    (tmp_path / "p.index").write_bytes(table([(b"", b"\x08\x01")], kind=1))
    (tmp_path / "p.data-00000-of-00001").write_bytes(b"")
    found = recognise(tmp_path)["p"]
    assert found.state is CheckpointState.UNKNOWN
    assert "compressed" in found.reason


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(DATA / "tensorflow-v1", tmp_path / "old"))


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_a_v1_checkpoint_is_one_table(old, level):
    found = recognise(old, level)["v1format.ckpt-401"]
    assert (found.state, found.step) == (CheckpointState.COMPLETE, 401)


@pytest.mark.parametrize("change", [lambda data: data[:-100], flip(-1), flip(8000), lambda data: bytes(len(data))])
def test_a_damaged_v1_checkpoint_is_found(old, change):
    (old / "v1format.ckpt-401.meta").write_bytes(b"")
    rewrite(old / "v1format.ckpt-401", change)
    assert recognise(old, Level.FULL)["v1format.ckpt-401"].state is CheckpointState.DAMAGED


@pytest.fixture
def exported(tmp_path):
    return Path(shutil.copytree(DATA / "saved-model" / "exported", tmp_path / "exported"))


def test_a_saved_model_is_its_program_and_its_variables(exported):
    found = recognise(exported.parent, Level.FULL)
    assert list(found) == ["exported"]
    assert found["exported"].state is CheckpointState.COMPLETE
    assert len(found["exported"].files) == 4


def test_a_saved_model_whose_variables_are_zeros_is_damaged(exported):
    rewrite(exported / "variables/variables.data-00000-of-00001", lambda data: bytes(len(data)))
    found = recognise(exported.parent)["exported"]
    assert (found.state, "checksum" in found.reason) == (CheckpointState.DAMAGED, True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("saved_model.pb", lambda data: data[: len(data) // 2]),
        ("saved_model.pb", lambda _: b""),
        ("saved_model.pb", lambda data: bytes(len(data))),
        ("variables/variables.index", lambda data: data[:-1]),
        ("variables/variables.data-00000-of-00001", lambda _: b""),
    ],
)
def test_a_saved_model_with_a_broken_part_is_damaged(exported, name, change):
    rewrite(exported / name, change)
    assert recognise(exported.parent)["exported"].state is CheckpointState.DAMAGED


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_a_saved_model_without_one_of_its_parts_is_damaged(exported, name):
    (exported / name).unlink()
    assert recognise(exported.parent)["exported"].state is CheckpointState.DAMAGED


def test_flipped_variables_of_a_saved_model_are_found_at_level_full(exported):
    rewrite(exported / "variables/variables.data-00000-of-00001", flip(2000))
    assert recognise(exported.parent)["exported"].state is CheckpointState.COMPLETE
    assert recognise(exported.parent, Level.FULL)["exported"].state is CheckpointState.DAMAGED
