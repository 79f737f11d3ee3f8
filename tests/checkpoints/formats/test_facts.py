import pytest

from ckptd.checkpoints.formats import facts
from ckptd.checkpoints.formats.encodings.pickle_values import Opaque


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


@pytest.mark.parametrize(
    ("state", "goal_epoch", "goal_step"),
    [
        ({"global_step": 30, "max_steps": 45, "num_train_epochs": 4}, 4, 45),
        ({"epoch": 3, "args": Opaque("argparse", "Namespace", state={"epochs": 300, "seed": 1})}, 300, None),
        ({"iter_num": 10, "config": {"max_iters": 600000, "total_steps": 7}}, None, 600000),
        ({"epoch": 3, "hyper_parameters": {"max_epochs": 90, "lr": 0.1}}, 90, None),
        ({"epoch": 3, "max_epochs": 9, "config": {"max_epochs": 90}}, 9, None),
        ({"epoch": 3, "epochs": 5}, None, None),
        ({"model": {"max_steps": 7}, "optimizer": {"total_steps": 9}}, None, None),
        ({"epoch": 3, "global_step": 9, "max_epochs": -1, "max_steps": -1}, None, None),
        ({"epoch": 12, "args": {"epochs": 10}}, None, None),
        ({"max_steps": float("inf"), "max_epochs": True}, None, None),
    ],
)
def test_the_goal_of_a_training_is_found_in_its_state_or_its_settings(state, goal_epoch, goal_step):
    found = facts.find_facts(state)
    assert (found.goal_epoch, found.goal_step) == (goal_epoch, goal_step)


def test_the_updates_of_fairseq_are_its_step():
    state = {"optimizer_history": [{"num_updates": 100}, {"num_updates": 15000}], "extra_state": {"epoch": 12}}
    found = facts.find_facts(state)
    assert (found.epoch, found.step) == (12, 15000)
    for history in ([], [None], [{"num_updates": "many"}], {"num_updates": 3}, None):
        assert facts.find_facts({"optimizer_history": history}).step is None
