"""Which checkpoints of two series the floor takes for parts of one save, and which not."""

import pytest

from ckptd.core.model import Role
from ckptd.core.retention import KeepLast
from core.retention_facts import policy_of, removed, run_of, saved


def run(**names):
    """A run whose checkpoints in each directory were written so many hours ago, by their step."""
    return run_of(*(saved(f"{at}_step_{n}.pt", age, step=n) for at, ages in names.items() for n, age in ages.items()))


@pytest.mark.parametrize(
    ("one", "other", "gone"),
    [
        ({1: 50, 2: 40, 3: 30}, {1: 49.9, 2: 39.9}, {"one_step_1.pt", "other_step_1.pt"}),
        ({1: 50, 2: 40, 3: 30, 4: 20}, {1: 49, 2: 39}, {"one_step_1.pt", "one_step_3.pt", "other_step_1.pt"}),
        ({2: 40, 3: 30}, {1: 49, 2: 39}, {"other_step_1.pt"}),
        # one after the other
        ({1: 50, 2: 40, 3: 30}, {1: 20, 2: 10}, {"one_step_1.pt", "one_step_2.pt", "other_step_1.pt"}),
        # at another pace
        ({1: 50, 2: 48, 3: 46, 4: 44}, {1: 50, 2: 45}, {f"one_step_{n}.pt" for n in (1, 2, 3)} | {"other_step_1.pt"}),
        # both are there
        ({1: 50, 2: 40}, {1: 49, 2: 39}, {"one_step_1.pt", "other_step_1.pt"}),
    ],
)
def test_the_newest_number_of_both_stays_if_it_is_of_one_save(one, other, gone):
    assert removed(run(one=one, other=other), policy_of(KeepLast(1))) == gone


def test_a_restart_from_an_older_save_is_compared_with_what_was_saved_after_it():
    run_again = run(one={1: 50, 4: 35, 5: 33, 2: 20, 3: 10}, other={1: 49, 4: 34, 5: 32, 2: 19})
    assert "one_step_2.pt" not in removed(run_again, policy_of(KeepLast(1)))


def test_exported_parameters_and_the_best_one_keep_no_state():
    states = [saved(f"step_{n}.pt", 60 - 10 * n, step=n) for n in (1, 2, 3)]
    exported = saved("export/step_1.pt", 49.9, step=1, role=Role.WEIGHTS)
    best = saved("best_step_1.pt", 49.9, step=1)
    policy = policy_of(KeepLast(1), roles=frozenset({Role.STATE, Role.WEIGHTS}))
    assert removed(run_of(*states, exported, best), policy) == {"step_1.pt", "step_2.pt"}


def test_a_series_that_ended_long_before_another_one_was_not_cut_short():
    gone = removed(run(one={n: 60 - 10 * n for n in range(1, 5)}, other={1: 49.9}))
    assert gone == {f"one_step_{n}.pt" for n in (1, 2, 3)}


def test_the_trials_of_a_sweep_are_no_parts_of_one_save():
    ages = {f"trial{n}": {1: 50, 2: 40} if n else {1: 50, 2: 40, 3: 30} for n in range(60)}
    gone = removed(run(**ages))
    assert {"trial0_step_1.pt", "trial0_step_2.pt", "trial1_step_1.pt"} <= gone
    assert "trial0_step_2.pt" not in removed(run(trial0=ages["trial0"], trial1=ages["trial1"]))
