import re
import shutil

import pytest

from checkpoints.formats.real_files import DATA, copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

CLASSIC = "megatron/run_classic_tp2/iter_0000020"
PIPELINE = "megatron/run_classic_pp2/iter_0000030"
DISTRIBUTED = "megatron/run_mcore_torch_dist/iter_0000020"


@pytest.mark.parametrize(
    ("word", "newest", "note"),
    [
        ("20", True, None),
        ("20\n", True, None),
        ("30", None, "latest_checkpointed_iteration.txt names iter_0000030, which is missing"),
        ("release", None, "latest_checkpointed_iteration.txt names release, which is missing"),
        ("", None, "latest_checkpointed_iteration.txt names nothing"),
    ],
)
@pytest.mark.parametrize("checkpoint", [CLASSIC, DISTRIBUTED])
def test_the_tracker_names_the_newest_or_is_reported(checkpoint, word, newest, note, tmp_path):
    copy_real(checkpoint, tmp_path)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(word)
    found = recognise(tmp_path)["iter_0000020"]
    assert (found.state, found.is_newest, found.reason) == (CheckpointState.COMPLETE, newest, note)


@pytest.mark.parametrize(("checkpoint", "rank"), [(CLASSIC, "mp_rank_00"), (PIPELINE, "mp_rank_00_001")])
def test_a_rank_that_the_arguments_speak_of_is_missed(checkpoint, rank, tmp_path):
    copy = copy_real(checkpoint, tmp_path)
    shutil.rmtree(copy / rank)
    found = recognise(tmp_path)[copy.name]
    assert found.state is CheckpointState.DAMAGED
    assert f"{rank} is missing" in found.reason


def test_ranks_of_tensors_pipelines_and_experts_make_a_grid(tmp_path):
    copy = copy_real(PIPELINE, tmp_path)
    for rank in ("mp_rank_00_000", "mp_rank_00_001"):
        shutil.copytree(copy / rank, copy / f"{rank}_001")
        (copy / rank).rename(copy / f"{rank}_000")
    assert recognise(tmp_path)[copy.name].state is CheckpointState.COMPLETE
    shutil.rmtree(copy / "mp_rank_00_001_000")
    assert "mp_rank_00_001_000 is missing" in recognise(tmp_path)[copy.name].reason


def test_a_rank_of_another_iteration_is_damage(tmp_path):
    copy = copy_real(PIPELINE, tmp_path)
    file = copy / "mp_rank_00_001" / "model_optim_rng.pt"
    whole = file.read_bytes()
    memo = re.search(rb"iterationq(.)", whole, re.DOTALL)[1]  # the arguments have an entry of the same name before
    assert whole.count(b"h" + memo + b"K\x1e") == 1
    file.write_bytes(whole.replace(b"h" + memo + b"K\x1e", b"h" + memo + b"K\x14"))
    found = recognise(tmp_path)[copy.name]
    assert found.state is CheckpointState.DAMAGED
    assert "of iteration" in found.reason


def test_a_format_of_shards_that_is_not_read_here_is_unknown(tmp_path):
    copy = copy_real(DISTRIBUTED, tmp_path)
    (copy / "metadata.json").write_text('{"sharded_backend": "zarr", "sharded_backend_version": 1}')
    found = recognise(tmp_path)[copy.name]
    assert found.state is CheckpointState.UNKNOWN
    assert "'zarr'" in found.reason


def test_without_common_state_and_metadata_it_is_one_of_fsdp_dtensor(tmp_path):
    copy = copy_real(DISTRIBUTED, tmp_path)
    (copy / "common.pt").unlink()
    (copy / "metadata.json").unlink()
    found = recognise(tmp_path)[copy.name]
    assert (found.state, found.format, found.step) == (CheckpointState.COMPLETE, "megatron", 20)


def test_directories_of_ranks_with_files_of_a_user_s_program_are_not_megatron_s(tmp_path):
    for rank in ("mp_rank_00_000", "mp_rank_00_001"):
        place = tmp_path / "ckpt_epoch_1" / rank
        place.mkdir(parents=True)
        shutil.copy(DATA / CLASSIC / "mp_rank_00" / "model_optim_rng.pt", place / "ckpt.pt")
    assert {(each.format, each.state) for each in recognise(tmp_path).values()} == {("torch", CheckpointState.COMPLETE)}


def test_an_iteration_in_which_no_rank_has_its_model_is_damaged(tmp_path):
    copy = copy_real(CLASSIC, tmp_path)
    for found in copy.glob("mp_rank_*/model_optim_rng.pt"):
        found.rename(found.with_name("other.pt"))
    assert "model_optim_rng.pt is missing" in recognise(tmp_path)[copy.name].reason
