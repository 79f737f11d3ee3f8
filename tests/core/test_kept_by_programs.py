"""How often the checkpoints of a run are read to find those that a program kept when it deleted newer ones."""

from dataclasses import replace

from ckptd.core import retention
from ckptd.core.retention import not_replaced
from core.retention_facts import NOW, hours, policy_of, run_of, saved
from support.counted_instant import CountedInstant

COUNT = 400


def count_at(record):
    counted = CountedInstant.of(record.checkpoint.modified_at)
    return replace(record, checkpoint=replace(record.checkpoint, modified_at=counted), completed_at=counted)


def test_a_program_that_deletes_thousands_costs_no_comparison_of_each_pair():
    present = [saved(f"step_{n}.pt", 3 * COUNT - n, step=n, inode=n) for n in range(1, COUNT)]
    deleted = [
        saved(f"step_{n}.pt", 3 * COUNT - n, step=n, inode=n, deleted_at=NOW - hours(1 + n % 50))
        for n in range(COUNT, 2 * COUNT)
    ]
    newest = saved(f"step_{3 * COUNT}.pt", 1, step=3 * COUNT, inode=3 * COUNT)
    run = run_of(*map(count_at, (*present, *deleted, newest)))
    CountedInstant.comparison_count = 0
    assert len(retention.plan_run(run, policy_of(), NOW).remove) == COUNT - 1
    assert 0 < CountedInstant.comparison_count < 100 * COUNT


def test_many_series_are_read_once_and_not_once_for_each(monkeypatch):
    def save_all(letter, n):
        for step in range(1, 6):
            deleted_at = NOW - hours(step / 10) if step in {3, 4} else None
            yield saved(f"{letter}_{step}.pt", 9 * n - step / 10, step=step, inode=10 * n + step, deleted_at=deleted_at)

    read = []
    monkeypatch.setattr(not_replaced, "_keys", lambda each, of=not_replaced._keys: read.append(each) or of(each))
    run = run_of(*(record for n, letter in enumerate("abcdefghijkmnopqrsuv", 1) for record in save_all(letter, n)))
    made = retention.plan_run(run, policy_of(), NOW)
    reason = "its program kept it, and deleted newer ones of its series"
    assert sum(reason in each.reasons for each in made.keep) == 2 * 20
    assert len(read) <= 2 * len(run.checkpoints)
