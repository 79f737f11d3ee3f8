"""Numbers that no word explains: they join nothing, and let nothing go, that content and times do not speak for."""

import pytest

from core.checkpoint_sets.pieces import doubts, grouped, members, piece


@pytest.mark.parametrize("said", [{}, {"epoch": 1}, {"epoch": 1, "step": 100}])
def test_numbers_in_a_directory_of_one_instant_may_be_ranks(said):
    made = grouped(
        piece(f"ckpt_2026-11-{day}_10-00-00/ckpt_{r}.pt", 9000 * day + 60 * r, **said)
        for day in (18, 19, 20)
        for r in (0, 1)
    )
    assert len(made) == len(doubts(made)) == 6


def test_numbers_of_one_epoch_may_be_ranks():
    made = grouped(piece(f"ckpt_{r}_epoch_1.pt", 60 * r) for r in (0, 1))
    assert len(doubts(made)) == 2


def test_numbers_of_files_that_were_written_within_seconds_may_be_ranks():
    written_at_once = grouped(piece(f"ckpt_{r}.pt", r) for r in range(4))
    assert len(doubts(written_at_once)) == 4
    saved_in_turn = grouped(piece(f"ckpt_{n}.pt", 60 * n) for n in range(4))
    assert not doubts(saved_in_turn)


def test_numbers_that_rise_while_the_content_stays_at_one_step_are_no_progress():
    made = grouped(piece(f"ckpt_{n}.pt", 60 * n, step=5000) for n in range(4))
    assert len(doubts(made)) == 4


def test_an_ensemble_has_no_part_in_the_checkpoint_of_the_same_number():
    made = grouped(
        [piece(f"model_{n:07}.pt", n * 10, step=n) for n in (0, 100, 200)]
        + [piece(f"net_{n}.pt", n * 1000, step=10_000, epoch=100) for n in range(3)]
    )
    assert all(len(files) == 1 for files in members(made).values())
    assert doubts(made).keys() >= {"net_0.pt", "net_1.pt", "net_2.pt"}


def test_an_ensemble_of_states_has_no_part_in_checkpoints_of_the_same_numbers_at_other_steps():
    made = grouped(
        [piece(f"model_{n}.pt", n * 100, step=n) for n in (0, 1, 2)]
        + [piece(f"net_{n}.pt", n * 100 + 1, step=10_000) for n in (0, 1, 2)]
    )
    assert all(len(files) == 1 for files in members(made).values())


def test_a_rank_before_a_worded_number_does_not_make_that_a_rank():
    made = grouped(piece(f"ckpt_rank{r}_{n}_epoch.pt", n * 60 + r) for n in (1, 2, 3) for r in (0, 1))
    assert [len(files) for files in members(made).values()] == [2, 2, 2]
    assert [checkpoint.grouping.progress for checkpoint in made.values()] == [(1,), (2,), (3,)]


def test_the_second_number_of_a_parallel_rank_is_a_rank_too():
    made = grouped(piece(f"step_{n}_mp_rank_00_00{r}.pt", n * 60 + r) for n in (1, 2) for r in (0, 1))
    assert [len(files) for files in members(made).values()] == [2, 2]


def test_a_part_that_is_there_only_once_does_not_let_the_rest_of_its_checkpoint_go():
    made = grouped(
        [piece(f"actor_{n}_{n}00.pt", n * 600, step=n * 100) for n in (1, 2)] + [piece("critic_1_100.pt", 601, epoch=1)]
    )
    assert doubts(made).keys() >= {"actor_1_100.pt", "actor_2_200.pt"}


def test_a_part_that_is_cut_off_does_not_let_the_rest_of_its_checkpoint_go():
    made = grouped(
        [piece(f"vit_b_16_actor_{n}_{n}00.pt", n * 600, step=n * 100) for n in (1, 2)]
        + [piece("vit_b_16_critic_1_100.pt", 601), piece("vit_b_16_critic_2_200.pt", 1201, state="damaged")]
    )
    assert len(made) == len(doubts(made)) == 4


@pytest.mark.parametrize("epochs", [(98, 99, 100), (98,)])
def test_a_number_behind_the_word_that_explains_another_one_may_be_a_rank(epochs):
    pieces = [piece(f"epoch_{n}/{n}00_ba_{r}.pt", n * 600 + r) for n in epochs for r in range(4)]
    made = grouped(pieces)
    assert len(made) == len(doubts(made)) == len(pieces)


def test_steps_that_count_anew_in_each_epoch_are_progress_where_the_content_tells_them():
    made = grouped(
        piece(f"epoch_{epoch}/step_{n}.pt", epoch * 600 + n * 60, step=epoch * 3 + n)
        for epoch in (1, 2)
        for n in range(3)
    )
    assert len(made) == 6
    assert not doubts(made)


def test_models_and_optimizers_that_were_copied_one_kind_after_the_other_are_in_doubt():
    made = grouped(
        [piece(f"model_epoch_{n}.pt", n, role="weights") for n in (1, 2, 3)]
        + [piece(f"optim_epoch_{n}.pt", 10 + n, step=n) for n in (1, 2, 3)]
    )
    assert len(doubts(made)) == 6


def test_arrays_with_a_word_for_states_and_the_numbers_of_checkpoints_are_joined_with_nothing():
    made = grouped(
        [piece(f"checkpoint_{n}.pth.tar", n * 600, epoch=n) for n in range(4)]
        + [piece(f"state_{n:03}.npy", n * 600 + 1, role="data", fmt="numpy") for n in range(4)]
    )
    assert all(len(files) == 1 for files in members(made).values())
    assert doubts(made).keys() >= {"state_000.npy", "checkpoint_0.pth.tar"}


@pytest.mark.parametrize("template", ["checkpoint_{r}_it_{n}.pt", "{r}_{n}.pt"])
def test_ranks_before_a_number_that_the_content_tells_are_members(template):
    made = grouped(piece(template.format(r=r, n=n), n * 6 + r / 4, step=n) for n in (100, 200, 300) for r in (0, 1))
    assert [(len(each.files), each.grouping.progress) for each in made.values()] == [(2, (n,)) for n in (100, 200, 300)]
    assert not doubts(made)


def test_steps_of_several_saves_in_an_epoch_rise_with_the_epoch_that_the_content_tells():
    steps = {200: 1, 300: 1, 400: 2, 500: 2}
    made = grouped(piece(f"run_it_{n}.pt", n * 6, epoch=epoch) for n, epoch in steps.items())
    assert [each.grouping.progress for each in made.values()] == [(n,) for n in steps]
    assert not doubts(made)


@pytest.mark.parametrize(
    "steps",
    [
        {200: 1, 300: 1, 400: 1},  # always at the same epoch
        {203: 1, 310: 1, 477: 2},  # numbers of subjects
        {200: 1, 300: 2, 400: 1},  # the epoch falls
    ],
)
def test_numbers_that_do_not_go_with_the_epochs_in_the_content_stay_in_doubt(steps):
    assert len(doubts(grouped(piece(f"run_it_{n}.pt", n * 6, epoch=epoch) for n, epoch in steps.items()))) == 3


def test_a_second_number_is_the_step_also_where_the_training_was_rolled_back():
    saves = [(1, 100, 0), (2, 200, 600), (3, 300, 1200), (2, 206, 1800)]
    made = grouped(piece(f"ckpt_{epoch}_{step}/ckpt.pt", at, epoch=epoch) for epoch, step, at in saves)
    assert {each.grouping.progress for each in made.values()} == {(epoch, step) for epoch, step, _ in saves}
    assert not doubts(made)


def test_a_word_between_two_numbers_explains_neither_where_the_first_rises_with_the_time_of_writing():
    made = grouped(piece(f"ckpt_{n}_epoch_{r}.pt", n * 600 + r / 4) for n in (1, 2, 3) for r in (0, 1))
    assert len(doubts(made)) == len(made)


def test_a_word_that_is_joined_to_the_number_before_it_explains_that_one():
    made = grouped(
        piece(f"model_{n:07}step_0000{r}-of-00002.pt", n * 600 + r / 4, role="state") for n in (2, 3) for r in (1, 2)
    )
    assert [(len(each.files), each.grouping.progress) for each in made.values()] == [(2, (2,)), (2, (3,))]


def test_epochs_of_a_known_number_of_epochs_are_progress_and_no_shards():
    made = grouped(piece(f"epoch_{n}_of_10.pt", n * 600) for n in (1, 2, 3))
    assert [(each.state, each.grouping.progress) for each in made.values()] == [("complete", (n,)) for n in (1, 2, 3)]
    assert not doubts(made)
    assert len(doubts(grouped(piece(f"epoch_{n}_of_3.pt", n / 4) for n in (1, 2, 3)))) == 3


@pytest.mark.parametrize(("delay", "is_joined"), [(1, True), (300, False)])
def test_parameters_with_the_numbers_of_saves_belong_to_them_where_they_are_written_right_with_them(delay, is_joined):
    made = grouped(
        [piece(f"gen_{n:03}.pkl", n * 600, epoch=n, step=n * 100) for n in range(3)]
        + [piece(f"model_{n}.pt", n * 600 + delay, role="weights") for n in range(3)]
    )
    assert (len(made), len(doubts(made))) == ((3, 0) if is_joined else (6, 6))


def test_parts_that_are_in_doubt_below_a_numbered_directory_leave_the_rest_of_their_checkpoint_in_doubt():
    made = grouped(
        [piece(f"epoch_{e}/model_{e}_{n}.pt", n * 6, epoch=e, step=n) for e, n in ((1, 200), (1, 300), (2, 400))]
        + [piece(f"epoch_{e}/ema_{e}_{n}.pt", n * 6 + 1, role="weights") for e, n in ((1, 200), (1, 300), (2, 400))]
    )
    assert len(doubts(made)) == len(made)


def test_whole_states_that_are_all_at_one_step_are_no_parts_of_checkpoints_with_their_numbers():
    made = grouped(
        [piece(f"gen_{n:03}.pkl", n * 600, epoch=n, step=n * 100) for n in range(3)]
        + [piece(f"net_{n}.pt", 1200 + n, epoch=100, step=10_000) for n in range(3)]
    )
    assert doubts(made).keys() == {f"net_{n}.pt" for n in range(3)}


LOSSES = (0.91, 0.83, 0.44, 0.402, 0.39)


@pytest.mark.parametrize(
    ("template", "series"),
    [
        ("w.{n:02}-{loss}.weights.h5", "w.#-~.weights.h5"),
        ("w-{n:02}-{loss}.weights.h5", "w-#-~.weights.h5"),
        ("w_{n}_{loss}.pt", "w_#_~.pt"),
        ("w{n:02}-{loss}.pt", "w#-~.pt"),
        ("r_{n}_{loss}.pt", "r_#_~.pt"),
        ("W.{n:02}.h5", "W.#.h5"),
        ("w{n}.h5", "w#.h5"),
        ("m.{n}.{loss}.pt", "m.#.~.pt"),
    ],
)
def test_a_letter_at_the_start_of_names_that_were_written_in_turn_counts_no_members(template, series):
    made = grouped(piece(template.format(n=n, loss=LOSSES[n - 1]), 600 * n, role="weights") for n in range(1, 6))
    assert [(each.grouping.series, each.grouping.progress) for each in made.values()] == [
        (series, (n,)) for n in range(1, 6)
    ]
    assert len(doubts(made)) == 5, "so may folds be named"


def test_a_letter_before_the_epoch_that_the_content_says_is_proven_progress():
    made = grouped(piece(f"w.{n:02}-{LOSSES[n - 1]}.weights.h5", 600 * n, step=n * 20) for n in range(1, 6))
    assert [each.grouping.progress for each in made.values()] == [(n,) for n in range(1, 6)]
    assert not doubts(made)


def test_the_first_file_of_such_a_name_keeps_it():
    assert members(grouped([piece("w.01-0.91.weights.h5", 600, role="weights")])) == {
        "w.01-0.91.weights.h5": ["w.01-0.91.weights.h5"]
    }


@pytest.mark.parametrize("letter", "rw")
def test_a_letter_counts_members_that_were_written_at_once(letter):
    together = grouped(piece(f"{letter}{n}.pt", 600 + n / 4) for n in range(4))
    assert {path: len(files) for path, files in members(together).items()} == {f"{letter}*.pt": 4}
    in_turn = grouped(piece(f"{letter}{r}_step_{n}.pt", 600 * n + r) for n in (1, 2, 3) for r in (0, 1))
    assert [len(files) for files in members(in_turn).values()] == [2, 2, 2]
    assert not doubts(in_turn)
    directories = grouped(piece(f"step_{n}/{letter}{r}.pt", 600 * n + r) for n in (1, 2, 3) for r in (0, 1))
    assert [len(files) for files in members(directories).values()] == [2, 2, 2]
    assert not doubts(directories)
