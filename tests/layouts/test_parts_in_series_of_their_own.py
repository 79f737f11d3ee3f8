"""Parts of one save whose names do not show it: if the last save is cut short, the one before it stays with all parts.

Every part is a state of its own, in a series of its own.
"""

import pytest

from layouts.played_saves import HOUR, play, put
from layouts.real import pipeline
from layouts.real.layout import Save
from layouts.real.simulation import RESTART
from support import checkpoint_bytes

PARTS = {
    "two networks": ["G_epoch{}.pth", "D_epoch{}.pth"],
    "two generators": ["epoch_{}_G_A.pth", "epoch_{}_G_B.pth"],
    "models in directories": ["forward/step_{}.pt", "inverse/step_{}.pt"],
    "models in directories of each step": ["unet/step_{}/model.pt", "vae/step_{}/model.pt"],
    "models of a coupled climate": ["atm/restart.{}000", "ocn/restart.{}000", "ice/restart.{}000"],
}
IN_DIRECTORIES = [parts for parts in PARTS.values() if "/" in parts[0]]


def state(name, number):
    if "restart" in name:
        return RESTART(Save(s=1000 * number))
    return checkpoint_bytes.torch_state(number, 100 * number)


def save(parts, number):
    """One save, two hours after the one before it, 20 seconds for each part."""
    return [(2 * number + at / 180, {name.format(number): state(name, number)}) for at, name in enumerate(parts)]


def play_cut_short(root, parts, count):
    saves = [each for number in range(1, count + 1) for each in save(parts, number)]
    return play(root, saves + save(parts[:1], count + 1))


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_the_first_save_stays_with_all_parts_if_the_second_is_cut_short(tmp_path, parts):
    """As after any save of a script that removes the older ones itself: only one number is in all series."""
    assert play_cut_short(tmp_path, parts, 1) == {name.format(1) for name in parts} | {parts[0].format(2)}


@pytest.mark.parametrize("parts", IN_DIRECTORIES)
def test_of_many_saves_the_newest_with_all_parts_stays_if_the_last_is_cut_short(tmp_path, parts):
    assert play_cut_short(tmp_path, parts, 5) == {name.format(5) for name in parts} | {parts[0].format(6)}


@pytest.mark.parametrize("parts", IN_DIRECTORIES)
def test_only_the_newest_of_saves_with_all_parts_stays(tmp_path, parts):
    kept = play(tmp_path, [each for number in range(1, 7) for each in save(parts, number)])
    assert kept == {name.format(6) for name in parts}


@pytest.mark.parametrize("name", ["fold{}.pt", "seed_{}.ckpt", "task_{}.pt", "gpu{}.pt"])
def test_the_last_of_each_training_stays_where_they_save_into_the_same_directories_one_after_another(tmp_path, name):
    lengths = (6, 5, 2, 3, 2)  # of the trainings, in epochs
    order = [(epoch, name.format(number)) for number, count in enumerate(lengths) for epoch in range(1, count + 1)]
    saves = [
        (2 * hour, {f"epoch_{epoch}/{file}": checkpoint_bytes.torch_state(epoch)})
        for hour, (epoch, file) in enumerate(order)
    ]
    kept = play(tmp_path, saves, prunes_each=True)
    assert kept >= {f"epoch_{count}/{name.format(number)}" for number, count in enumerate(lengths)}
    assert "epoch_3/" + name.format(1) not in kept


@pytest.mark.parametrize("name", ["rank{}.pt", "step_{}00_part.pt"])
def test_numbers_of_ranks_and_saves_in_directories_keep_no_older_ones(tmp_path, name):
    saves = [(2 * n, {f"epoch_{n}/{name.format(0 if 'rank' in name else n)}": save_one(n)}) for n in range(1, 7)]
    assert {each.partition("/")[0] for each in play(tmp_path, saves, prunes_each=True)} == {"epoch_6"}


def test_a_number_that_differs_in_each_save_keeps_no_older_ones_after_the_job_started_over(tmp_path):
    saves = [(2 * at, {f"epoch_{n}/model_v{n}.pt": save_one(n)}) for at, n in enumerate([*range(1, 6), *range(1, 7)])]
    assert play(tmp_path, saves) == {"epoch_6/model_v6.pt"}


def test_the_last_of_a_training_stays_though_no_writer_of_its_earlier_ones_is_known(tmp_path):
    put(tmp_path, "epoch_3/fold1.pt", save_one(3), pipeline.START - HOUR)  # before the first scan
    order = [(6, 1), (2, 2), (4, 2), (8, 2), (10, 2)]
    saves = [(2 * at, {f"epoch_{epoch}/fold{fold}.pt": save_one(epoch)}) for at, (epoch, fold) in enumerate(order)]
    assert play(tmp_path, saves, prunes_each=True) == {"epoch_3/fold1.pt", "epoch_6/fold1.pt", "epoch_10/fold2.pt"}


def save_one(number):
    return checkpoint_bytes.torch_state(number)
