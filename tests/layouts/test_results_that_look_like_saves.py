"""What must stay though its name looks like a save: the last of several trainings, a result, what a person copied.

Each case is what people have in one directory, saved over two days and looked at after each save.
"""

import os
import shutil
from datetime import timedelta

import pytest

from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.model import CheckpointState
from layouts.mixed_saves import CASES, best_by, by_two, in_turn, model, monitored
from layouts.played_saves import HOUR, list_kept, play, put
from layouts.real import pipeline
from layouts.real.layout import Save
from layouts.real.research import icefall
from support import checkpoint_bytes


@pytest.mark.parametrize("name", CASES)
def test_it_stays(tmp_path, name):
    saves, must_stay = CASES[name]
    assert must_stay <= play(tmp_path, saves)


@pytest.mark.parametrize("told", ["nothing", "epoch", "step"])
@pytest.mark.parametrize("prunes_each", [False, True])
@pytest.mark.parametrize("seeds", [(42, 123, 1337), (1, 2, 3, 4, 5)], ids=["three", "five"])
@pytest.mark.parametrize("name", ["ckpt_{}_{}.pt", "checkpoint_{}/{}.pt"])
def test_the_last_of_each_seed_stays_though_a_word_makes_its_number_one_of_a_save(
    tmp_path, name, seeds, prunes_each, told
):
    counted = {"nothing": {}, "epoch": {"epoch": 1}, "step": {"step": 100}}[told]
    saves = [
        (name.format(seed, epoch), checkpoint_bytes.torch_state(**{key: each * epoch for key, each in counted.items()}))
        for seed in seeds
        for epoch in (1, 2, 3, 4)
    ]
    kept = play(tmp_path, in_turn(*saves), prunes_each=prunes_each)
    assert {name.format(seed, 4) for seed in seeds} <= kept


@pytest.mark.parametrize("told", [{}, {"step": 100}])
@pytest.mark.parametrize("name", ["checkpoint_{save}/ckpt_{rank}.pt", "iter_{save}/ckpt_{rank}.pt"])
def test_older_saves_go_though_a_word_makes_the_numbers_of_their_ranks_those_of_saves(tmp_path, name, told):
    saves = []
    for save in range(1, 6):
        step = {key: each * save for key, each in told.items()}
        for rank in range(4):
            data = checkpoint_bytes.torch_rank_state(rank, **step)
            saves.append((2.0 * save, {name.format(save=save, rank=rank): data}))
    assert play(tmp_path, saves) == {name.format(save=5, rank=rank) for rank in range(4)}


@pytest.mark.parametrize("name", ["checkpoint_{}_{}.pt", "model_{}_{}.pt"])
def test_older_epochs_go_where_the_content_says_which_number_is_the_epoch(tmp_path, name):
    batches = (500, 1000, 1500)
    saves = [
        (name.format(epoch, batch), checkpoint_bytes.torch_state(epoch)) for epoch in range(5) for batch in batches
    ]
    assert play(tmp_path, in_turn(*saves)) == {name.format(4, batch) for batch in batches}


@pytest.mark.parametrize("name", ["models that train at once", "members that train at once"])
def test_older_saves_of_the_same_trainings_go(tmp_path, name):
    saves, _ = CASES[name]
    assert len(play(tmp_path, saves)) < len({name for _, files in saves for name in files})


@pytest.mark.parametrize(
    "names",
    [
        ["ckpt_{n}M.pt"],
        ["model_{n}0M.pt"],
        ["checkpoint_{n}00K.pt"],
        ["ckpt_{n}0B.pt"],
        ["{n}0B/model.pt"],
        ["model_{n}epochs_{n}00steps.pth"],
        ["model_epochs_{n}_iters_{n}00.pth"],
        ["temp_{n}00.pt"],
        ["ckpt_T{n}00.pt"],
        ["olmo/step{n}00-tokens{n}B/model.pt"],
        ["step_{n}00_{n}M_tokens.pt"],
        ["epoch={n}-step={n}00-tok={n}B.ckpt"],
        ["policy_T{n}00.pt"],
        ["ckpt_{n}_step_{n}00.pt"],
        ["epoch_{n}/step_{n}00.pt"],
        ["epoch_{before}/epoch_{n}.pt"],
        ["iter_{n}/checkpoint-{n}00/model.pt"],
        ["iter_1{n}/checkpoint-1{n}00/model.pt"],
        ["ckpt_step_{n}00_steps100000.pt"],
        ["epoch{n}_epochs100.pt"],
        ["step_{n}00/ckpt_step_{n}00.pt"],
        ["step_{n}00/checkpoint-{n}00/model.pt"],
        ["epoch_{n}/model_{before}.pt", "epoch_{n}/optim_{before}.pt"],
        ["step_{n}000/model_{n}k.pt", "step_{n}000/optim_{n}k.pt"],
        ["epoch_{n}/model-{hashed}.pt", "epoch_{n}/optim-{hashed}.pt"],
        ["step_{n}00/model.pt", "step_{n}00/rng_seed{seed}.pt"],
    ],
)
def test_of_an_ordinary_training_the_newest_stays_alone(tmp_path, names):
    saves = []
    for n in range(1, 7):
        numbers = {"n": n, "before": n - 1, "hashed": f"{n * 7919:06x}", "seed": n * 37}
        state = checkpoint_bytes.torch_state(n, 100 * n)
        saves.append((2.0 * n, {name.format(**numbers): state for name in names}))
    assert len(play(tmp_path, saves)) == len(names)


def test_of_icefall_within_one_epoch_the_newest_stays_alone(tmp_path):
    saves = in_turn(*((f"checkpoint-{4000 * n}.pt", icefall(Save(e=1, s=4000 * n))) for n in (1, 2, 3, 5, 6)))
    assert play(tmp_path, saves) == {"checkpoint-24000.pt"}


def test_what_lightning_does_not_call_its_best_goes_though_its_name_says_so(tmp_path):
    kept = play(tmp_path, best_by("fid_score", 0.5, 0.12, 0.2, 0.3, 0.25, 0.22))
    assert kept == {"best-epoch=1-fid_score=0.12.ckpt", "best-epoch=5-fid_score=0.22.ckpt"}


@pytest.mark.parametrize("names", ["best-epoch={}-val_loss=0.{}.ckpt", "epoch={}-step={}.ckpt"])
def test_an_older_checkpoint_that_is_read_again_does_not_change_which_is_the_best(tmp_path, names):
    for epoch in range(6):
        best = min(epoch, 3)
        name = tmp_path / names.format(epoch, 9 - best)
        put(tmp_path, name, monitored(names.format(best, 9 - best), epoch), pipeline.START + epoch * HOUR)
    first = inspect_tree(tmp_path, now=pipeline.START + 9 * HOUR)
    (tmp_path / names.format(1, 8)).chmod(0o640)
    again = inspect_tree(tmp_path, now=pipeline.START + 11 * HOUR, known=first.checkpoints)
    assert names.format(3, 6) in {each.path.name for each in again.checkpoints if each.is_best}


def test_a_marker_beside_the_only_checkpoint_of_its_directory_keeps_no_older_one(tmp_path):
    saves = in_turn(*((f"round_{n}/epoch_3.pth", model(2, 10 * n)) for n in range(1, 7)))
    for n, (_, files) in enumerate(saves, start=1):
        files[f"round_{n}/last_checkpoint"] = f"/work/round_{n}/epoch_3.pth".encode()
    assert play(tmp_path, saves) == {"round_6/epoch_3.pth"}


def test_what_lightning_calls_its_best_is_still_known_when_files_are_not_read_again(tmp_path):
    for hours, files in best_by("fid_score", 0.5, 0.12, 0.2):
        for name, data in files.items():
            put(tmp_path, name, data, pipeline.START + hours * HOUR)
    first = inspect_tree(tmp_path, now=pipeline.START + 9 * HOUR)
    put(tmp_path, "notes.json", b"{}", pipeline.START + 10 * HOUR)
    again = inspect_tree(tmp_path, now=pipeline.START + 11 * HOUR, known=first.checkpoints)
    assert [each.path.name for each in again.checkpoints if each.is_best] == ["best-epoch=1-fid_score=0.12.ckpt"]


@pytest.mark.parametrize(
    "names",
    [
        ("by_loss/epoch={}.ckpt", "by_acc/epoch={}.ckpt"),
        ("by_loss/best-epoch={}.ckpt", "by_acc/best-epoch={}.ckpt"),
        ("epoch={}.ckpt", "epoch={}.ckpt"),
    ],
)
def test_what_each_callback_of_lightnings_calls_its_best_stays(tmp_path, names):
    kept = play(tmp_path, by_two(*names))
    assert kept == {names[0].format(epoch) for epoch in (1, 5)} | {names[1].format(epoch) for epoch in (3, 5)}


@pytest.mark.parametrize(
    "name", ["model-{:02}.ckpt", "epoch={}.ckpt", "resnet18-epoch={}.ckpt", "best-epoch={}-fid_score=0.{}.ckpt"]
)
def test_of_one_training_only_the_last_word_about_the_best_counts(tmp_path, name):
    watch = pipeline.Watch(tmp_path, os.geteuid())
    for epoch in range(8):
        at = pipeline.START + 2 * (epoch + 1) * HOUR
        for file in (name.format(epoch, epoch), "last.ckpt"):
            put(tmp_path, file, monitored(name.format(min(epoch, 3), min(epoch, 3)), epoch), at)
        watch.look(at + pipeline.UNTIL_SEEN)
    best = [each.checkpoint.path.name for each in watch.records if each.checkpoint.is_best and not each.deleted_at]
    assert best == [name.format(3, 3)]


@pytest.mark.parametrize(
    "name", ["ckpt_step{step}_{rank}.pt", "ckpt_{rank}_step_{step}.pt", "model_{rank}_epoch_{step}.pt"]
)
def test_a_rank_that_is_late_does_not_tear_checkpoints(tmp_path, name):
    saves = []
    for step in (100, 200, 300, 400):
        for rank in range(4):
            is_late = (step, rank) == (100, 3)
            at = step / 50 + rank / 100 + (2 if is_late else 0)
            saves.append((at, {name.format(step=step, rank=rank): checkpoint_bytes.torch_rank_state(rank, step=step)}))
    saves.append((10, {name.format(step=500, rank=0): checkpoint_bytes.torch_rank_state(0, step=500)}))
    kept = play(tmp_path, sorted(saves, key=lambda save: save[0]))
    assert {name.format(step=400, rank=rank) for rank in range(4)} <= kept


@pytest.mark.parametrize("sees_all_at_once", [False, True])
def test_what_a_person_copied_with_its_times_stays(tmp_path, sees_all_at_once):
    watch = pipeline.Watch(tmp_path, os.geteuid())
    for epoch in range(1, 9):
        at = pipeline.START + epoch * HOUR
        put(tmp_path, f"ckpts/epoch_{epoch}.pt", checkpoint_bytes.torch_state(epoch, 100 * epoch), at)
        if epoch == 5:
            (tmp_path / "good").mkdir()
            for copied in (3, 4):
                shutil.copy2(tmp_path / f"ckpts/epoch_{copied}.pt", tmp_path / f"good/epoch_{copied}.pt")
        if not sees_all_at_once and epoch not in {4, 5}:
            watch.look(at + pipeline.UNTIL_SEEN)
    for hours in (10, 13):
        watch.look(pipeline.START + hours * HOUR)
    assert all(each.checkpoint.state is CheckpointState.COMPLETE for each in watch.records)
    kept = list_kept(tmp_path, watch, pipeline.START + 14 * HOUR)
    assert kept == {"ckpts/epoch_8.pt", "good/epoch_3.pt", "good/epoch_4.pt"}


@pytest.mark.parametrize("name", ["run7/epoch_{}.pt", "ckpts/epoch_{}.pt"])
def test_another_training_that_a_person_copies_in_stays(tmp_path, name):
    own = [(2.0 * epoch, {f"ckpts/epoch_{epoch}.pt": model(2, epoch)}) for epoch in range(1, 9)]
    watch = pipeline.Watch(tmp_path, os.geteuid())
    for hours, files in own:
        at = pipeline.START + hours * HOUR
        for path, data in files.items():
            put(tmp_path, path, data, at)
        watch.look(at + pipeline.UNTIL_SEEN)
        if hours == 2.0 * 5:
            for epoch in range(20, 26):
                put(tmp_path, name.format(epoch), model(3, epoch), at + timedelta(minutes=10, seconds=2 * epoch))
            watch.look(at + 0.5 * HOUR)
            kept = list_kept(tmp_path, watch, at + 1.9 * HOUR)
            assert "ckpts/epoch_5.pt" in kept
    watch.look(pipeline.START + 20 * HOUR)
    kept = list_kept(tmp_path, watch, pipeline.START + 20 * HOUR)
    assert kept == {"ckpts/epoch_8.pt", *(name.format(epoch) for epoch in range(20, 26))}
