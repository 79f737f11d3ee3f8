from datetime import UTC, datetime, timedelta

import pytest

from ckptd.core.model import CheckpointState, Grouping, Role
from ckptd.core.runs.newest_complete import choose
from support.checkpoints import make_checkpoint

START = datetime(2026, 11, 22, tzinfo=UTC)


def make(name, minute, state="complete", role=Role.STATE, doubt=None, **changes):
    return make_checkpoint(
        f"/run/{name}",
        START + timedelta(minutes=minute),
        state=CheckpointState(state),
        role=role,
        grouping=Grouping(doubt=doubt),
        **changes,
    )


CASES = {  # what is there, and the name of the chosen one, None for none, or "?" where that is unknown
    "what was written last": ([make("b", 1, step=900), make("a", 2, step=100)], "a"),
    "an older copy with a newer date": ([make("ck/b", 1, step=900), make("backup/a", 2, step=100)], "b"),
    "a copy that is further": ([make("ck/b", 2, step=100), make("backup/a", 1, step=900)], "b"),
    "a newer copy that is further": ([make("ck/b", 1, step=100), make("backup/a", 2, step=900)], "a"),
    "a copy alone": ([make("backup/a", 2, step=100), make("backup/b", 3, step=200)], "b"),
    "a copy beside what tells no progress": ([make("ck/b", 1), make("backup/a", 2, step=100)], "a"),
    "all copied at once": ([make("a", 1.1, step=100), make("b", 1, step=900), make("c", 1.05, step=800)], "b"),
    "a training that began anew": ([make("a", 1, step=900), make("b", 1.1, step=950), make("c", 9, step=100)], "c"),
    "another training below": ([make("run_1/b", 1, step=900), make("run_2/a", 2, step=100)], "a"),
    "more progress at the same instant": ([make("a", 1, step=1), make("b", 1, step=2)], "b"),
    "a backup that is made after the save": ([make("a.cpt", 1, step=2), make("a_prev.cpt", 2, step=1)], "a.cpt"),
    "a backup whose original is damaged": ([make("a.cpt", 1, "damaged"), make("a_prev.cpt", 2, step=1)], "a_prev.cpt"),
    "nothing": ([], None),
    "a half-written newest": ([make("a", 1), make("b", 2, "writing")], "a"),
    "a damaged newest": ([make("a", 1), make("b", 2, "damaged")], "a"),
    "only damaged ones": ([make("a", 1, "damaged")], None),
    "an unreadable newest": ([make("a", 1), make("b", 2, "unknown")], "?"),
    "an unreadable older one": ([make("a", 1, "unknown"), make("b", 2)], "b"),
    "an unreadable guess beside a state": ([make("a", 1), make("b", 2, "unknown", format="generic")], "a"),
    "an unreadable guess alone": ([make("b", 2, "unknown", format="generic")], "?"),
    "an undecided newest": ([make("a", 1), make("b", 2, doubt="may be a rank's")], "?"),
    "an undecided older one": ([make("a", 1, doubt="may be a rank's"), make("b", 2)], "b"),
    "an undecided one that a marker names": ([make("a", 1, doubt="counts what?", is_newest=True)], "a"),
    "undecided data beside a state": ([make("a", 1), make("b", 2, role=Role.DATA, doubt="a result?")], "a"),
    "weights beside an older state": ([make("a", 1), make("b", 2, role=Role.WEIGHTS)], "a"),
    "data beside older weights": ([make("a", 1, role=Role.WEIGHTS), make("b", 2, role=Role.DATA)], "a"),
    "an optimizer without its model": ([make("a", 1, role=Role.PART)], "?"),
    "an optimizer beside a state": ([make("a", 1), make("b", 2, role=Role.PART)], "a"),
    "one that the marker names": ([make("a", 1, is_newest=True), make("b", 2)], "a"),
    "a damaged one that the marker names": ([make("a", 1, "damaged", is_newest=True), make("b", 2)], "b"),
    "a marker of another format": ([make("a", 1, is_newest=True, format="deepspeed"), make("b", 2)], "b"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_newest_is_chosen_or_said_to_be_unknown(case):
    found, expected = CASES[case]
    for order in (found, found[::-1]):
        choice = choose(order)
        assert (choice.chosen is None) is (expected in {None, "?"})
        assert bool(choice.unknown) is (expected == "?")
        if choice.chosen is not None:
            assert choice.chosen.path.name == expected


def test_what_a_save_left_behind_counts_only_where_nothing_else_is():
    found = [make("a", 1), make("a.tmp", 2)]
    assert choose(found, leftovers={"/run/a.tmp"}).chosen.path.name == "a"
    alone = choose(found[1:], leftovers={"/run/a.tmp"})
    assert (alone.chosen.path.name, len(alone.notes)) == ("a.tmp", 1)


def test_with_a_step_only_checkpoints_of_that_step_count():
    found = [make("a", 1, step=100), make("b", 2, step=200), make("c", 3, step=100, state="damaged")]
    assert choose(found, step=100).chosen.path.name == "a"
    assert choose(found, step=300).chosen is None


def test_newer_ones_that_are_not_complete_are_reported():
    choice = choose([make("a", 1, "damaged"), make("b", 2), make("c", 3, "writing"), make("d", 4, "damaged")])
    assert [each.path.name for each in choice.skipped] == ["c", "d"]


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ([make("a", 1, role=Role.WEIGHTS)], "role is weights"),
        ([make("a", 1, unsafe=("posix.system",))], "posix.system"),
        ([make("a", 1, step=900), make("b", 2, step=100)], "older and at step 900"),
        ([make("a", 1, epoch=9), make("b", 2, epoch=3)], "at epoch 3; "),
        ([make("a", 1, is_newest=True), make("b", 2)], "is newer"),
    ],
)
def test_what_should_be_known_before_it_is_loaded_is_noted(found, word):
    (note,) = choose(found).notes
    assert word in note


def test_a_plain_answer_has_no_notes():
    assert choose([make("a", 1, step=1), make("b", 2, step=2)]).notes == ()


def compare(found, **more):
    """The chosen one's path, and of others below /run the path and in which sense they come later."""
    choice = choose(found, **more)
    words = {(True, False): "further", (False, True): "newer", (True, True): "both"}
    others = [
        (str(each.checkpoint.path.relative_to("/run")), words[each.is_further, each.is_newer])
        for each in choice.elsewhere
    ]
    return str(choice.chosen.path.relative_to("/run")), others


def test_one_of_another_directory_that_is_further_is_named():
    found = [make("v0/a", 1, step=1000), make("v0/b", 2, step=1200), make("v1/a", 3, step=300)]
    assert compare(found) == ("v1/a", [("v0/b", "further")])


def test_one_of_another_directory_that_is_newer_is_named_where_a_marker_or_a_role_decided():
    assert compare([make("x/a", 2), make("y/a", 1), make("y/b", 3, "damaged")]) == ("x/a", [])
    assert compare([make("x/a", 2)], nearby=[make("y/a", 9)]) == ("x/a", [("y/a", "newer")])
    assert compare([make("x/a.tmp", 2), make("y/a", 1)], leftovers={"/run/x/a.tmp"}) == ("y/a", [("x/a.tmp", "newer")])


def test_the_furthest_and_the_newest_of_each_other_directory_are_named():
    nearby = [make("v1/a", 5, step=300), make("v1/b", 7, step=200), make("v2/a", 8, step=900), make("v3/a", 1, step=1)]
    assert compare([make("v0/a", 4, step=100)], nearby=nearby) == (
        "v0/a",
        [("v2/a", "both"), ("v1/a", "both"), ("v1/b", "both")],
    )


def test_epochs_are_compared_where_one_has_no_step():
    assert compare([make("x/a", 2, epoch=3, step=300), make("y/a", 1, epoch=4)]) == ("x/a", [("y/a", "further")])
    assert compare([make("x/a", 2, step=300), make("y/a", 1, epoch=900)]) == ("x/a", [])


def test_copies_exports_and_data_elsewhere_are_no_rivals():
    copies = [make("x/a", 2, step=300), make("y/a", 1, step=300)]
    assert compare(copies) == ("x/a", [])
    assert compare([make("x/a", 2, step=300), make("y/model", 3, role=Role.WEIGHTS)]) == ("x/a", [])
    assert compare([make("x/a", 2, step=300), make("y/samples", 3, role=Role.DATA, step=900)]) == ("x/a", [])
    weights = make("y/model", 1, role=Role.WEIGHTS, step=900)
    assert compare([make("x/a", 2, step=300), weights]) == ("x/a", [("y/model", "further")])


def test_where_nothing_is_found_the_newest_complete_ones_nearby_are_named():
    nearby = [make("v0/a", 1, step=1), make("v0/b", 2, step=2), make("v1/a", 3, "damaged"), make("v2/a", 4, step=1)]
    choice = choose([make("v3/a", 5, "damaged")], nearby=nearby)
    assert (choice.chosen, choice.unknown) == (None, ())
    assert [str(each.checkpoint.path) for each in choice.elsewhere] == ["/run/v0/b", "/run/v2/a"]
    assert choose([make("v3/a", 5, "unknown")], nearby=nearby).elsewhere == ()


def test_with_a_step_others_of_that_step_are_compared():
    found = [make("x/a", 2, step=300), make("y/a", 1, step=300), make("y/b", 3, step=900)]
    assert compare(found, step=300, nearby=[make("z/a", 9, step=1)]) == ("x/a", [])
