"""What is known about the content of a copy after a comparison, and when nothing is known any more."""

from dataclasses import replace

import pytest

from ckptd.core.model import ContentComparison
from ckptd.core.runs.compared_content import MAX_COMPARISONS, add_comparison, differs, find_comparison, identify_files
from core.histories import RUN, at, history, saved

RECORD = history()


def compare(copy, differing_file=None):
    files = identify_files(copy.checkpoint)
    known = ContentComparison(at(60), f"{RUN.directory}/a.pt", "0" * 32, files, differing_file, is_by_owner=False)
    return replace(copy, comparisons=(known,))


def change(record, **values):
    (identity,) = record.checkpoint.identities
    return replace(record, checkpoint=replace(record.checkpoint, identities=(identity._replace(**values),)))


def test_a_copy_with_other_content_differs():
    assert differs(RECORD, compare(saved(10), "step-10.pt"))
    assert not differs(RECORD, compare(saved(10)))
    assert not differs(RECORD, saved(10))


def test_a_copy_of_one_checkpoint_of_a_run_may_differ_from_another():
    copy = compare(saved(10))
    (same,) = copy.comparisons
    other = same._replace(original=f"{RUN.directory}/below/a.pt", differing_file="a.pt")
    for known in ((same, other), (other, same)):
        assert find_comparison(RECORD, replace(copy, comparisons=known)) == same
    last = other._replace(original=f"{RUN.directory}/b.pt")
    assert find_comparison(RECORD, replace(copy, comparisons=(other, last))) == last


@pytest.mark.parametrize("values", [{"inode": 7}, {"size_bytes": 1}, {"modified_ns": 5}, {"changed_ns": 6}])
def test_a_copy_that_was_written_again_is_not_known_to_differ(values):
    known = compare(saved(10), "step-10.pt")
    assert find_comparison(RECORD, known) is not None
    assert find_comparison(RECORD, change(known, **values)) is None
    assert not differs(RECORD, change(known, **values))


def test_a_copy_on_another_mount_is_the_same():
    assert differs(RECORD, change(compare(saved(10), "step-10.pt"), device=99))


def test_a_copy_with_other_names_is_not_the_one_that_was_compared():
    known = compare(saved(10), "step-10.pt")
    renamed = replace(known, checkpoint=replace(known.checkpoint, files=("step-\udc80.pt",)))
    assert find_comparison(RECORD, renamed) is None


def test_a_new_comparison_replaces_those_with_the_same_original_and_of_earlier_files():
    one = ContentComparison(at(60), "/a.pt", "0" * 32, "1" * 32, "a.pt", is_by_owner=False)
    other = one._replace(original="/b.pt")
    again = one._replace(compared_at=at(70), differing_file=None)
    assert add_comparison((one, other), again) == (other, again)
    later = again._replace(copy_files="2" * 32)
    assert add_comparison((other, again), later) == (later,)
    many = [one._replace(original=f"/{number}.pt") for number in range(20)]
    assert add_comparison(many, one) == (*many[-MAX_COMPARISONS + 1 :], one)
