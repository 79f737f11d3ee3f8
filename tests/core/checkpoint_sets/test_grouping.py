"""Which files are one checkpoint: the layouts that were torn or mistaken, and their neighbours."""

import random

import pytest

from ckptd.core.model import CheckpointState, Role
from core.checkpoint_sets.pieces import doubts, grouped, members, piece


def saves(template, steps, ranks, **facts):
    return [
        piece(template.format(n=step, r=rank), step * 10 + rank, **facts) for step in steps for rank in range(ranks)
    ]


@pytest.mark.parametrize(
    ("template", "paths"),
    [
        ("step_{n}/rank{r}.pt", ["step_1", "step_2", "step_3"]),
        ("ckpt_{n}/state_rank_{r}.npz", ["ckpt_1", "ckpt_2", "ckpt_3"]),
        ("global_step_{n}/actor/model_world_size_4_rank_{r}.pt", ["global_step_1", "global_step_2", "global_step_3"]),
        ("checkpoint_{n}/rank{r}.pth.tar", ["checkpoint_1", "checkpoint_2", "checkpoint_3"]),
        ("ckpt_{n}_rank_{r}.pt", ["ckpt_1_rank_*.pt", "ckpt_2_rank_*.pt", "ckpt_3_rank_*.pt"]),
        ("epoch={n}-rank={r}.ckpt", ["epoch=1-rank=*.ckpt", "epoch=2-rank=*.ckpt", "epoch=3-rank=*.ckpt"]),
        ("rank_{r}/step_{n}/model.pt", ["step_1", "step_2", "step_3"]),
        ("mp_rank_0{r}/step_{n}.pt", ["step_1.pt", "step_2.pt", "step_3.pt"]),
    ],
)
def test_all_ranks_of_one_step_are_one_checkpoint(template, paths):
    made = grouped(saves(template, (1, 2, 3), 4))
    assert list(made) == paths
    assert all(len(checkpoint.files) == 4 for checkpoint in made.values())
    assert not doubts(made)
    assert [checkpoint.grouping.progress for checkpoint in made.values()] == [(1,), (2,), (3,)]
    assert len({checkpoint.grouping.series for checkpoint in made.values()}) == 1


def test_a_number_alone_is_progress_where_the_content_says_so():
    told = grouped([piece(f"{n}/rank_{r}.ckpt", n + r, step=n) for n in (100, 200) for r in (0, 1)])
    assert list(told) == ["100", "200"]
    assert not doubts(told)
    untold = grouped([piece(f"{n}/rank_{r}.ckpt", 10 * n + r) for n in (1, 2) for r in (0, 1)])
    assert list(untold) == list(doubts(untold)) == ["1", "2"]


def test_shards_under_a_number_that_nothing_explains_stay_together_and_are_in_doubt():
    made = grouped(saves("model-{n}-shard-{r}.safetensors", (1, 2), 2, role="weights"))
    assert [len(checkpoint.files) for checkpoint in made.values()] == [2, 2]
    assert len(doubts(made)) == 2


def test_a_doubt_about_two_names_gives_those_of_one_save():
    pieces = [piece(f"{name}_step{step}.pth", step, step=step) for step in (2400, 800, 1600) for name in "GD"]
    for made in (pieces, pieces[::-1], sorted(pieces, key=lambda each: each.path)):
        why = set(doubts(grouped(made)).values())
        assert why == {"it is unclear whether D_step800.pth and G_step800.pth are parts of one checkpoint"}


def test_names_that_each_save_overwrites_are_one_checkpoint():
    made = grouped(piece(f"ckpt_rank{r}.pt", r) for r in range(4))
    assert members(made) == {"ckpt_rank*.pt": [f"ckpt_rank{r}.pt" for r in range(4)]}
    assert made["ckpt_rank*.pt"].grouping.progress == ()


def test_the_shards_of_each_measured_value_are_a_checkpoint_of_their_own():
    losses = (2.5170, 2.4650, 2.4011)
    name = "checkpoint.best_loss_{loss:.4f}-shard{rank}.pt"
    made = grouped(
        piece(name.format(loss=loss, rank=rank), at + rank / 10, epoch=at)
        for at, loss in enumerate(losses)
        for rank in (0, 1)
    )
    assert members(made) == {
        name.format(loss=loss, rank="*"): [name.format(loss=loss, rank=rank) for rank in (0, 1)] for loss in losses
    }
    assert {(one.state, one.grouping.progress) for one in made.values()} == {(CheckpointState.COMPLETE, ())}
    assert not doubts(made)


def test_models_with_different_measured_values_in_their_names_are_no_checkpoint_together():
    made = grouped(piece(f"best_model_loss_{loss}.pt", at) for at, loss in enumerate((0.52, 0.48)))
    assert [len(one.files) for one in made.values()] == [1, 1]
    made = grouped(
        piece(f"{part}_acc_{acc}.pt", at, role="weights" if part == "model" else "part")
        for at, acc in enumerate((0.52, 0.61))
        for part in ("model", "optim")
    )
    assert [len(one.files) for one in made.values()] == [2, 2]


def test_model_and_optimizer_of_one_step_are_one_checkpoint_with_the_role_of_the_optimizer():
    made = grouped(
        [piece(f"model_{n}.pt", n, role="weights") for n in (1, 2, 3)]
        + [piece(f"optim_{n}.pt", n + 0.2, step=n) for n in (1, 2, 3)]
    )
    assert members(made) == {f"model_{n}.pt": [f"model_{n}.pt", f"optim_{n}.pt"] for n in (1, 2, 3)}
    assert {checkpoint.role for checkpoint in made.values()} == {Role.STATE}
    assert not doubts(made)


def lora_step(n, role, *names):
    """Parameters as a file, and a directory beside them that one of the frameworks wrote."""
    directory = f"lora-step{n}-state"
    files = [f"{directory}/{name}" for name in names]
    return [
        piece(f"lora-step{n}.safetensors", n, role="weights", fmt="safetensors"),
        piece(directory, n + 0.1, role=role, fmt="accelerate", files=files),
    ]


def test_exported_parameters_are_no_part_of_the_state_in_a_directory_beside_them():
    made = grouped(
        made for n in (100, 200, 300) for made in lora_step(n, "state", "model.safetensors", "optimizer.bin")
    )
    assert {path: len(one.files) for path, one in made.items()} == {
        f"lora-step{n}{name}": count for n in (100, 200, 300) for name, count in (("-state", 2), (".safetensors", 1))
    }
    assert not doubts(made)


def test_parameters_and_a_directory_of_the_rest_of_their_state_are_one_checkpoint():
    made = grouped(made for n in (100, 200, 300) for made in lora_step(n, "part", "optimizer.bin", "scheduler.bin"))
    assert {len(one.files) for one in made.values()} == {3}


def test_generator_and_discriminator_of_one_epoch_are_one_checkpoint():
    made = grouped(piece(f"net{x}_epoch_{n}.pth", n * 10 + at) for n in range(3) for at, x in enumerate("GD"))
    assert list(members(made).values()) == [[f"netD_epoch_{n}.pth", f"netG_epoch_{n}.pth"] for n in range(3)]


def test_two_trainings_one_after_the_other_in_one_directory_are_two_series():
    made = grouped(
        [piece(f"resnet_epoch_{n}.pt", n) for n in (1, 2, 3)] + [piece(f"vit_epoch_{n}.pt", 100 + n) for n in (1, 2, 3)]
    )
    assert len(made) == 6
    assert len({checkpoint.grouping.series for checkpoint in made.values()}) == 2
    assert not doubts(made)


def test_two_kinds_of_names_that_are_always_written_together_are_in_doubt():
    made = grouped(piece(f"{x}_epoch_{n}.pt", n * 10 + at) for n in (1, 2, 3) for at, x in enumerate(("resnet", "vit")))
    assert len(made) == len(doubts(made)) == 6


def test_folds_are_trainings_of_their_own():
    made = grouped(piece(f"fold{f}_epoch{n}.pt", 100 * f + n, epoch=n) for f in (1, 2) for n in (1, 2, 3))
    assert {checkpoint.grouping.series for checkpoint in made.values()} == {"fold1_epoch#.pt", "fold2_epoch#.pt"}


@pytest.mark.parametrize("name", ["model_{n}.pt", "net{n}.pt"])
def test_members_of_an_ensemble_are_no_steps(name):
    made = grouped(piece(name.format(n=n), n, epoch=100) for n in range(4))
    assert len(doubts(made)) == 4


def test_experts_and_folds_without_epochs_stay_alone():
    made = grouped([piece(f"fold{n}.pt", n, epoch=50) for n in range(3)])
    assert all(checkpoint.grouping.progress == () for checkpoint in made.values())


def test_samples_beside_checkpoints_are_no_part_of_them():
    made = grouped(
        [piece(f"epoch_{n}.pt", n) for n in (1, 2)]
        + [piece(f"sample_epoch_{n}.npz", n + 0.1, role="data", fmt="numpy") for n in (1, 2)]
    )
    assert members(made)["epoch_1.pt"] == ["epoch_1.pt"]
    assert not doubts(made).keys() & {"epoch_1.pt", "epoch_2.pt"}


def test_arrays_that_may_belong_to_a_checkpoint_put_it_in_doubt():
    made = grouped(
        [piece(f"model_step_{n}.pt", n) for n in (1, 2)]
        + [piece(f"memory_step_{n}.npz", n + 0.1, role="data", fmt="numpy") for n in (1, 2)]
    )
    assert doubts(made).keys() >= {"model_step_1.pt", "model_step_2.pt"}


def test_a_directory_of_one_step_goes_whole_only_where_nothing_else_is_in_it():
    pieces = [piece(f"step_{n}/model.pt", n) for n in (1, 2, 3, 4)]
    pieces.append(piece("step_4/predictions.npz", 4.5, role="data", fmt="numpy"))
    made = grouped(pieces, ["step_1/config.json", "step_2/sample.png", "step_3/core.4711"])
    assert {path: checkpoint.grouping.is_directory for path, checkpoint in made.items()} == {
        "step_1": True,
        "step_2": False,
        "step_3": False,
        "step_4": False,
        "step_4/predictions.npz": False,
    }
    assert members(made)["step_1"] == ["step_1/config.json", "step_1/model.pt"]
    assert members(made)["step_2"] == ["step_2/model.pt"]
    assert list(doubts(made)) == ["step_3"]


def test_a_truncated_optimizer_makes_the_whole_epoch_a_damaged_checkpoint():
    made = grouped(
        [
            piece("epoch-1/model.safetensors", 1, role="weights", fmt="safetensors"),
            piece("epoch-1/optimizer.pt", 1.1),
            piece("epoch-2/model.safetensors", 2, role="weights", fmt="safetensors"),
            piece("epoch-2/optimizer.pt", 2.1, state="damaged"),
        ]
    )
    assert list(made) == ["epoch-1", "epoch-2"]
    newest = made["epoch-2"]
    assert (newest.state, newest.role) == (CheckpointState.DAMAGED, Role.STATE)
    assert newest.reason == "epoch-2/optimizer.pt: it is cut off"
    assert made["epoch-1"].state is CheckpointState.COMPLETE


def test_a_missing_rank_is_damage_and_while_the_others_are_young_a_save_that_goes_on():
    pieces = saves("step_{n}/rank{r}.pt", (1, 2, 3), 4)[:-1]
    assert grouped(pieces)["step_3"].state is CheckpointState.DAMAGED
    assert "rank3.pt is missing" in grouped(pieces)["step_3"].reason
    assert grouped(pieces, unchanged_since_ns=0)["step_3"].state is CheckpointState.WRITING


def test_the_number_of_ranks_that_names_tell_is_asked_for():
    made = grouped(piece(f"step_1/model_world_size_4_rank_{r}.pt", r) for r in range(3))
    assert made["step_1"].reason == "it has 3 of the 4 members that its names tell"


def test_fewer_ranks_from_some_step_on_are_no_damage():
    pieces = [*saves("step_{n}/rank{r}.pt", (1, 2, 3), 4), *saves("step_{n}/rank{r}.pt", (4, 5), 2)]
    assert all(checkpoint.state is CheckpointState.COMPLETE for checkpoint in grouped(pieces).values())


def test_ranks_of_different_steps_under_one_name_are_damage():
    made = grouped(piece(f"ckpt_rank{r}.pt", r, step=100 if r else 200) for r in range(4))
    assert made["ckpt_rank*.pt"].state is CheckpointState.DAMAGED
    assert "different steps (100 and 200)" in made["ckpt_rank*.pt"].reason


def test_names_and_content_that_contradict_each_other_are_in_doubt():
    made = grouped(piece(f"step_{n}.pt", n, step=step) for n, step in ((1, 50), (2, 20), (3, 90)))
    assert len(doubts(made)) == 3


def test_digits_of_hyperparameters_in_the_run_s_directory_join_nothing():
    made = grouped(piece(f"run_zero{z}/step_{n}.pt", 100 * z + n) for z in (0, 3) for n in (1, 2))
    assert len(made) == 4
    assert not doubts(made)


def test_every_recognised_thing_is_in_exactly_one_checkpoint_in_whatever_order_they_come():
    pieces = [
        *saves("global_step_{n}/actor/model_world_size_2_rank_{r}.pt", (1, 2), 2),
        *[piece(f"global_step_{n}/data.pt", n * 10 + 5, role="data") for n in (1, 2)],
        *[piece(f"model_{n}.pt", n, role="weights") for n in (1, 2)],
        *[piece(f"optim_{n}.pt", n + 0.2, step=n) for n in (1, 2)],
        piece("last.pt", 9),
        piece("emb_00001.pt", 3, role="data"),
    ]
    expected = grouped(pieces)
    for seed in range(20):
        random.Random(seed).shuffle(pieces)
        assert grouped(pieces) == expected
    files = [file for found in members(expected).values() for file in found]
    assert sorted(files) == sorted({str(each.path.relative_to("/scratch/alice/run")) for each in pieces})


def test_directories_named_by_a_date_are_runs_and_no_steps():
    made = grouped(
        piece(f"outputs/2026-11-{day}/10-00-00/epoch_{n}.pt", 1000 * day + n) for day in (18, 19, 20) for n in (1, 2)
    )
    assert len(made) == 6
    assert len({checkpoint.grouping.series for checkpoint in made.values()}) == 3


def test_each_array_of_a_data_set_keeps_its_own_path():
    made = grouped(piece(f"shard_{n:04}.npz", n, role="data", fmt="numpy") for n in range(3))
    assert list(made) == ["shard_0000.npz", "shard_0001.npz", "shard_0002.npz"]
    assert {checkpoint.state for checkpoint in made.values()} == {CheckpointState.COMPLETE}


@pytest.mark.parametrize("directory", ["cp2k", "run_cp2k_8x", "CP2K-2024"])
def test_the_digit_in_the_name_of_a_program_makes_a_directory_no_checkpoint(directory):
    names = [f"{directory}/h2-1_{step}.restart" for step in (10, 20, 30)]
    made = grouped([piece(name, at, step=10 + 10 * at) for at, name in enumerate(names)])
    assert list(made) == names
