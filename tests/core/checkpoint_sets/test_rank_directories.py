"""Directories of ranks and of components whose names say more than that: of a fold, a seed, a model."""

import pytest

from ckptd.core.model import CheckpointState
from core.checkpoint_sets.pieces import doubts, grouped, members, piece


def trainings(template, *, variants=(1, 2), steps=(1, 2, 3), ranks=(0, 1), apart=1000):
    """Pieces of trainings one after the other, each with its ranks side by side."""
    return [
        piece(template.format(v=variant, n=step, r=rank), variant * apart + step * 10 + at, step=step)
        for variant in variants
        for step in steps
        for at, rank in enumerate(ranks)
    ]


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("fold{v}_mp_rank_0{r}/step_{n}.pt", "fold{v}_mp_rank_*_step_{n}.pt"),
        ("seed_{v}-rank{r}/step_{n}.pt", "seed_{v}-rank*_step_{n}.pt"),
        ("lr_0.{v}_shard_{r}/step_{n}.pt", "lr_0.{v}_shard_*_step_{n}.pt"),
        ("run{v}_rank{r}/step_{n}/model.pt", "run{v}_rank*_step_{n}"),
    ],
)
def test_the_ranks_of_each_fold_or_seed_are_checkpoints_of_its_own(template, name):
    made = grouped(trainings(template))
    assert members(made) == {
        name.format(v=variant, n=step): [template.format(v=variant, n=step, r=rank) for rank in (0, 1)]
        for variant in (1, 2)
        for step in (1, 2, 3)
    }
    assert not doubts(made)
    assert len({checkpoint.grouping.series for checkpoint in made.values()}) == 2


def test_actor_and_critic_of_each_fold_are_checkpoints_of_its_own():
    made = grouped(trainings("fold{v}__{r}/step_{n}/model.pt", ranks=("actor", "critic")))
    assert sorted(members(made).values()) == [
        [f"fold{fold}__{part}/step_{step}/model.pt" for part in ("actor", "critic")]
        for fold in (1, 2)
        for step in (1, 2, 3)
    ]
    assert not doubts(made)


def test_actor_and_critic_that_a_word_stands_before_are_one_checkpoint():
    made = grouped(trainings("ppo_{r}/step_{n}.pt", variants=(1,), ranks=("actor", "critic")))
    assert list(members(made).values()) == [[f"ppo_actor/step_{n}.pt", f"ppo_critic/step_{n}.pt"] for n in (1, 2, 3)]


@pytest.mark.parametrize("template", ["llama_rank{r}/step_{n}.pt", "bench_tp{r}/step_{n}/model.pt"])
def test_directories_that_may_be_ranks_and_are_written_at_the_same_time_are_in_doubt(template):
    made = grouped(trainings(template, variants=(1,)))
    assert len(made) == len(doubts(made)) == 6


def test_trainings_of_several_lora_ranks_one_after_the_other_are_runs_of_their_own():
    made = grouped(piece(f"lora_rank{rank}/step_{n}.pt", rank * 1000 + n, step=n) for rank in (8, 16) for n in (1, 2))
    assert len(made) == 4
    assert not doubts(made)
    assert {checkpoint.state for checkpoint in made.values()} == {CheckpointState.COMPLETE}


def test_no_two_checkpoints_share_a_path():
    joined = trainings("rank_{r}/step_{n}.pt", variants=(1,), steps=(1, 2))
    below = trainings("rank_{r}/other/step_{n}.pt", variants=(2,), steps=(1, 2))
    beside = [piece(f"step_{n}.pt", 5000 + n * 10, step=n) for n in (1, 2)]
    found = members(grouped([*joined, *below, *beside]))
    assert len(found) == 6
    assert sorted(file for files in found.values() for file in files) == sorted(
        str(each.path.relative_to("/scratch/alice/run")) for each in (*joined, *below, *beside)
    )


@pytest.mark.parametrize(
    "template", ["ep_{n}/state.pt", "run7_ep_{n}/state.pt", "ep_{n}/model/state.pt", "ep_{n}/rank0.pt"]
)
def test_a_directory_of_one_epoch_is_not_one_of_an_expert_parallel_rank(template):
    made = grouped(piece(template.format(n=n), n * 600) for n in (1, 2, 3))
    assert [each.grouping.progress for each in made.values()] == [(1,), (2,), (3,)]
    assert not doubts(made)


def test_directories_of_expert_parallel_ranks_are_members_where_another_number_is_the_step():
    made = grouped(piece(f"ep_{r}/step_{n}.pt", n + r / 4) for n in (100, 200) for r in (0, 1))
    assert [len(each.files) for each in made.values()] == [2, 2]


def test_directories_that_may_be_of_expert_parallel_ranks_are_in_doubt_where_they_were_written_at_once():
    assert len(doubts(grouped(piece(f"ep_{r}/state.pt", r / 4) for r in range(4)))) == 4


def test_only_numbers_of_three_digits_continue_the_rank_of_a_parallel_program():
    saves = [(1, 100), (2, 200), (3, 300)]
    made = grouped(
        piece(f"ckpt_mp_rank_00_00{r}_{epoch}_{step}.pt", step * 6 + r / 4, epoch=epoch, step=step)
        for epoch, step in saves
        for r in (0, 1)
    )
    assert [(len(each.files), each.grouping.progress) for each in made.values()] == [(2, save) for save in saves]


def test_directories_of_ranks_stay_members_beside_epochs_in_the_names_of_files():
    made = grouped(piece(f"mp_rank_00_00{r}/ckpt_ep_{n}.pt", n * 600 + r / 4) for n in (1, 2) for r in (0, 1))
    assert [(len(each.files), each.grouping.progress) for each in made.values()] == [(2, (1,)), (2, (2,))]
