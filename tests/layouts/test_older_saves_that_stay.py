"""Older saves that stay because the newest one does not replace them, or because something points at them."""

import os
from dataclasses import replace

import pytest

from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.model import CheckpointState
from layouts.mixed_saves import in_turn
from layouts.played_saves import HOUR, list_kept, play, prune, put
from layouts.real import pipeline
from layouts.real.contents import PARAMETERS, made
from support import checkpoint_bytes
from support.checkpoint_bytes import torch_state

LATER = pipeline.START + 50 * HOUR


def test_the_last_save_with_an_optimizer_stays_if_newer_ones_have_none(tmp_path):
    model = {"model": PARAMETERS}
    saves = [
        (f"epoch_{epoch}.pt", torch_state(epoch) if epoch % 3 == 0 else made.torch_file({**model, "epoch": epoch}))
        for epoch in range(1, 9)
    ]
    assert play(tmp_path, in_turn(*saves)) == {"epoch_6.pt", "epoch_8.pt"}


@pytest.mark.parametrize("prunes_each", [False, True])
def test_the_newest_save_does_not_look_damaged_once_those_with_as_few_ranks_are_pruned(tmp_path, prunes_each):
    watch = pipeline.Watch(tmp_path, os.geteuid())
    for step in range(1, 8):
        at = pipeline.START + 2 * step * HOUR
        for rank in range(4 if step <= 3 else 2):
            put(tmp_path, f"step_{step}00/rank{rank}.pt", checkpoint_bytes.torch_rank_state(rank, step=100 * step), at)
        watch.look(at + pipeline.UNTIL_SEEN)
        if prunes_each and step > 4:
            prune_but(tmp_path, watch, at + HOUR, "step_300")
    prune_but(tmp_path, watch, at + 3 * HOUR, "step_300")
    found = inspect_tree(tmp_path, now=LATER).checkpoints
    assert not [each.reason for each in found if each.state is CheckpointState.DAMAGED]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step_300", "step_600", "step_700"]


def prune_but(root, watch, now, name):
    """Prune, while a running attempt may have loaded one of more ranks."""
    watch.records = [replace(each, is_pinned=each.checkpoint.path.name == name) for each in watch.records]
    watch.look(now)
    prune(root, watch, now + HOUR / 2)
    for path in root.iterdir():
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


BEST = 2  # of eight epochs


@pytest.mark.parametrize("name", ["epoch_{}.pt", "checkpoint_{:06}/state.pt", "checkpoint-{}/model.pt"])
def test_the_save_that_a_program_kept_past_newer_ones_stays(tmp_path, name):
    watch = pipeline.Watch(tmp_path, os.geteuid())
    for epoch in range(1, 9):
        at = pipeline.START + 2 * epoch * HOUR
        put(tmp_path, name.format(epoch), torch_state(epoch), at)
        if epoch - 1 not in {0, BEST}:
            (tmp_path / name.format(epoch - 1)).unlink()
        watch.look(at + pipeline.UNTIL_SEEN)
    watch.look(at + 2 * HOUR)
    assert list_kept(tmp_path, watch, at + 3 * HOUR) == {name.format(BEST), name.format(8)}


@pytest.mark.parametrize("name", ["epoch_{}.pt", "checkpoint_{:06}/state.pt"])
def test_what_a_restart_from_an_older_save_overwrote_was_deleted_by_no_rotation(tmp_path, name):
    watch = pipeline.Watch(tmp_path, os.geteuid())
    for number, epoch in enumerate((1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 7), 1):
        at = pipeline.START + 2 * number * HOUR
        put(tmp_path, name.format(epoch), torch_state(epoch), at)
        watch.look(at + pipeline.UNTIL_SEEN)
    watch.look(at + 2 * HOUR)
    assert list_kept(tmp_path, watch, at + 3 * HOUR) == {name.format(7)}


NOTES = {
    "best.txt": "epoch_3.pt\n",
    "best_checkpoint.json": '{"path": "epoch_3.pt", "val_loss": 0.3}',
    "best_model_path.txt": "/elsewhere/run/epoch_3.pt\n",
    "resume_from.txt": "epoch_3.pt\n",
    "KEEP": "epoch_3.pt is that of the paper",
    "best_k_models.yaml": "/elsewhere/run/epoch_3.pt: 0.3\n",
}


@pytest.mark.parametrize("name", NOTES)
def test_what_a_note_beside_it_names_stays_and_is_not_taken_for_the_newest(tmp_path, name):
    saves = in_turn(*((f"epoch_{epoch}.pt", torch_state(epoch, 100 * epoch)) for epoch in range(1, 7)))
    saves[-1][1][name] = NOTES[name].encode()
    watch = watch_all(tmp_path, saves)
    assert list_kept(tmp_path, watch, LATER) == {"epoch_3.pt", "epoch_6.pt"}
    assert not any(each.checkpoint.is_newest for each in watch.records)


@pytest.mark.parametrize(("name", "named"), [("checkpoints.json", range(1, 7)), ("log.txt", [3]), ("best_3.txt", [3])])
def test_a_list_of_all_and_other_texts_keep_nothing(tmp_path, name, named):
    saves = in_turn(*((f"epoch_{epoch}.pt", torch_state(epoch, 100 * epoch)) for epoch in range(1, 7)))
    saves[-1][1][name] = " ".join(f"epoch_{epoch}.pt" for epoch in named).encode()
    assert list_kept(tmp_path, watch_all(tmp_path, saves), LATER) == {"epoch_6.pt"}


def watch_all(root, saves):
    watch = pipeline.Watch(root, os.geteuid())
    for hours, files in saves:
        at = pipeline.START + hours * HOUR
        for name, data in files.items():
            put(root, name, data, at)
        watch.look(at + pipeline.UNTIL_SEEN)
    watch.look(LATER)
    return watch


@pytest.mark.parametrize("name", ["epoch_{}.pt", "checkpoint_{:06}/state.pt"])
def test_a_note_counts_beside_files_that_are_not_read_again_and_no_longer_once_it_is_deleted(tmp_path, name):
    for epoch in range(1, 5):
        put(tmp_path, name.format(epoch), torch_state(epoch), pipeline.START + epoch * HOUR)
    known = inspect_tree(tmp_path, now=LATER).checkpoints
    put(tmp_path, "best.txt", name.format(3).partition("/")[0].encode(), pipeline.START + 9 * HOUR)
    noted = inspect_tree(tmp_path, now=LATER, known=known).checkpoints
    assert [each.epoch for each in noted if each.is_listed] == [3]
    (tmp_path / "best.txt").unlink()
    assert not any(each.is_listed for each in inspect_tree(tmp_path, now=LATER, known=noted).checkpoints)
