"""Which directories clusters share: those that both declare."""

from datetime import timedelta

import pytest

from ckptd.core.runs.shared_files import (
    SharedDirectory,
    ShareTrouble,
    declare,
    find_acting,
    find_trouble,
    select_mutual,
)
from support.queue_facts import at


def test_a_cluster_declares_each_directory_with_each_other_cluster_of_its_groups():
    groups = [(("a", "b", "c"), ("/project", "/work")), (("b", "c"), ("/data",))]
    assert declare("a", groups) == (
        SharedDirectory("a", "b", "/project"),
        SharedDirectory("a", "c", "/project"),
        SharedDirectory("a", "b", "/work"),
        SharedDirectory("a", "c", "/work"),
    )


def test_only_what_both_declare_is_in_effect():
    ours, theirs = SharedDirectory("a", "b", "/project"), SharedDirectory("b", "a", "/project")
    assert select_mutual([ours], {}) == ()
    others = [SharedDirectory("b", "a", "/project/x"), SharedDirectory("b", "c", "/project")]
    assert select_mutual([ours, *others], {}) == ()
    assert select_mutual([ours, theirs], {}) == (ours, theirs)


@pytest.mark.parametrize(
    ("ahead", "trouble"),
    [
        ({}, None),
        ({"a": 300}, None),  # that of the other one is not known
        ({"a": 300, "b": 250}, None),
        ({"a": 0, "b": 60}, ShareTrouble.CLOCKS),
        ({"a": -30, "b": 30}, ShareTrouble.CLOCKS),
        ({"a": 0, "b": 59, "c": 600}, None),
    ],
)
def test_clusters_whose_clocks_differ_by_a_minute_share_nothing(ahead, trouble):
    clocks = {name: timedelta(seconds=seconds) for name, seconds in ahead.items()}
    ours = SharedDirectory("a", "b", "/project")
    assert find_trouble(ours, [ours, ours.reverse], clocks) is trouble
    assert find_trouble(ours.reverse, [ours, ours.reverse], clocks) is trouble
    assert bool(select_mutual([ours, ours.reverse], clocks)) is (trouble is None)


@pytest.mark.parametrize(
    ("path", "is_inside"),
    [("/project", True), ("/project/x/y", True), ("/projects/x", False), ("/", False), ("job-7", False)],
)
def test_a_shared_directory_contains_itself_and_what_is_below_it(path, is_inside):
    assert SharedDirectory("a", "b", "/project").contains(path) is is_inside


@pytest.mark.parametrize(
    ("latest", "acting"),
    [
        ({"a": at(1), "b": at(2)}, "b"),
        ({"a": at(3), "b": at(2)}, "a"),
        ({"a": at(2), "b": at(2)}, "b"),
        ({"a": at(1), "b": None}, "a"),
        ({"a": None, "b": None}, "b"),
    ],
)
def test_the_cluster_of_the_latest_attempt_acts(latest, acting):
    assert find_acting(latest) == acting
    assert find_acting(dict(reversed(latest.items()))) == acting
