"""What is on record of a directory leaves the memory with its scan, before the next large directory takes its turn."""

import tracemalloc

import pytest

from ckptd.core.model import CheckpointState, RunKey
from ckptd.steps import record_scans
from ckptd.steps.scan_groups import MAX_ENTRIES
from support.deciding import Deciding, files
from support.queue_facts import CLUSTER, at, make_job

COUNT = MAX_ENTRIES + 1000
BYTES_A_CHECKPOINT = 800  # caches of a fixed size take 450, and the rows 1,500 more


@pytest.fixture
def daemon(tmp_path):
    made = Deciding(tmp_path, forgets=False)
    made.poll(0, [make_job(1)])
    made.locate(1, 1)
    made.scan(COUNT, 1, files(1, COUNT, 1, CheckpointState.COMPLETE), 10**8)
    yield made
    made.store.close()


def test_a_recorded_scan_leaves_no_rows_of_its_directory_in_memory(daemon):
    watched = daemon.state.watchlist.get(RunKey(CLUSTER, make_job(1).uid, "/scratch/1"))
    tracemalloc.start()
    try:
        before = record_scans._read_record(daemon.parts, daemon.state, [watched])
        found = daemon.find(COUNT + 1, before, watched, files(1, COUNT, 1, CheckpointState.COMPLETE), 10**8)
        answers = [found]
        del found
        record_scans._decode_and_record(daemon.parts, daemon.state, [watched], before, answers, at(COUNT + 1))
        answers.clear()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert before.revisions
    assert held < COUNT * BYTES_A_CHECKPOINT
