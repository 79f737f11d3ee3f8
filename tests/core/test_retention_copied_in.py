"""Checkpoints that a person copied into the run's directory while its job ran, and saves of a job that look alike."""

from dataclasses import replace

import pytest

from ckptd.core.retention import KeepLast
from core.retention_facts import NOW, attempt, hours, job_key, policy_of, removed, run_of, saved

MINUTE = 1 / 60
SECOND = MINUTE / 60
BEGUN = 100  # hours ago


def written(prefix, times, *, seen_after=5 * MINUTE, numbers=None):
    """Checkpoints that were written so many hours after the start, and first seen by the scan after that."""
    for number, at in zip(numbers or range(1, len(times) + 1), times, strict=True):
        yield saved(f"{prefix}{number}.pt", BEGUN - at, step=number, first_seen_at=NOW - hours(BEGUN - at - seen_after))


def seen_at_once(records):
    found = list(records)
    last = max(each.first_seen_at for each in found)
    return [replace(each, first_seen_at=last) for each in found]


def list_removed(*records):
    return removed(run_of(*records, attempts=[attempt(begun=BEGUN)]), policy_of(KeepLast(1)))


def names_of(*records):
    return {each.checkpoint.path.name for each in records}


def copied(prefix, *, count=10, gap=2 * SECOND, at=10.1, **facts):
    return seen_at_once(written(prefix, [at + gap * number for number in range(count)], **facts))


@pytest.mark.parametrize("gap", [2 * SECOND, MINUTE])
@pytest.mark.parametrize("until", [5, 11])
def test_another_training_that_was_copied_beside_the_job_s_stays(gap, until):
    own = [*written("own_", [2 * number for number in range(1, until + 1)])]
    assert list_removed(*own, *copied("other_", gap=gap)) == names_of(*own[:-1])


def test_a_copied_pair_stays():
    own = [*written("own_", [2, 4, 6, 8, 10])]
    assert list_removed(*own, *copied("other_", count=2)) == names_of(*own[:-1])


@pytest.mark.parametrize("until", [5, 11])
def test_another_training_that_was_copied_among_the_job_s_stays_and_is_not_the_newest(until):
    own = [*written("step_", [2 * number for number in range(1, until + 1)])]
    assert list_removed(*own, *copied("step_", numbers=range(20, 30))) == names_of(*own[:-1])


OWN = {
    "a late scan found them": seen_at_once(written("step_", [2 * number for number in range(1, 9)])),
    "saves in each second from the start on": seen_at_once(written("step_", [SECOND * n for n in range(1, 30)])),
    "several saves in each second, at times in whole seconds": seen_at_once(
        written("step_", [1 + SECOND * (n // 3) for n in range(1, 30)])
    ),
    "fast saves at first": seen_at_once(written("step_", [SECOND * 2**n for n in range(9)])),
    "a job that becomes faster for good": [
        *written("step_", [2, 4, 6, 8]),
        *seen_at_once(written("step_", [8 + n / 10 for n in range(1, 60)], numbers=range(5, 64))),
    ],
    "two saves at the end": [
        *written("step_", [2, 4, 6, 8]),
        *seen_at_once(written("step_", [10, 10 + 5 * SECOND], numbers=[5, 6])),
    ],
    "two saves at the end, in two series": [
        *written("aux_", [2.1, 4.1, 6.1], numbers=[11, 12, 13]),
        *written("step_", [2, 4, 6, 8]),
        *seen_at_once(written("step_", [10, 10 + 5 * SECOND], numbers=[5, 6])),
    ],
    "fast saves, a long pause, and fast saves": [
        *written("step_", [MINUTE * n for n in range(1, 20)]),
        *seen_at_once(written("step_", [40 + MINUTE * n for n in range(1, 20)], numbers=range(20, 39))),
    ],
    "one scan after each": [
        *written("step_", [2, 4, 6, 8]),
        *written("step_", [8 + MINUTE * n for n in range(1, 20)], numbers=range(5, 24), seen_after=SECOND),
    ],
}


@pytest.mark.parametrize("records", OWN.values(), ids=OWN)
def test_saves_of_a_job_at_a_pace_that_may_be_its_own_go(records):
    gone = names_of(*records[:-1]) - {"aux_13.pt"}
    assert list_removed(*records) == gone


def test_a_second_training_of_the_job_at_the_same_pace_goes():
    one = [*written("one_", [MINUTE * number for number in range(1, 20)])]
    other = seen_at_once(written("other_", [0.5 + MINUTE * number for number in range(1, 20)]))
    assert list_removed(*one, *other) == names_of(*one[:-1], *other[:-1])


def test_a_fast_series_of_which_some_were_pruned_stays_the_job_s():
    slow = [*written("slow_", [2, 4, 6, 8, 10])]
    fast = seen_at_once(written("fast_", [10 + MINUTE * number for number in range(1, 10)]))
    fast[0] = replace(fast[0], pruned_at=NOW, deleted_at=NOW)
    assert list_removed(*slow, *fast) == names_of(*slow[:-1], *fast[1:-1])


def test_bursts_that_recur_are_the_pace_of_a_job():
    times = [2.1 * phase + 1.5 * MINUTE * number for phase in range(1, 20) for number in range(4)]
    records = [*written("", times)]
    phases = [seen_at_once(records[at : at + 4]) for at in range(0, len(records), 4)]
    assert list_removed(*(each for found in phases for each in found)) == names_of(*records[:-1])


def test_a_burst_in_the_middle_of_a_series_is_the_job_s():
    before, after = [*range(2, 32, 2)], [*range(34, 60, 2)]
    burst = [32 + 2 * MINUTE * number for number in range(12)]
    records = [*written("", [*before, *burst, *after])]
    at = len(before)
    records[at : at + 12] = seen_at_once(records[at : at + 12])
    assert list_removed(*records) == names_of(*records[:-1])


def test_what_was_copied_stays_after_the_saves_around_it_are_forgotten():
    later = [replace(each, attempt=(job_key(2), 0)) for each in written("own_", [62, 64, 66, 68, 70])]
    attempts = [attempt(begun=BEGUN, ended=BEGUN - 20), attempt(job=2, begun=BEGUN - 60)]
    run = run_of(*copied("other_"), *later, attempts=attempts)
    assert removed(run, policy_of(KeepLast(1))) == names_of(*later[:-1])
