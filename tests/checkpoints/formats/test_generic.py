import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState
from support.checkpoint_bytes import torch_state


@pytest.mark.parametrize(
    ("content", "state", "reason"),
    [
        (b"", CheckpointState.DAMAGED, "empty"),
        (bytes(100_000), CheckpointState.DAMAGED, "only zeros"),
        (bytes(100_000) + b"\x01\xff", CheckpointState.COMPLETE, None),
        (b"step 12\n" * 100, CheckpointState.COMPLETE, "a text file"),
        ("schön\n".encode() * 800, CheckpointState.COMPLETE, "a text file"),
        (b"\x93\x01 own binary layout", CheckpointState.COMPLETE, None),
    ],
)
def test_of_an_unknown_format_it_is_said_what_can_be_seen(tmp_path, content, state, reason):
    (tmp_path / "chain_ckpt_12.dat").write_bytes(content)
    found = recognise(tmp_path)["chain_ckpt_12.dat"]
    assert (found.format, found.state, found.step) == ("generic", state, 12)
    assert found.reason == reason or reason in found.reason


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n",
            "a pointer of Git LFS lies in its place",
        ),
        ("<!DOCTYPE html>\n<html><head><title>403</title></head></html>\n", "a web page lies in its place"),
        ("\n<!-- login -->\n<HTML lang=en>", "a web page lies in its place"),
    ],
)
@pytest.mark.parametrize("name", ["checkpoint_50", "model.ckpt-401", "chain_ckpt_12.dat", "ckpt_12.bin"])
def test_what_lies_in_place_of_a_download_is_damage_under_every_name(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    found = recognise(tmp_path)[name]
    assert (found.state, found.reason) == (CheckpointState.DAMAGED, words)


@pytest.mark.parametrize("name", ["restart.100", "chain_ckpt_12.dat", "checkpoint_50", "model.ckpt-401"])
def test_an_error_message_of_python_is_no_checkpoint(tmp_path, name):
    (tmp_path / name).write_text("Traceback (most recent call last):\n  MemoryError\n")
    assert recognise(tmp_path)[name].state is CheckpointState.DAMAGED


@pytest.mark.parametrize("suffix", ["bin", "tar", "tar.gz", "nemo", "index"])
def test_text_under_the_name_of_a_binary_format_is_damage(tmp_path, suffix):
    (tmp_path / f"ckpt_12.{suffix}").write_text("slurmstepd: error: *** STEP 1.0 CANCELLED ***\n")
    found = recognise(tmp_path)[f"ckpt_12.{suffix}"]
    assert (found.state, found.reason) == (CheckpointState.DAMAGED, "it holds text in place of what its name says")


def test_a_marker_that_names_what_is_there_under_no_known_format_is_no_damage(tmp_path):
    (tmp_path / "latest").write_text("epoch_3\n")
    (tmp_path / "epoch_3").mkdir()
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / "latest").write_text("v1.2.3\n")
    assert recognise(tmp_path) == {}


def test_the_marker_of_detectron2_is_no_checkpoint_and_one_that_names_nothing_is_damage(tmp_path):
    marker = tmp_path / "last_checkpoint"
    marker.write_text("model_0004999.pth")
    found = recognise(tmp_path)["last_checkpoint"]
    assert (found.state, found.format) == (CheckpointState.DAMAGED, "marker")
    assert found.reason == "last_checkpoint names model_0004999.pth, which is missing"
    (tmp_path / "model_0004999.pth").write_bytes(torch_state(step=4999))
    assert set(recognise(tmp_path)) == {"model_0004999.pth"}


def test_the_path_in_the_marker_of_mmengine_may_lead_elsewhere(tmp_path):
    (tmp_path / "last_checkpoint").write_text("/scratch/alice/checkpoints/epoch_12.pth")
    assert recognise(tmp_path) == {}
