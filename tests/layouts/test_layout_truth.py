"""The truth about generated layouts: a plan that knows it breaks nothing, and bad guesses are caught."""

import functools
import re
from collections import Counter

from ckptd.core.model import Role
from layouts import examples, truth
from layouts.choices import simplify
from layouts.generator import generate

LAYOUTS = 250
ASKED = truth.Asked(last=2)


@functools.cache
def list_worlds():
    """The same worlds for each way to decide."""
    return [generate(examples.choose("truth", number)) for number in range(LAYOUTS)]


def judge_all(decide, asked=ASKED):
    """Return what kinds of violations there are, and how many sets must go and would go."""
    kinds, must_count, removed_count = Counter(), 0, 0
    for world in list_worlds():
        kept = {*world.markers, *world.links}
        decisions = decide(world.saves, world.data, kept, asked)
        violations, must, removed = truth.judge(world.saves, world.data, kept, asked, decisions)
        kinds.update({violation.kind for violation in violations})
        must_count, removed_count = must_count + len(must), removed_count + len(removed)
    return kinds, must_count, removed_count


def by_truth(saves, data, kept_files, asked):
    """Let everything go that may go."""
    newest = truth.list_newest(saves, asked.last)
    sets = [
        truth.Decided(frozenset(save.files), bool(truth.protection_of(save, newest, asked)), ("the truth",))
        for save in saves
    ]
    return sets + [truth.Decided(frozenset({path}), True, ("no checkpoint",)) for path in (*data, *kept_files)]


def by_last_number(saves, data, kept_files, asked):
    """Take the last number of each name for progress, whatever it counts."""
    by_number = {}
    for path in (*(path for save in saves for path in save.files), *data, *kept_files):
        numbers = re.findall(r"\d+", path.rpartition("/")[2].rpartition(".")[0])
        by_number.setdefault(int(numbers[-1]) if numbers else -1, set()).add(path)
    goes = sorted(number for number in by_number if number >= 0)[: -asked.last]
    return [truth.Decided(frozenset(paths), number not in goes, ("number",)) for number, paths in by_number.items()]


def by_nothing(saves, data, kept_files, asked):
    """Keep everything, and do not say why."""
    return [truth.Decided(frozenset({path}), True, ()) for save in saves for path in save.files]


def test_who_knows_the_truth_breaks_nothing_and_removes_all_that_must_go():
    kinds, must_count, removed_count = judge_all(by_truth)
    assert not kinds
    assert removed_count == must_count > LAYOUTS


def test_weights_go_where_the_policy_says_so():
    asked = truth.Asked(last=1, roles=frozenset({Role.STATE, Role.WEIGHTS}))
    assert not judge_all(by_truth, asked)[0]


def test_the_last_number_of_a_name_tears_sets_and_takes_data():
    kinds, must_count, removed_count = judge_all(by_last_number)
    assert {"torn", "data", "its role is weights", "newest", "overwritten in place"} <= set(kinds)
    assert removed_count < must_count * examples.GOAL


def test_keeping_everything_without_a_reason_fails_both_ways():
    kinds, must_count, removed_count = judge_all(by_nothing)
    assert set(kinds) == {"no reason"}
    assert removed_count == 0 < must_count


def test_the_same_number_makes_the_same_layout():
    worlds = [generate(examples.choose("same", 7)) for _ in range(2)]
    assert worlds[0].files() == worlds[1].files()
    assert worlds[0].saves == worlds[1].saves


def test_a_counterexample_is_simplified_trait_by_trait():
    def has_eight_members(choices):
        world = generate(choices)
        return any(len(save.files) >= 8 for save in world.saves)

    number = next(number for number in range(1000) if has_eight_members(examples.choose("simple", number)))
    found = simplify(examples.choose("simple", number), has_eight_members)
    assert has_eight_members(found)
    assert sum(1 for index in found.made.values() if index) <= 3


def test_layouts_are_as_various_as_they_should_be():
    worlds = list_worlds()
    assert sum(1 for world in worlds if world.data) > LAYOUTS // 3
    assert sum(1 for world in worlds if world.links) > LAYOUTS // 10
    assert sum(1 for world in worlds if world.by_hand or world.is_copied_back) > LAYOUTS // 10
    assert sum(1 for world in worlds if any(len(save.members) > 1 for save in world.saves)) > LAYOUTS // 3
    assert sum(1 for world in worlds if any(not save.is_complete for save in world.saves)) > LAYOUTS // 20
    assert {save.role for world in worlds for save in world.saves} == {Role.STATE, Role.WEIGHTS}
