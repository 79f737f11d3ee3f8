import pytest

from ckptd.checkpoints.formats import facts
from ckptd.checkpoints.formats.pickle_values import Opaque


@pytest.mark.parametrize(
    ("state", "epoch", "step"),
    [
        ({"epoch": 4, "model": {"step": 9}}, 4, None),
        ({"epoch": 2.5, "global_step": 100}, 2.5, 100),
        ({"meta": {"epoch": 8, "iter": 64}}, 8, 64),
        ({"optimizer": {"step": 7}, "epoch": 1}, 1, None),
        ({"args": {"epochs": 300}, "iteration": 20}, None, 20),
        ({"generation": 30, "population": []}, None, 30),
        ({"epoch": True}, None, None),
        ({"epoch": -1}, None, None),
        ({"epoch": 1 << 70}, None, None),
        ({"epoch": float("nan")}, None, None),
        (Opaque("m", "State", state={"epoch": 7}), 7, None),
        ([1, 2], None, None),
    ],
)
def test_epoch_and_step_are_found_by_their_names(state, epoch, step):
    found = facts.find_facts(state)
    assert (found.epoch, found.step) == (epoch, step)


def test_metrics_are_found_and_other_numbers_are_not():
    found = facts.find_facts({"best_acc": 0.75, "val_loss": 1, "lr": 0.1, "loss_scale": 3.0, "metrics": {"top1": 0.5}})
    assert found.metrics == {"best_acc": 0.75, "val_loss": 1.0, "top1": 0.5}


def test_a_state_that_holds_itself_is_walked_once():
    state = {"epoch": 3}
    state["state"] = state
    assert facts.find_facts(state).epoch == 3
