"""Plans over generated layouts, whose truth is known: nothing is torn or taken that must stay, and what must go goes.

The command tests/fuzz/layouts.py does the same for any number of layouts.
"""

import pytest

from layouts import examples, on_disk
from support.examples import FACTOR

CHUNKS = 8
CHUNK = 40 * FACTOR  # layouts
ON_DISK = 16 * FACTOR


@pytest.fixture(scope="module")
def tally():
    """What came of all chunks so far."""
    return examples.Tally()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_plan_tears_no_set_and_takes_nothing_that_must_stay(chunk, tally):
    found = examples.run_many("ci", range(chunk * CHUNK, (chunk + 1) * CHUNK))
    tally.merge(found)
    for kind, choices in found.broken.items():
        print(examples.show(examples.smallest(choices, kind)))
    assert not found.violations


def test_plans_contain_nearly_all_sets_that_must_go(tally):
    print(tally.sentence())
    for kind, count in tally.missed.most_common(10):
        print(f"{count} sets that must go stay: {kind}")
    assert tally.count == CHUNKS * CHUNK
    assert tally.recall >= examples.GOAL


@pytest.mark.parametrize("number", range(ON_DISK))
def test_what_the_trash_leaves_on_a_real_disk_is_what_the_truth_says(number):
    world, asked = examples.ask(examples.choose("disk", number))
    on_disk.prune_and_check(world, asked)
