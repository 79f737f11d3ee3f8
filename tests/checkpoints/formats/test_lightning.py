import shutil

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState

TOP_K = "lightning/run_topk/checkpoints/"


def test_only_the_furthest_word_on_the_best_counts(tmp_path):
    """Each checkpoint says what was the best when it was written, and most were the best then."""
    for name in (
        "epoch=03-val_loss=0.900-val_acc=0.67.ckpt",
        "epoch=04-val_loss=0.897-val_acc=0.68.ckpt",
        "last.ckpt",
    ):
        copy_real(TOP_K + name, tmp_path)
    found = recognise(tmp_path)
    assert [name for name, checkpoint in found.items() if checkpoint.is_best] == [
        "epoch=04-val_loss=0.897-val_acc=0.68.ckpt"
    ]


def test_a_best_in_another_directory_is_not_one_of_the_same_name_here(tmp_path):
    (tmp_path / "other").mkdir()
    copy_real(TOP_K + "last.ckpt", tmp_path / "other")
    copy_real(TOP_K + "epoch=03-val_loss=0.900-val_acc=0.67.ckpt", tmp_path).rename(
        tmp_path / "epoch=04-val_loss=0.897-val_acc=0.68.ckpt"
    )
    assert not any(checkpoint.is_best for checkpoint in recognise(tmp_path).values())


def test_metrics_come_from_content_and_name(tmp_path):
    name = "epoch=04-val_loss=0.897-val_acc=0.68.ckpt"
    copy_real(TOP_K + name, tmp_path)
    metrics = recognise(tmp_path)[name].metrics
    assert round(metrics["val_loss"], 6) == 0.896852
    assert metrics["val_acc"] == 0.68


def test_the_content_tells_lightning_from_other_files_of_torch(tmp_path):
    copy_real(TOP_K + "last.ckpt", tmp_path).rename(tmp_path / "mine.ckpt")
    copy_real("torch/run_epochs/epoch_010.pt", tmp_path).rename(tmp_path / "last.ckpt")
    formats = {name: checkpoint.format for name, checkpoint in recognise(tmp_path).items()}
    assert formats == {"mine.ckpt": "lightning", "last.ckpt": "torch"}


def test_the_number_of_a_requeue_is_no_step(tmp_path):
    (tmp_path / "hpc_ckpt_7.ckpt").write_bytes(b"")
    found = recognise(tmp_path)["hpc_ckpt_7.ckpt"]
    assert (found.state, found.epoch, found.step) == (CheckpointState.DAMAGED, None, None)


def test_a_link_names_the_newest(tmp_path):
    name = "epoch=04-val_loss=0.897-val_acc=0.68.ckpt"
    copy_real(TOP_K + name, tmp_path)
    (tmp_path / "last.ckpt").symlink_to(name)
    found = recognise(tmp_path)
    assert {path: checkpoint.is_newest for path, checkpoint in found.items()} == {name: True}


def test_a_sharded_one_needs_its_own_state_beside_the_shards(tmp_path):
    copy = copy_real("torch_dcp/run_single/step_8", tmp_path).rename(tmp_path / "epoch=3-step=400.ckpt")
    found = recognise(tmp_path)[copy.name]
    assert (found.format, found.state, found.step) == ("lightning", CheckpointState.DAMAGED, 8)
    assert "meta.pt is missing" in found.reason
    copy_real(TOP_K + "last.ckpt", copy).rename(copy / "meta.pt")
    found = recognise(tmp_path)[copy.name]
    assert (found.state, found.epoch, found.step) == (CheckpointState.COMPLETE, 4, 40)


def test_one_of_deepspeed_is_a_directory_with_its_tag(tmp_path):
    copy = tmp_path / "epoch=2-step=20.ckpt"
    copy.mkdir()
    copy_real("deepspeed/run_zero1_tags/epoch_2", copy).rename(copy / "checkpoint")
    assert "latest is missing" in recognise(tmp_path)[copy.name].reason
    (copy / "latest").write_text("checkpoint")
    found = recognise(tmp_path)[copy.name]
    assert (found.format, found.state, found.step) == ("lightning", CheckpointState.COMPLETE, 20)
    shutil.rmtree(copy / "checkpoint")
    (left,) = recognise(tmp_path).values()
    assert (left.format, left.reason) == ("marker", "latest names checkpoint, which is missing")
