import io
import json
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

DATA = Path(__file__).parents[2] / "data" / "formats"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(DATA / "hdf5", tmp_path / "run"))


@pytest.fixture
def model(tmp_path):
    return Path(shutil.copy(DATA / "keras" / "weights.03-1.35.keras", tmp_path))


def rewrite(path, change):
    path.write_bytes(bytes(change(bytearray(path.read_bytes()))))


def flip(offset):
    def change(data):
        data[offset] ^= 0x40
        return data

    return change


def dense(count):
    return np.linspace(1, 2, count) + 1e-13


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
@pytest.mark.parametrize(
    ("name", "epoch", "step"),
    [
        ("fletcher_step2500.h5", 2, 2500),
        ("latest_v110_step2000.h5", 2, 2000),
        ("cp-0003.weights.h5", 3, 21),
        ("final_model_e5.h5", 5, 35),
        ("state_200.h5", None, 200),
    ],
)
def test_whole_files_tell_epoch_and_step(run, level, name, epoch, step):
    found = recognise(run, level)[name]
    assert (found.state, found.epoch, found.step) == (CheckpointState.COMPLETE, epoch, step)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("cp-0003.weights.h5", lambda data: data[: len(data) // 2], "cut off"),
        ("cp-0003.weights.h5", lambda data: data[:-1], "cut off"),
        ("cp-0003.weights.h5", lambda _: b"", "empty"),
        ("cp-0003.weights.h5", lambda data: bytes(len(data)), "signature"),
        ("cp-0003.weights.h5", lambda _: b"Traceback (most recent call last)", "signature"),
        ("cp-0003.weights.h5", flip(3), "signature"),
        ("cp-0003.weights.h5", lambda data: data[:12000] + bytes(len(data) - 12000), "libhdf5"),
        ("latest_v110_step2000.h5", flip(30), "checksum"),
    ],
)
def test_damage_is_found_in_the_structure(run, name, change, reason):
    rewrite(run / name, change)
    found = recognise(run)[name]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_a_file_that_its_writer_did_not_close_is_damaged(tmp_path):
    with h5py.File(tmp_path / "open.h5", "w", libver="latest") as file:
        file["x"] = dense(10)
        file.flush()
        shutil.copy(tmp_path / "open.h5", tmp_path / "killed.h5")
    found = recognise(tmp_path)
    assert found["open.h5"].state is CheckpointState.COMPLETE
    assert "open for writing" in found["killed.h5"].reason


def test_a_flipped_byte_is_found_at_level_full_where_there_is_fletcher32(run):
    rewrite(run / "fletcher_step2500.h5", flip(9560))
    assert recognise(run)["fletcher_step2500.h5"].state is CheckpointState.COMPLETE
    assert recognise(run, Level.FULL)["fletcher_step2500.h5"].state is CheckpointState.DAMAGED


def test_a_user_block_before_the_signature_is_stepped_over(tmp_path):
    with h5py.File(tmp_path / "matlab.h5", "w", userblock_size=512) as file:
        file["epoch"] = np.array([[4.0]])
    assert recognise(tmp_path)["matlab.h5"].epoch == 4
    rewrite(tmp_path / "matlab.h5", lambda data: data[:-8])
    assert recognise(tmp_path)["matlab.h5"].state is CheckpointState.DAMAGED


def test_zeros_that_cut_a_number_in_two_are_a_lost_write(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["rho"] = dense(4000)
        offset = file["rho"].id.get_offset()
    rewrite(tmp_path / "x.h5", lambda data: data[: offset + 8003] + bytes(len(data) - offset - 8003))
    found = recognise(tmp_path, Level.FULL)["x.h5"]
    assert found.state is CheckpointState.DAMAGED
    assert "in two" in found.reason


def test_zeros_from_inside_dense_data_over_what_follows_are_a_doubt(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = dense(4000)
        file["b"] = dense(4000)
        offset = file["a"].id.get_offset()
    rewrite(tmp_path / "x.h5", lambda data: data[: offset + 8000] + bytes(len(data) - offset - 8000))
    assert recognise(tmp_path, Level.FULL)["x.h5"].state is CheckpointState.UNKNOWN


def test_data_of_zeros_are_no_damage(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["rho"] = dense(4000)
        file["momentum"] = np.zeros(4000)
        file["history"] = np.concatenate([dense(100), np.zeros(5000)])
    with h5py.File(tmp_path / "counts.h5", "w") as file:
        file["counts"] = np.concatenate([np.full(100, 5), np.zeros(5000, dtype=int)])
    found = recognise(tmp_path, Level.FULL)
    assert {each.state for each in found.values()} == {CheckpointState.COMPLETE}


def test_a_huge_sparse_data_set_costs_no_more_than_its_file(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        wide = file.create_dataset("wide", shape=(2**50,), chunks=(1024,), compression="gzip", dtype="f8")
        wide[2**49] = 1.0
    assert recognise(tmp_path, Level.FULL)["x.h5"].state is CheckpointState.COMPLETE


def test_chunks_larger_than_memory_are_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        bomb = file.create_dataset("bomb", shape=(2**40,), chunks=(2**28,), compression="gzip", dtype="f8")
        bomb.id.write_direct_chunk((0,), b"x" * 100)
    assert recognise(tmp_path, Level.FULL)["x.h5"].state is CheckpointState.UNKNOWN


def test_links_to_other_files_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["away"] = h5py.ExternalLink("/etc/passwd", "/")
        file["soft"] = h5py.SoftLink("/nothing")
        file["loop"] = file["/"]
        file.attrs["step"] = 3
    found = recognise(tmp_path, Level.FULL)["x.h5"]
    assert (found.state, found.step) == (CheckpointState.COMPLETE, 3)


def test_the_backup_of_keras_tells_its_epoch_beside_it(run):
    shutil.move(run / "cp-0003.weights.h5", run / "latest.weights.h5")
    (run / "training_metadata.json").write_text(json.dumps({"epoch": 7, "batch": 0}))
    found = recognise(run)["latest.weights.h5"]
    assert (found.epoch, found.step, len(found.files)) == (7, 21, 2)
    (run / "training_metadata.json").write_text("{")
    assert recognise(run)["latest.weights.h5"].state is CheckpointState.DAMAGED


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_a_keras_archive_is_whole_with_epoch_and_step(model, level):
    found = recognise(model.parent, level)[model.name]
    assert (found.state, found.epoch, found.step) == (CheckpointState.COMPLETE, 3, 21)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1000],
        lambda _: b"",
        lambda data: bytes(len(data)),
        lambda _: b"Traceback (most recent call last)",
    ],
)
def test_a_broken_keras_archive_is_found_in_the_structure(model, change):
    rewrite(model, change)
    assert recognise(model.parent)[model.name].state is CheckpointState.DAMAGED


def test_flipped_data_of_a_keras_archive_are_found_at_level_full(model):
    rewrite(model, flip(19175))
    assert recognise(model.parent)[model.name].state is CheckpointState.COMPLETE
    assert recognise(model.parent, Level.FULL)[model.name].state is CheckpointState.DAMAGED


def repack(model, change, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(io.BytesIO(model.read_bytes())) as old:
        parts = change({name: old.read(name) for name in old.namelist()})
    with zipfile.ZipFile(model, "w", method) as new:
        for name, data in parts.items():
            new.writestr(name, data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda parts: {**parts, "model.weights.h5": parts["model.weights.h5"][:12000]}, "cut off"),
        (lambda parts: {name: parts[name] for name in parts if name != "config.json"}, "'config.json' is missing"),
        (
            lambda parts: {name: parts[name] for name in parts if not name.endswith("h5")},
            "'model.weights.h5' is missing",
        ),
        (lambda parts: {**parts, "config.json": b"{"}, "no JSON"),
    ],
)
def test_a_whole_archive_of_broken_parts_is_damaged(model, method, change, reason):
    repack(model, change, method)
    found = recognise(model.parent)[model.name]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_a_copy_without_an_epoch_has_that_of_its_twin_at_the_same_step(model):
    shutil.copy(model, model.with_name("best_model.keras"))
    found = recognise(model.parent)["best_model.keras"]
    assert (found.epoch, found.step, found.is_best) == (3, 21, True)


def test_twins_that_disagree_on_the_epoch_tell_none(model):
    shutil.copy(model, model.with_name("best_model.keras"))
    shutil.copy(model, model.with_name("weights.04-1.2.keras"))
    assert recognise(model.parent)["best_model.keras"].epoch is None


def test_a_type_that_numpy_has_not_is_no_damage(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.id, b"moment", h5py.h5t.UNIX_D32LE, space)
    assert recognise(tmp_path, Level.FULL)["x.h5"].state is CheckpointState.COMPLETE


def test_the_number_in_a_name_of_flash_counts_files_and_its_scalars_tell_the_step(tmp_path):
    name = "sedov_hdf5_chk_0004"
    pairs = [(b"nxb".ljust(80), 8), (b"nstep".ljust(80), 1234)]
    with h5py.File(tmp_path / name, "w") as file:
        file["integer scalars"] = np.array(pairs, dtype=[("name", "S80"), ("value", "<i4")])
        file["dens"] = np.ones((2, 8, 8, 8))
    found = recognise(tmp_path)[name]
    assert (found.state, found.step, found.name_step) == (CheckpointState.COMPLETE, 1234, None)
    with h5py.File(tmp_path / name, "a") as file:
        del file["integer scalars"]
    assert recognise(tmp_path)[name].step is None
