from datetime import timedelta

import pytest

from ckptd.present.evidence import format_evidence
from ckptd.present.formatting import format_duration, format_size, safe


def test_evidence_is_told_in_people_s_units():
    evidence = {
        "time_left_seconds": 5400,
        "free_bytes": 3 * 2**30,
        "started_at": "2026-03-01T12:00:00+00:00",
        "other_jobs": [str(each) for each in range(12)],
        "is_best": True,
        "epoch": 3.5,
        "step": 12_000,
        "unknown": None,
    }
    assert format_evidence("at-risk", evidence) == [
        ("time left", "1 h 30 min"),
        ("free space on the file system", "3.0 GiB"),
        ("this attempt started", "2026-03-01 12:00 UTC"),
        ("ids of the other jobs", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"),
        ("is best", "yes"),
        ("epoch", "3.5"),
        ("step", "12,000"),
    ]


def test_evidence_has_the_numbers_of_the_text_beside_it():
    evidence = {"chance": 0.997, "share": 0.25, "saved_before": 1_234_567.0, "saved_now": 250.0, "reached": 3.14159}
    assert [value for _, value in format_evidence("at-risk", evidence)] == [
        "above 99 %",
        "25 %",
        "1,234,567",
        "250",
        "3.142",
    ]


def test_time_that_a_job_does_not_lack_is_no_evidence():
    assert format_evidence("at-risk", {"missing_seconds": -10}) == []
    assert format_evidence("at-risk", {"missing_seconds": 10}) == [("more time needed for one more checkpoint", "10 s")]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (90_000, "1 d 1 h"), (86_400, "1 d"), (-90, "-1 min 30 s")],
)
def test_durations_are_told_by_their_two_greatest_units(seconds, shown):
    assert format_duration(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(4 / 3, "1.33333"), (2.0, "2"), (0.1, "0.1"), (12_345_678.0, "12345678"), (7, "7")]
)
def test_fractions_such_as_epochs_are_short(number, shown):
    assert safe(number) == shown


def test_sizes_are_told_in_binary_units():
    assert [format_size(each) for each in (0, 1023, 1024, 2**20 - 1, 5 * 2**40, 2**60)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
        "5.0 TiB",
        "1,024.0 PiB",
    ]
