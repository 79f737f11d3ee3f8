"""Programs whose files have the names of other programs' checkpoints, or names whose numbers mislead."""

import gzip
import pickle
from datetime import timedelta

import numpy as np
import pytest

from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.model import CheckpointState
from layouts.played_saves import HOUR, play, put
from layouts.real import pipeline
from layouts.real.contents import binary
from layouts.real.layout import Save
from layouts.real.simulation import CPT
from support import checkpoint_bytes
from support.checkpoint_bytes import torch_state

LATER = pipeline.START + 50 * HOUR
PROTOCOL_BUFFER = b"\x0a\x2a\x0a\x0cconv1.weight\x12\x1a\x08\x40\x12\x07Float32\x1a\x0d" + bytes(range(13))  # MindSpore
PARAMETERS_OF_PADDLE = pickle.dumps({"conv.weight": np.ones((2, 2), np.float32)}, protocol=2)


def speechbrain(hour):
    """One save of SpeechBrain's Checkpointer: what is not a tensor is text under the same suffix."""
    directory = f"save/CKPT+2026-11-20+{hour:02}-05-10+00"
    return {
        f"{directory}/CKPT.yaml": b"# yamllint disable\nWER: 12.5\nend-of-epoch: true\nunixtime: 1763640310.5\n",
        f"{directory}/model.ckpt": checkpoint_bytes.torch_weights(),
        f"{directory}/optimizer.ckpt": checkpoint_bytes.torch_optimizer(),
        f"{directory}/brain.ckpt": b"avg_train_loss: 0.3\noptimizer_step: 100\nstep: 10\n",
        f"{directory}/counter.ckpt": b"%d" % hour,
        f"{directory}/dataloader-TRAIN.ckpt": b"100",
    }


def paddle_optimizer(epoch):
    moment = np.ones((2, 2), np.float32)
    state = {"conv2d_0.w_0_moment1_0": moment, "conv2d_0.w_0_moment2_0": moment}
    return pickle.dumps({**state, "LR_Scheduler": {"last_epoch": epoch}, "last_epoch": epoch}, protocol=2)


def paddle(stem, epoch):
    return {f"{stem}.pdparams": PARAMETERS_OF_PADDLE, f"{stem}.pdopt": paddle_optimizer(epoch)}


FOREIGN = {
    "SpeechBrain": speechbrain(12) | speechbrain(14),
    "MindSpore": {"ckpt/resnet-1_1875.ckpt": PROTOCOL_BUFFER, "ckpt/resnet_1-1_1875.ckpt": PROTOCOL_BUFFER},
    "MindSpore, ranks": {f"rank_{rank}/wide-1_100.ckpt": PROTOCOL_BUFFER for rank in range(4)},
    "Torch in Lua": {"model_1.t7": b"\3\0\0\0\1\0\0\0\2\0\0\0" + bytes(range(40))},
    "Desmond": {"desmond_md_job_1.cpt": binary("desmond")(Save())},
    "MOOSE, meshes in several files": {"out_cp/0010-mesh.cpa.gz/1/header.gz": gzip.compress(b"mesh" * 20)},
}


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN)
def test_what_another_program_wrote_is_not_called_damaged(tmp_path, files):
    for name, data in files.items():
        put(tmp_path, name, data, pipeline.START)
    assert not list_damaged(inspect_tree(tmp_path, now=LATER))


TORCH = torch_state(1, 100)
GARBLED = b"\xa5" * 128
ERRORS = {  # of S3, GitHub and Hugging Face, as `curl` without --fail saves them
    "xml": b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>',
    "text": b"404: Not Found",
    "sentence": b"Entry not found",
    "json": b'{"error":"Repository not found"}',
    "page": b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN">\n<html>',
}
BROKEN = {
    "a garbled block": {
        "model.ckpt": GARBLED + TORCH[len(GARBLED) :],
        "md.cpt": GARBLED + CPT(Save(s=100))[len(GARBLED) :],
    },
    "an answer of a server": {f"{kind}/model.ckpt": text for kind, text in ERRORS.items()},
    "a garbled byte": {"model.ckpt": b"X" + TORCH[1:], "md.cpt": b"X" + CPT(Save(s=100))[1:]},
    "cut off": {"model.ckpt": TORCH[:2], "md.cpt": CPT(Save(s=100))[:2]},
    "zeros": {"model.ckpt": bytes(len(TORCH)), "md.cpt": bytes(4096)},
    "a web page": {"model.ckpt": b"<!doctype html><html><body>404</body></html>"},
}


@pytest.mark.parametrize("files", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_still_called_damaged(tmp_path, files):
    for name, data in files.items():
        put(tmp_path, name, data, pipeline.START)
    assert len(list_damaged(inspect_tree(tmp_path, now=LATER))) == len(files)


def list_damaged(found):
    return [(each.path.name, each.reason) for each in found.checkpoints if each.state is CheckpointState.DAMAGED]


ORDINARY = {
    "PaddleDetection": [paddle(f"output/ppyoloe/{epoch}", epoch) for epoch in range(6)],
    "PaddleOCR": [paddle(f"output/iter_epoch_{epoch}", epoch) for epoch in range(1, 6)],
    "PaddleSeg": [paddle(f"output/iter_{1000 * epoch}/model", epoch) for epoch in range(1, 6)],
    "chains of a sampler": [{f"chain_{step}.pkl": checkpoint_bytes.pickle_state(None, step)} for step in (50, 90, 130)],
}


@pytest.mark.parametrize("saves", ORDINARY.values(), ids=ORDINARY)
def test_of_an_ordinary_training_the_newest_save_stays_alone(tmp_path, saves):
    assert play(tmp_path, [(2 * at, files) for at, files in enumerate(saves, 1)]) == saves[-1].keys()


def test_models_of_a_directory_with_a_number_are_not_members_of_different_steps(tmp_path):
    for epoch in (1, 2):
        put(tmp_path, f"sweep/0/model_{epoch}.pt", torch_state(epoch, 100 * epoch), pipeline.START + epoch * HOUR)
    assert not list_damaged(inspect_tree(tmp_path, now=LATER))


def test_a_member_is_not_missing_before_it_comes_as_late_as_in_the_saves_before(tmp_path):
    for step in (1, 2, 3):
        at = pipeline.START + 2 * step * HOUR
        put(tmp_path, f"gpt2_step_{step}.pt", torch_state(step=step), at)
        if step < 3:
            put(tmp_path, f"gpt3_step_{step}.pt", torch_state(step=step), at + timedelta(minutes=40))
    assert not list_damaged(inspect_tree(tmp_path, now=at + timedelta(minutes=30)))
    assert list_damaged(inspect_tree(tmp_path, now=at + timedelta(minutes=60)))


def test_a_member_with_an_old_time_of_writing_makes_no_save_seem_to_take_years(tmp_path):
    years_ago = pipeline.START - 9000 * HOUR  # as `cp -p` leaves it
    for step in (1, 2, 3):
        at = pipeline.START + 2 * step * HOUR
        put(tmp_path, f"step_{step}/base_model.pt", checkpoint_bytes.torch_weights(), years_ago)
        for name in ("model", "optimizer") if step < 3 else ("model",):
            put(tmp_path, f"step_{step}/{name}.pt", torch_state(step=step), at)
    assert list_damaged(inspect_tree(tmp_path, now=at + 2 * HOUR))
