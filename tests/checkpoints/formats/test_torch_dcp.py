import pickle
import shutil
from datetime import timedelta

import pytest

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level
from support.checkpoint_bytes import torch_rng

REAL = "torch_dcp/run_single/step_8"


def replaced(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def test_epoch_and_step_are_items_of_the_content(tmp_path):
    copy_real(REAL, tmp_path).rename(tmp_path / "newest")
    found = recognise(tmp_path)["newest"]
    assert (found.state, found.epoch, found.step) == (CheckpointState.COMPLETE, 1, 8)


def test_a_save_that_was_killed_before_the_rename_is_no_checkpoint(tmp_path):
    copy = copy_real(REAL, tmp_path)
    (copy / ".metadata").rename(copy / ".metadata.tmp")
    found = recognise(tmp_path)["step_8"]
    assert found.state is CheckpointState.DAMAGED
    assert ".metadata.tmp was never renamed" in found.reason
    (copy / ".metadata.tmp").touch()
    assert recognise(tmp_path, after=timedelta(0))["step_8"].state is CheckpointState.WRITING


def test_ranks_that_save_without_each_other_have_their_own_metadata(tmp_path):
    copy = copy_real(REAL, tmp_path)
    (copy / ".metadata").rename(copy / "__0.metadata")
    assert recognise(tmp_path)["step_8"].state is CheckpointState.COMPLETE
    shutil.copy(copy / "__0_0.distcp", copy / "__1_0.distcp")
    found = recognise(tmp_path)["step_8"]
    assert found.state is CheckpointState.DAMAGED
    assert "__1.metadata is missing" in found.reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"distributed.checkpoint.metadata", b"distributed.checkpoint.metadatA", "does not hold"),
        (b"__0_0.distcp", b"__0_9.distcp", "__0_9.distcp is missing"),
        (b"__0_0.distcp", b"/etc/passwd\n", "is missing"),
        (b"storage_data", b"storage_datA", "does not say where the items lie"),
        (b"model.fc1.weight", b"model.fc9.weight", "does not say where all of it lies"),
    ],
)
def test_metadata_that_do_not_fit_are_damage(old, new, reason, tmp_path):
    copy = copy_real(REAL, tmp_path)
    replaced(copy / ".metadata", old, new)
    found = recognise(tmp_path)["step_8"]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_callables_in_metadata_are_named_and_not_called(tmp_path):
    copy = copy_real(REAL, tmp_path)
    (copy / ".metadata").write_bytes(b"\x80\x04cos\nsystem\n(S'touch " + bytes(copy) + b"/called'\ntR.")
    found = recognise(tmp_path, Level.FULL)["step_8"]
    assert (found.state, found.unsafe) == (CheckpointState.DAMAGED, ("os.system",))
    assert not (copy / "called").exists()


def test_items_may_not_overlap(tmp_path):
    """Else a small file could ask for the same gigabytes to be read a million times."""
    copy = copy_real(REAL, tmp_path)
    (copy / ".metadata").write_bytes(metadata([(f"item{count}", 0, 500) for count in range(3)]))
    found = recognise(tmp_path)["step_8"]
    assert found.state is CheckpointState.DAMAGED
    assert "overlaps" in found.reason


def metadata(items):
    """Return a pickle of metadata that place (name, offset, length) in the first file."""

    def instance(module, name, state):
        return b"c" + module + b"\n" + name + b"\n)\x81" + pickle.dumps(state, 2)[2:-1] + b"b"

    module = b"torch.distributed.checkpoint.metadata"
    described = b"}(" + b"".join(
        pickle.dumps(name, 2)[2:-1] + instance(module, b"BytesStorageMetadata", {}) for name, _, _ in items
    )
    placed = b"}(" + b"".join(
        instance(module, b"MetadataIndex", {"fqn": name, "offset": None, "index": None})
        + instance(
            b"torch.distributed.checkpoint.filesystem",
            b"_StorageInfo",
            {"relative_path": "__0_0.distcp", "offset": offset, "length": length},
        )
        for name, offset, length in items
    )
    state = b"}(X\x13\0\0\0state_dict_metadata" + described + b"uX\x0c\0\0\0storage_data" + placed + b"uu"
    return b"\x80\x02c" + module + b"\nMetadata\n)\x81" + state + b"b."


@pytest.mark.parametrize(
    ("offset", "length", "reason"),
    [(0, 1 << 40, "the file has"), (1 << 62, 500, "the file has"), (-1, 500, "no place"), (0, 0, "item")],
)
def test_places_are_bounded_by_the_file(offset, length, reason, tmp_path):
    copy = copy_real(REAL, tmp_path)
    (copy / ".metadata").write_bytes(metadata([("item", offset, length)]))
    found = recognise(tmp_path)["step_8"]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_parts_of_a_checkpoint_take_the_step_of_the_directory_around_them(tmp_path):
    (tmp_path / "step_500").mkdir()
    copy = copy_real(REAL, tmp_path / "step_500").rename(tmp_path / "step_500" / "optim")
    (copy / ".metadata").write_bytes(metadata([]))
    assert recognise(tmp_path)["step_500/optim"].step == 500


@pytest.mark.parametrize("size_bytes", [0, 100])
def test_a_file_of_torch_beside_the_shards_that_is_cut_off_is_damage(tmp_path, size_bytes):
    copy = copy_real(REAL, tmp_path)
    (copy / "loader_state_0.pth").write_bytes(torch_rng())
    assert recognise(tmp_path)["step_8"].state is CheckpointState.COMPLETE
    (copy / "loader_state_0.pth").write_bytes(torch_rng()[:size_bytes])
    found = recognise(tmp_path)["step_8"]
    assert found.state is CheckpointState.DAMAGED
    assert "loader_state_0.pth" in found.reason


def test_a_plain_pickle_beside_the_shards_is_no_damage(tmp_path):
    copy = copy_real(REAL, tmp_path)
    (copy / "dataloader.pt").write_bytes(pickle.dumps({"epoch": 3}))
    assert recognise(tmp_path)["step_8"].state is CheckpointState.COMPLETE
