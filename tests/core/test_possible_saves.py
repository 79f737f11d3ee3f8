"""Rules about runs with a file of no known format, which counts if an attempt of the run may have written it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.health.checkpoints_not_located import CheckpointsNotLocated
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.model import CheckpointState, CopyLocation, Severity, SummedCheckpoints, Unknown, UnrecognisedFile
from core.histories import REQUEUED, at, attempt, history, saved, scan_at, text_of


def with_file(written, now=70.0, **changes):
    """Return a run whose directory has such a file, written at that minute; None: no file."""
    file = None if written is None else UnrecognisedFile("photos/x100", 3072, at(written))
    return history(now=now, **{"attempts": REQUEUED, "scan": scan_at(now, unrecognised=file), **changes})


@pytest.mark.parametrize(("written", "is_known"), [(None, True), (-1, True), (0, False), (30, False), (65, False)])
def test_a_restart_is_judged_unless_a_file_may_have_been_saved_since_the_run_began(written, is_known):
    given = with_file(written)
    critical = list(RestartedWithoutCheckpoint().evaluate(given, at(70)))
    unsure = list(CheckpointsNotLocated().evaluate(given, at(70)))
    assert [each.severity for each in critical] == [Severity.CRITICAL] * is_known
    assert [each.severity for each in unsure] == [Severity.INFO] * (not is_known)
    assert all("/scratch/alice/run/photos/x100 (3.0 KiB)" in text_of(each) for each in unsure)
    assert not any("is lost" in text_of(each) for each in unsure)


def test_a_file_of_the_second_in_which_the_run_began_counts():
    late = [replace(each, started_at=each.started_at + timedelta(milliseconds=700)) for each in REQUEUED]
    assert list(RestartedWithoutCheckpoint().evaluate(with_file(0, attempts=late), at(70))) == []


@pytest.mark.parametrize("changes", [{"state": CheckpointState.DAMAGED}, {"gone": 50}])
def test_a_run_that_used_a_known_format_is_judged_by_it(changes):
    given = with_file(40, checkpoints=[saved(30, **changes)])
    assert len(list(RestartedWithoutCheckpoint().evaluate(given, at(70)))) == 1
    assert list(CheckpointsNotLocated().evaluate(given, at(70))) == []


def test_a_run_of_whose_checkpoints_only_sums_are_left_used_a_known_format():
    given = with_file(40, summed=SummedCheckpoints(9, 9 << 30, at(-900), at(-800)))
    assert len(list(RestartedWithoutCheckpoint().evaluate(given, at(70)))) == 1
    assert list(CheckpointsNotLocated().evaluate(given, at(70))) == []


@pytest.mark.parametrize("kind", ["copies", "earlier"])
def test_a_file_in_a_further_location_counts_too(kind):
    file = UnrecognisedFile("x100", 1, at(30))
    place = CopyLocation(directory="/archive/run", scan=scan_at(70, unrecognised=file), is_earlier=kind == "earlier")
    given = with_file(None, **{kind: (place,)})
    assert list(RestartedWithoutCheckpoint().evaluate(given, at(70))) == []
    [found] = CheckpointsNotLocated().evaluate(given, at(70))
    assert found.evidence["unrecognised"] == "/archive/run/x100"


def test_a_directory_that_was_not_read_whole_is_not_decided():
    broken = (Unknown(what="directory", reason="x"),)
    given = with_file(30)
    given = replace(given, scan=replace(given.scan, problems=broken))
    for rule in (RestartedWithoutCheckpoint(), CheckpointsNotLocated()):
        assert isinstance(rule.evaluate(given, at(70)), Unknown)


@pytest.mark.parametrize(
    ("written", "severity"), [(None, Severity.WARNING), (-5, Severity.WARNING), (30, Severity.INFO)]
)
def test_a_first_attempt_that_wrote_such_a_file_is_not_said_to_save_nothing(written, severity):
    [found] = NoCheckpointYet().evaluate(with_file(written, attempts=[attempt()]), at(70))
    assert found.severity is severity
    assert text_of(found).startswith("ckptd cannot tell") is (severity is Severity.INFO)


@pytest.mark.parametrize(("count", "minutes", "is_loop"), [(3, 20, False), (6, 4, True)])
def test_attempts_that_may_have_saved_are_a_loop_only_if_they_end_very_fast(count, minutes, is_loop):
    ended = [attempt(each * minutes, each * minutes + minutes * 0.9, restart_count=each) for each in range(count)]
    start = count * minutes
    attempts = [*ended, attempt(start, restart_count=count)]
    assert len(list(RestartLoop().evaluate(with_file(None, start + 1, attempts=attempts), at(start + 1)))) == 1
    found = list(RestartLoop().evaluate(with_file(start - 1, start + 1, attempts=attempts), at(start + 1)))
    assert len(found) == is_loop
