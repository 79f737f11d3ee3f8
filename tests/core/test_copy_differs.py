"""The rule about copies whose content is known to differ from their original."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.health.copy_behind import CopyBehind
from ckptd.core.health.copy_differs import CopyDiffers
from ckptd.core.model import ContentComparison, CopyLocation, Severity, Unknown
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs.compared_content import identify_files
from core.histories import at, history, job, only, saved, scan_at

UNREAD = Unknown(what="directory", reason="timed out")
ORIGINAL = saved(10, step=1)


def compare(copy, original=ORIGINAL, *, differing_file="step-1.pt", **changes):
    known = ContentComparison(
        compared_at=at(30),
        original=str(original.checkpoint.path),
        original_files=identify_files(original.checkpoint),
        copy_files=identify_files(copy.checkpoint),
        differing_file=differing_file,
        is_by_owner=False,
    )
    return replace(copy, comparisons=(*copy.comparisons, known._replace(**changes)))


def make_copy(directory="/archive", original=ORIGINAL, **changes):
    path = f"{directory}/{original.checkpoint.path.name}"
    return replace(
        original, checkpoint=replace(original.checkpoint, path=type(original.checkpoint.path)(path)), **changes
    )


def make_location(*copies, directory="/archive", scan=None, **changes):
    return CopyLocation(directory=directory, scan=scan or scan_at(50), checkpoints=copies, **changes)


def judge(*locations, checkpoints=(ORIGINAL,)):
    return only(CopyDiffers(), history(now=60, checkpoints=checkpoints, scan=scan_at(60), copies=locations), 60)


def test_a_copy_with_another_content_is_flagged_with_its_first_file_that_differs():
    found = judge(make_location(compare(make_copy()), make_copy()))
    assert found.severity is Severity.WARNING
    assert found.evidence["copy"] == "/archive/step-1.pt"
    assert (found.evidence["differing_file"], found.evidence["copy_count"]) == ("step-1.pt", 1)


@pytest.mark.parametrize(
    "copies",
    [
        (),
        (make_copy(),),
        (compare(make_copy(), differing_file=None),),
        (compare(make_copy(), copy_files="0" * 32),),  # written again since
        (compare(make_copy(), original_files="0" * 32),),  # the original was
        (replace(compare(make_copy()), deleted_at=at(40)),),
    ],
    ids=["no copy", "not compared", "the same", "copied again", "saved again", "deleted"],
)
def test_without_such_a_copy_nothing_is_flagged(copies):
    assert judge(make_location(*copies)) is None


def test_an_original_that_is_deleted_does_not_make_its_copy_right():
    gone = replace(ORIGINAL, deleted_at=at(40))
    assert judge(make_location(compare(make_copy())), checkpoints=(gone,)) is not None
    assert judge(make_location(compare(make_copy())), checkpoints=()) is not None


def test_a_location_that_was_not_read_is_not_decided():
    rule = CopyDiffers()
    for location in (make_location(scan=UNREAD), make_location(compare(make_copy()), scan=UNREAD)):
        given = history(now=60, checkpoints=(ORIGINAL,), scan=scan_at(60), copies=(location,))
        assert isinstance(rule.evaluate(given, at(60)), Unknown)
    assert judge(make_location(scan=UNREAD), make_location(compare(make_copy()), directory="/project")) is not None
    assert judge(make_location(is_absent=True)) is None


def test_a_copy_that_differs_is_no_copy_even_after_its_original_was_saved_again():
    other = saved(20, step=2)
    wrong = compare(make_copy(original=other), other)
    location = make_location(make_copy(), wrong)
    given = history(now=60, checkpoints=(ORIGINAL,), scan=scan_at(60), copies=(location,))
    assert [each.record for each in copied_checkpoints.list_copies(given, location)] == [make_copy()]
    assert copied_checkpoints.find_newest(given).record == ORIGINAL


def test_a_copy_that_differs_is_nothing_that_a_restart_could_have_resumed_from():
    for copy, expected in ((make_copy(), True), (compare(make_copy()), False)):
        gone = replace(ORIGINAL, deleted_at=at(20))
        given = history(now=60, checkpoints=(gone,), scan=scan_at(60), copies=(make_location(copy),))
        assert copied_checkpoints.had_complete(given, at(30)) == expected


def test_copies_that_arrive_with_another_content_are_one_trouble_and_not_behind_as_well():
    saves = [saved(minute, step=minute) for minute in range(20, 1000, 20)]
    copies = [make_copy(original=each) for each in saves]
    wrong = [compare(copy, each) if copy is copies[-1] else copy for copy, each in zip(copies, saves, strict=True)]

    def judge_both(*those, checkpoints=saves):
        given = history(
            now=1000, checkpoints=checkpoints, scan=scan_at(1000), copies=(make_location(*those),), jobs=[job()]
        )
        return [rule.name for rule in (CopyBehind(), CopyDiffers()) if [*rule.evaluate(given, at(1000))]]

    early = CopyBehind(min_copies=100, first_after=timedelta(minutes=1))
    given = history(now=1000, checkpoints=saves, scan=scan_at(1000), copies=(make_location(wrong[-1]),), jobs=[job()])
    assert [*early.evaluate(given, at(1000))] == []
    assert judge_both(*copies) == []
    assert judge_both(*wrong) == [CopyDiffers.name]
    stopped = [compare(copies[5], saves[5])]
    assert judge_both(*copies[:5], *stopped) == [CopyBehind.name, CopyDiffers.name]


def test_a_copy_of_another_run_in_a_shared_directory_differs_from_this_ones_alone():
    theirs = "/scratch/alice/run2/step-1.pt"
    shared = compare(make_copy())
    (known,) = shared.comparisons
    of_theirs = replace(shared, comparisons=(known._replace(differing_file=None), known._replace(original=theirs)))
    assert judge(make_location(of_theirs)) is None
    of_ours = replace(shared, comparisons=(known, known._replace(original=theirs, differing_file=None)))
    assert judge(make_location(of_ours)) is not None


def test_the_last_of_several_comparisons_counts():
    wrong = compare(make_copy())
    assert judge(make_location(compare(wrong, differing_file=None))) is None
