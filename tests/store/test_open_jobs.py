"""Jobs that are listed again are those of the database, and only changed runs are read again."""

import pytest

from ckptd.core.model import CheckpointState, JobState
from ckptd.store import plain_reads
from ckptd.store.open_jobs import OpenJobs
from store.test_store_reader import COPY, fill_further
from support.queue_facts import RUN, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan


@pytest.mark.filled_by(record=fill_further)
def test_each_listing_is_what_the_database_has(store):
    listed = OpenJobs(store.database)
    changes = [
        lambda: None,
        lambda: scan(store, 20, make_checkpoint("late", 19, step=70)),
        lambda: scan(store, 21, make_checkpoint("late", 19, step=70, state=CheckpointState.DAMAGED)),
        lambda: store.checkpoints.set_pinned(RUN, f"{RUN.directory}/late", is_pinned=True),
        lambda: scan(store, 22),
        lambda: scan(store, 23, make_checkpoint("copied", 3), run=COPY),
        lambda: poll(store, 24, make_job(1, JobState.SUSPENDED)),
        lambda: poll(store, 25),
    ]
    counts = []
    for minute, change in enumerate(changes, 20):
        change()
        found = listed.list(at(minute))
        assert found == store.jobs.list_open(at(minute))
        counts.append([each.checkpoint_count for each in found])
    assert len({tuple(each) for each in counts}) > 2
    assert counts[-1] == []


def test_only_what_changed_is_summed_up_again(store, monkeypatch):
    poll(store, 0, *(make_job(number, comment=f"ckptd:/data/{number}") for number in range(1, 5)))
    asked = []
    read = plain_reads.read_saved

    def count(select, runs, values):
        asked.append(len(runs.split(",")))
        return read(select, runs, values)

    monkeypatch.setattr(plain_reads, "read_saved", count)
    listed = OpenJobs(store.database)
    for _ in range(2):
        assert len(listed.list(at(1))) == 4
    assert asked == [4]
    locate(store, 1)
    scan(store, 2, make_checkpoint("s1", 1))
    (one,) = [each for each in listed.list(at(2)) if each.checkpoint_count]
    assert one.run == RUN
    assert asked == [4, 1]
