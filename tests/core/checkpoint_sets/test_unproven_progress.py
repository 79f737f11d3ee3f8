"""Numbers in names that look like progress and are none: sweeps, subjects, models by year. None of these may go."""

import pytest

from ckptd.core.model import Role
from core.checkpoint_sets.pieces import doubts, grouped, members, piece

HOURS = 3600


def one_after_another(names, **facts):
    return grouped(piece(name, HOURS * at, **facts) for at, name in enumerate(names))


@pytest.mark.parametrize(
    "names",
    [
        [f"hidden_{16 * 2**n}.pt" for n in range(6)],
        [f"temp_{280 + 10 * n}/final.pt" for n in range(6)],
        [f"umbrella{10 * n}.cpt" for n in range(1, 7)],
        [f"model_{year}.pt" for year in range(2019, 2025)],
        [f"s{n}/last.pt" for n in range(6)],
        [f"e{n}/model.pt" for n in range(1, 7)],
        [f"gen_{n}.pt" for n in range(6)],
        [f"batch_{16 * 2**n}/ckpt.pt" for n in range(6)],
        [f"n{n}/checkpoint.pt" for n in (100, 200, 500, 1000)],
        [f"subject_{n:02}_epoch_{epoch}.pt" for n, epoch in enumerate((17, 9, 30, 12), start=1)],
        [f"year{year}-epoch={epoch}.ckpt" for year, epoch in ((2019, 4), (2020, 9), (2021, 7))],
    ],
)
def test_a_number_that_only_rises_with_the_time_is_no_progress(names):
    made = one_after_another(names)
    assert doubts(made).keys() == made.keys()


@pytest.mark.parametrize(
    "template", ["checkpoint_{}.pt", "hidden_{}.pt", "step_{}.pt", "model{:06}.pt", "S{}.pt", "it{}.pt"]
)
def test_a_number_that_differs_while_the_content_stays_at_one_step_is_no_progress(template):
    made = one_after_another([template.format(n) for n in (100, 200, 300, 400)], step=5000, epoch=100)
    assert doubts(made).keys() == made.keys()


@pytest.mark.parametrize("template", ["subject_{:02}.pt", "model_{}.pt", "{}.pt", "s{}/last.pt", "{}/model.pt"])
@pytest.mark.parametrize("best", [(9, 17), (9, 12, 17), (9, 12, 17, 23, 41), (10, 30, 40), (1, 2)])
def test_what_each_number_trained_for_longer_than_the_one_before_is_no_progress(template, best):
    made = grouped(
        piece(template.format(n), HOURS * n, epoch=epoch, step=100 * epoch) for n, epoch in enumerate(best, start=1)
    )
    assert doubts(made).keys() == made.keys()


@pytest.mark.parametrize("template", ["subject_{:02}_epoch_{}.pt", "horizon{}/epoch_{}.pt", "P{:03}/step_{}/model.pt"])
def test_a_number_beside_an_unknown_word_tells_runs_apart_where_a_worded_one_rises_with_it(template):
    numbered = enumerate((9, 12, 17), start=1)
    made = grouped(piece(template.format(n, best), HOURS * n, epoch=best, step=best) for n, best in numbered)
    is_each_alone = len({checkpoint.grouping.series for checkpoint in made.values()}) == len(made) == 3
    assert is_each_alone or doubts(made).keys() == made.keys()


def test_the_two_best_of_each_subject_are_no_progress_where_the_second_trained_for_longer():
    made = grouped(
        piece(f"subject_{n}_{best}.pt", HOURS * at, step=best)
        for at, (n, best) in enumerate(((1, 700), (1, 900), (2, 1200), (2, 1700)))
    )
    assert doubts(made).keys() == made.keys()


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((10, 20), (10, 20)),
        ((1, 2, 3), (0, 1, 2)),
        ((0, 1, 2), (1, 2, 3)),
        ((1, 2, 3), (500, 1000, 1500)),
        ((0, 1, 2, 3), (500, 1000, 1500, 2000)),
        ((5, 7, 9, 20), (50, 60, 70, 125)),
    ],
)
def test_a_number_beside_an_unknown_word_is_progress_where_the_content_rises_evenly_with_it(numbers, said):
    made = grouped(
        piece(f"net{n}.pt", HOURS * at, step=step) for at, (n, step) in enumerate(zip(numbers, said, strict=True))
    )
    assert not doubts(made)


@pytest.mark.parametrize("steps", [(5000, 5000, 5000), (5000, 6000, 9000)])
def test_final_states_at_several_temperatures_are_no_steps_of_lammps(steps):
    made = grouped(
        piece(f"melt_{kelvin}.restart", HOURS * at, step=step, named=kelvin, fmt="lammps")
        for at, (kelvin, step) in enumerate(zip((300, 350, 400), steps, strict=True))
    )
    assert doubts(made).keys() == made.keys()


def test_epochs_of_names_contradict_a_content_that_stays_at_one_epoch():
    made = one_after_another([f"epochs_{n}.pt" for n in (10, 20, 50)], epoch=100)
    assert all("same epoch" in doubt for doubt in doubts(made).values())
    assert len(doubts(made)) == 3


@pytest.mark.parametrize("template", ["checkpoint_{}.pt", "e{}.pt", "gen_{}.pkl", "model_{}.pt"])
def test_a_number_that_the_content_says_too_is_progress(template):
    assert not doubts(grouped(piece(template.format(n), HOURS * n, step=n) for n in (1, 2, 3)))


def test_steps_within_the_first_epoch_are_progress_although_the_epoch_stays():
    assert not doubts(one_after_another([f"step_{n}.pt" for n in (100, 200, 300)], epoch=0))
    assert not doubts(one_after_another([f"checkpoint-{n}.pt" for n in (4000, 8000, 12000)], epoch=1))


def test_evenly_spaced_padded_numbers_are_steps():
    assert not doubts(one_after_another([f"model{n:06}.pt" for n in (10_000, 20_000, 30_000)]))


@pytest.mark.parametrize(
    "names",
    [
        ["checkpoint_1_500.pt", "checkpoint_1_1000.pt", "checkpoint_2_1500.pt"],
        ["epoch_1/model_100.pt", "epoch_2/model_200.pt", "epoch_3/model_300.pt"],
        ["epoch_0_1.pt", "epoch_0_2.pt", "epoch_1_3.pt", "epoch_1_4.pt"],
    ],
)
def test_a_step_that_goes_on_from_epoch_to_epoch_is_progress(names):
    assert not doubts(one_after_another(names))


def test_a_restart_that_shifts_the_steps_leaves_them_even():
    steps = {1: 1000, 2: 2000, 3: 3006, 4: 4006, 5: 5006}
    assert not doubts(grouped(piece(f"model.{n:02}.keras", HOURS * n, step=step) for n, step in steps.items()))


@pytest.mark.parametrize(
    "names",
    [
        ["ckpt_epoch_1_0.pt", "ckpt_epoch_1_1.pt"],
        ["model_epoch_9_1.pt", "model_epoch_12_2.pt", "model_epoch_31_3.pt"],
        ["model_epoch_9_16.pt", "model_epoch_12_32.pt", "model_epoch_31_64.pt"],
        ["model_epoch_30_100.pt", "model_epoch_30_200.pt", "model_epoch_12_300.pt"],
    ],
)
def test_a_second_number_that_may_be_that_of_a_rank_a_fold_or_a_width_is_no_progress(names):
    made = one_after_another(names)
    assert doubts(made).keys() == made.keys()


def test_steps_that_are_written_as_fast_as_ranks_are_no_progress():
    made = grouped(piece(f"ckpt_epoch_{n // 2}_{10 * n}.pt", n) for n in range(4))
    assert doubts(made).keys() == made.keys()


def test_a_rank_that_equals_the_only_epoch_that_is_told_is_no_progress():
    told = {"ckpt_epoch_1_0.pt": {"epoch": 0}}
    names = [f"ckpt_epoch_{epoch}_{rank}.pt" for epoch in (0, 1) for rank in (0, 1)]
    made = grouped(piece(name, HOURS * (at // 2), **told.get(name, {})) for at, name in enumerate(names))
    assert not doubts(made)
    assert [len(files) for files in members(made).values()] == [2, 2]


@pytest.mark.parametrize("weights", ["weights_epoch_{}.pt", "model_epoch_{}.pt", "epoch_{}.pt"])
def test_parameters_beside_a_whole_state_are_no_part_of_it(weights):
    made = grouped(
        each
        for n in (1, 2, 3)
        for each in (
            piece(f"ckpt_epoch_{n}.pt", HOURS * n, epoch=n),
            piece(weights.format(n), HOURS * n + 1, role=Role.WEIGHTS),
        )
    )
    assert len(made) == 6
    assert {each.role for name, each in made.items() if name.startswith("ckpt")} == {Role.STATE}


def test_averaged_parameters_are_a_part_of_the_state_that_was_written_with_them():
    made = grouped(
        each
        for n in (1, 2)
        for each in (piece(f"model_{n}.pt", HOURS * n, step=n), piece(f"ema_{n}.pt", HOURS * n + 1, role=Role.WEIGHTS))
    )
    assert len(made) == 2


@pytest.mark.parametrize(
    ("weights", "rest"),
    [
        ("weights/epoch_{}.pt", "optim/epoch_{}.pt"),
        ("net_weights/step_{}.pt", "opt_states/step_{}.pt"),
        ("model_epoch_{}.pt", "trainer_epoch_{}.pt"),
        ("net-{}.pth", "training-{}.pth"),
        ("weights_epoch{}.pt", "resume_epoch{}.pt"),
    ],
)
def test_an_optimizer_without_parameters_is_never_a_checkpoint_by_itself(weights, rest):
    made = grouped(
        each
        for n in (1, 2, 3)
        for each in (
            piece(weights.format(n), HOURS * n, role="weights"),
            piece(rest.format(n), HOURS * n + 1, role="part"),
        )
    )
    for checkpoint in made.values():
        is_whole = checkpoint.role is Role.STATE and len(checkpoint.files) == 2
        assert is_whole or checkpoint.role in {Role.WEIGHTS, Role.PART} or checkpoint.grouping.doubt


def test_parameters_and_an_optimizer_in_one_set_are_a_state():
    made = grouped(
        each
        for n in (1, 2)
        for each in (
            piece(f"step_{n}/model.pt", HOURS * n, role="weights"),
            piece(f"step_{n}/optimizer.pt", HOURS * n + 1, role="part"),
        )
    )
    assert {path: checkpoint.role for path, checkpoint in made.items()} == {"step_1": Role.STATE, "step_2": Role.STATE}


@pytest.mark.parametrize(("epochs", "is_known"), [((8, 9), True), ((1, 2), False)])
def test_two_epochs_that_the_content_confirms_are_chance_only_where_subjects_would_have_such_numbers(epochs, is_known):
    made = grouped(piece(f"net_{n}.pt", n * 600, epoch=n) for n in epochs)
    assert len(doubts(made)) == (0 if is_known else 2)
