"""Checkpoints that are short of a member: marked damaged where that is sure, and left alone where it is not."""

import pytest

from ckptd.core.model import CheckpointState
from core.checkpoint_sets.pieces import doubts, grouped, piece

COMPLETE, DAMAGED, WRITING = CheckpointState.COMPLETE, CheckpointState.DAMAGED, CheckpointState.WRITING


def directory(name, at, *files):
    """A directory that a framework's reader takes for one thing."""
    return piece(name, at, role="weights", fmt="deepspeed", files=[f"{name}/{file}" for file in files])


def test_what_the_only_checkpoint_before_it_has_and_the_newest_has_not_puts_it_in_doubt():
    made = grouped(
        [piece(f"{part}_epoch_1.pt", at, epoch=1) for at, part in enumerate(("model", "optim", "ema", "rng"))]
        + [piece(f"{part}_epoch_2.pt", 100 + at, epoch=2) for at, part in enumerate(("model", "optim"))]
    )
    assert list(doubts(made)) == ["model_epoch_2.pt"]
    assert "ema_epoch_#.pt is missing, which the one before it has" in doubts(made)["model_epoch_2.pt"]


def test_that_is_a_save_that_goes_on_while_its_files_are_young():
    pieces = [piece(f"{part}_epoch_1.pt", 1, epoch=1) for part in ("model", "optim")]
    made = grouped([*pieces, piece("model_epoch_2.pt", 100, epoch=2)], unchanged_since_ns=0)
    assert made["model_epoch_2.pt"].state is WRITING


def test_files_that_a_framework_keeps_in_its_directory_are_compared():
    made = grouped(
        [directory(f"global_step{n}", n, "mp_rank_00_model_states.pt", "optim_states.pt") for n in (100, 200)]
        + [directory("global_step300", 300, "mp_rank_00_model_states.pt")]
    )
    assert list(doubts(made)) == ["global_step300"]
    assert made["global_step300"].state is COMPLETE  # its own reader found it so


def test_results_and_settings_in_the_directories_of_a_framework_are_not():
    made = grouped(
        [directory(f"global_step{n}", n, "model_states.pt", "eval.csv", "extra.json") for n in (100, 200)]
        + [directory("global_step300", 300, "model_states.pt")]
    )
    assert "global_step300" not in doubts(made)


def test_a_part_beside_the_shards_in_each_directory_is_missed_also_where_only_the_shards_are_left():
    made = grouped(
        [
            each
            for n in (1, 2)
            for each in (
                piece(f"epoch_{n}/model.safetensors", n * 100, role="weights", files=["a-1-of-2.st", "a-2-of-2.st"]),
                piece(f"epoch_{n}/recipe_state.pt", n * 100 + 1, epoch=n),
            )
        ]
        + [piece("epoch_3", 300, role="weights", files=["epoch_3/a-1-of-2.st", "epoch_3/a-2-of-2.st"])]
    )
    assert made["epoch_3"].state is DAMAGED
    assert "recipe_state.pt is missing" in made["epoch_3"].reason


@pytest.mark.parametrize("name", ["ckpt_model_{n}_rank{r}.pt", "ckpt_rank{r}_{n}_{n}00.pt"])
def test_members_are_counted_where_nobody_knows_what_a_number_in_their_names_is(name):
    pieces = [piece(f"epoch_{n}/" + name.format(n=n, r=r), 50, role="weights") for n in (1, 2, 3) for r in (0, 1)]
    assert [checkpoint.state for checkpoint in grouped(pieces).values()] == [COMPLETE] * 3
    assert grouped(pieces[:-1])["epoch_3"].state is DAMAGED


def test_an_old_checkpoint_with_fewer_files_than_the_one_before_it_is_in_no_doubt_once_there_is_a_whole_one():
    made = grouped(
        [directory("step_1", 1, "a.pt", "b.pt"), directory("step_2", 2, "a.pt"), directory("step_3", 3, "a.pt", "b.pt")]
    )
    assert not doubts(made)


def test_one_that_was_copied_back_does_not_make_a_short_one_whole():
    pieces = [
        piece(f"epoch_{n}_tp0_pp{r}.pt", at + r, epoch=n) for n, at in ((2, 200), (3, 300), (1, 400)) for r in (0, 1)
    ]
    made = grouped(each for each in pieces if each.path.name != "epoch_3_tp0_pp1.pt")
    assert list(doubts(made)) == ["epoch_3_tp*_pp*.pt"]


def test_one_that_was_copied_back_behind_a_rollback_does_not_make_a_short_one_whole():
    steps = {900: 4800, 600: 5400, 700: 6000, 800: 9000}  # 700 is the newest, and has no critic
    parts = {("_actor", step) for step in steps} | {("_critic", step) for step in steps if step != 700}
    made = grouped(
        piece(
            f"{part}/step_{step}",
            steps[step],
            files=[f"step_{step}/mp_rank_00_model_states.pt", f"step_{step}/zero_pp_rank_0_optim_states.pt"],
            fmt="deepspeed",
            named=step,
        )
        for part, step in parts
    )
    assert list(doubts(made)) == ["_actor/step_700"]


def test_a_rank_is_missed_also_where_the_epoch_in_the_names_is_read_as_a_rank():
    pieces = [piece(f"epoch_{n}/ckpt_ep_{n}_tp0_pp{r}.pt", n * 600 + r / 4, epoch=n) for n in (1, 2, 3) for r in (0, 1)]
    assert grouped(pieces[:-1])["epoch_3"].state is DAMAGED


def test_a_file_that_somebody_added_to_an_older_checkpoint_is_missed_in_none():
    converted = directory("global_step100", 250, "model.pt", "optim.pt", "pytorch_model.bin")  # after the next one
    saved = [directory(f"global_step{step}", step, "model.pt", "optim.pt") for step in (200, 300)]
    assert not doubts(grouped([converted, *saved]))
    assert list(doubts(grouped([converted, saved[1]]))) == ["global_step300"]


def test_a_save_that_is_cut_off_again_after_a_rollback_is_in_doubt():
    whole = [directory(f"global_step{step}", at, "model.pt", "optim.pt") for step, at in ((100, 1), (200, 2), (250, 4))]
    cut = [directory(f"global_step{step}", at, "model.pt") for step, at in ((300, 3), (350, 5))]
    assert "global_step350" in doubts(grouped([*whole, *cut]))
