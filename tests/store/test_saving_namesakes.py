"""Which jobs without a directory are like earlier ones that saved, found without reading all jobs of their users."""

import random
from pathlib import PurePosixPath

import pytest

from ckptd.store import history_rows
from ckptd.store.engine import select_through
from ckptd.store.plain_reads import Select
from support.queue_facts import RUN, make_checkpoint, make_job
from support.recorded import locate, poll, scan

WORK_DIR = PurePosixPath("/home/alice/train")
LONGEST_NAME = 1024  # bytes: slurmctld refuses longer ones also when a job is renamed
LIKE = {"name": "train", "work_dir": WORK_DIR}


def save_once(store):
    poll(store, 0, make_job(1, **LIKE))
    locate(store, 1)
    scan(store, 2, make_checkpoint())


pytestmark = pytest.mark.filled_by(record=save_once)


def has_saved(store, *, job_id=9, **job):
    poll(store, 3, make_job(1, **LIKE), make_job(job_id, **job))
    [known] = [each for each in store.jobs.read_tracked(RUN.cluster).values() if each.key.job_id == job_id]
    return store.histories.read_changed({known.run: None}).records[known.run].record.has_saved_before


@pytest.mark.parametrize(
    ("job", "is_like"),
    [
        (LIKE, True),
        (LIKE | {"name": "evaluate"}, False),
        (LIKE | {"work_dir": PurePosixPath("/home/alice/other")}, False),
        (LIKE | {"uid": 1001, "user": "eve"}, False),
    ],
)
def test_a_job_is_like_one_of_its_user_with_its_name_and_directory(store, job, is_like):
    assert has_saved(store, **job) is is_like


def test_a_generic_name_proves_nothing(store):
    shell = LIKE | {"name": "bash"}
    poll(store, 3, make_job(1, **LIKE), make_job(2, **shell))
    locate(store, 2)
    poll(store, 4, make_job(1, **LIKE), make_job(2, **shell), make_job(3, **shell))
    run = store.jobs.read_tracked(RUN.cluster)[3].run
    assert not store.histories.read_changed({run: None}).records[run].record.has_saved_before


def test_only_the_latest_jobs_of_a_name_count(store, monkeypatch):
    others = [make_job(number, **LIKE) for number in range(2, 5)]
    poll(store, 3, make_job(1, **LIKE), *others)
    known = {each.key.job_id: each.run for each in store.jobs.read_tracked(RUN.cluster).values()}
    for count, expected in ((3, set()), (4, {known[2], known[3], known[4]})):
        monkeypatch.setattr(history_rows, "NAMESAKES", count)
        found = store.histories.read_changed(dict.fromkeys(known.values())).records
        assert {key for key, each in found.items() if each.record.has_saved_before} == expected


def test_jobs_of_many_names_are_asked_about_in_few_statements(store, monkeypatch):
    monkeypatch.setattr(history_rows, "NAMES_AT_ONCE", 2)
    jobs = [make_job(number, **LIKE | {"name": name}) for number, name in enumerate(("a", "b", "train", "c", "d"), 2)]
    poll(store, 3, make_job(1, **LIKE), *jobs)
    known = {each.run: each.job.name for each in store.jobs.read_tracked(RUN.cluster).values() if each.run != RUN}
    found = store.histories.read_changed(dict.fromkeys(known)).records
    assert {known[key] for key, each in found.items() if each.record.has_saved_before} == {"train"}


def test_sqlite_finds_them_by_user_and_name(store):
    poll(store, 3, make_job(1, **LIKE), make_job(2, **LIKE))
    with store.database.reading() as connection:
        select = select_through(connection)
        if not select.is_sqlite:
            return
        plans = []

        def explain(statement, values):
            if "EXISTS" in statement:
                plans.extend(row[3] for row in select(f"EXPLAIN QUERY PLAN {statement}", values))
            return select(statement, values)

        rows = ", ".join(str(row[0]) for row in select("SELECT id FROM runs", {}))
        assert len(history_rows._find_savers(Select(explain, is_sqlite=True), rows)) == 1
    assert any("USING INDEX ix_jobs_uid_name_id (uid=? AND name=?)" in plan for plan in plans)
    assert not any("SCAN jobs" in plan or "TEMP B-TREE" in plan for plan in plans)


@pytest.mark.parametrize(
    "alphabet",
    ["abcdefghijklmnopqrstuvwxyz0123456789", "\\ab", [*map(chr, range(0xDC80, 0xDD00))]],
    ids=["text", "backslashes", "bytes that are not UTF-8"],
)
def test_a_job_with_the_longest_name_is_recorded_and_found(store, alphabet):
    """PostgreSQL refuses an index row of more than 2,704 bytes, and such a byte takes six characters of a row."""
    long = LIKE | {"name": "train" + "".join(random.Random(1).choices(alphabet, k=LONGEST_NAME - 5))}
    poll(store, 3, make_job(1, **LIKE), make_job(2, **long))
    locate(store, 2)
    poll(store, 4, make_job(1, **LIKE), make_job(2, **long), make_job(3, **long))
    run = store.jobs.read_tracked(RUN.cluster)[3].run
    assert store.histories.read_changed({run: None}).records[run].record.has_saved_before
