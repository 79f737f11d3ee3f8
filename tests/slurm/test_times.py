from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.slurm import times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:55", timedelta(seconds=55)),
        ("00:00", timedelta()),
        ("29:54", timedelta(minutes=29, seconds=54)),
        ("12:34:58", timedelta(hours=12, minutes=34, seconds=58)),
        ("2-00:00:00", timedelta(days=2)),
        ("365-23:59:59", timedelta(days=365, hours=23, minutes=59, seconds=59)),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("INVALID", None),
        ("Partition_Limit", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_every_spelling_of_a_duration_is_read(text, expected):
    assert times.parse_duration(text) == expected


@pytest.mark.parametrize("text", ["1", "-1:00", "1-2:3", "a:b", "1:2:3:4", "٣:٣٣", "1:00 ", "999999999999-00:00:00"])
def test_what_slurm_never_prints_is_no_duration(text):
    with pytest.raises(ValueError, match="not a duration"):
        times.parse_duration(text)


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=400)))
def test_a_duration_survives_being_written_and_read(value):
    whole = timedelta(days=value.days, seconds=value.seconds)
    assert times.parse_duration(times.format_duration(whole)) == whole


@given(st.text())
def test_no_text_makes_the_duration_parser_fail_otherwise(text):
    try:
        value = times.parse_duration(text)
    except ValueError:
        return
    assert value is None or value >= timedelta()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795219377", datetime(2026, 11, 21, 0, 2, 57, tzinfo=UTC)),
        ("2026-11-21T00:02:57", datetime(2026, 11, 21, 0, 2, 57, tzinfo=UTC)),
        ("2026-11-21T01:02:57+01:00", datetime(2026, 11, 21, 0, 2, 57, tzinfo=UTC)),
        ("NONE", None),
        ("N/A", None),
        ("Unknown", None),
        ("0", None),
    ],
)
def test_instants_are_read_as_utc(text, expected):
    assert times.parse_instant(text) == expected


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001
def test_an_instant_survives_as_seconds_since_the_epoch(value):
    instant = value.replace(microsecond=0, tzinfo=UTC)
    assert times.parse_instant(str(int(instant.timestamp()))) == instant
