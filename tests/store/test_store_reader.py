"""Everything that commands read through a driver alone is what the store reads, on both databases."""

from dataclasses import replace

import pytest

from ckptd.core.discovery.path_mentions import Mention, describe
from ckptd.core.model import JobState, NamedLocation, RunKey, SeenLink
from ckptd.core.model.records import LocationRecord, ScanRecord
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.store.histories import RevisedRecord
from ckptd.store.light_reader import open_reader
from ckptd.store.store_reader import read_snapshot
from store.test_light_reader import HOSTILE, fill
from support.queue_facts import CLUSTER, RUN, at, make_checkpoint, make_job, make_scan
from support.recorded import note_run, poll, scan

COPY = RUN._replace(directory="/archive/run")
OTHER = RunKey(CLUSTER, 2000, "/data/" + HOSTILE.replace("\x00", ""))
READS = {
    "clusters": lambda store: store.clusters.read_status(),
    "flags of a run": lambda store: store.flags.read(CLUSTER, run=RUN, include_resolved=True),
    "jobs": lambda store: store.jobs.list_open(at(7)),
    "directories of jobs": lambda store: store.jobs.read_directories(CLUSTER),
    "records of all runs": lambda store: store.histories.read(CLUSTER),
    "records of active runs": lambda store: store.histories.read(CLUSTER, active_only=True),
    "changed records": lambda store: store.histories.read_changed({RUN: None, OTHER: RevisedRecord(0, 0, None)}),
    "runs that pruning may plan": lambda store: store.prune_records.read(CLUSTER),
    "named runs for pruning": lambda store: store.prune_records.read(CLUSTER, [COPY, OTHER]),
    "ends": lambda store: store.restart_state.read_ends(CLUSTER, at(0)),
    "actions": lambda store: store.audit.list_newest(CLUSTER),
    "actions of a run": lambda store: store.audit.list_newest(CLUSTER, run=RUN, begun_since=at(2), limit=1),
    "unfinished actions": lambda store: store.audit.list_newest(CLUSTER, unfinished_only=True),
    "actions by owner": lambda store: store.audit.count_by_owner(CLUSTER, "actions", at(0)),
    "lost work": lambda store: [
        line for record in store.histories.read(CLUSTER) for line in store.lost_work.list_lines(record.key)
    ],
    "sums by day": lambda store: store.lost_work_sums.sum_by_day(CLUSTER),
    "sums of some days": lambda store: store.lost_work_sums.sum_by_day(
        CLUSTER, first=at(0).date(), last=at(0).date(), final_before=at(60)
    ),
    "sums by user": lambda store: store.lost_work_sums.sum_by(GroupedBy.USER, at(0), cluster=CLUSTER),
    "sums of one user": lambda store: store.lost_work_sums.sum_by(GroupedBy.CAUSE, at(0), user="alice"),
    "sums by rule": lambda store: store.lost_work_sums.sum_by(GroupedBy.RULE, at(0)),
    "what jobs name": lambda store: store.mentions.read(CLUSTER),
    "what nobody has read": lambda store: store.mentions.read_unknown_reason(CLUSTER),
    "links": lambda store: store.mentions.read_links([RUN.uid, OTHER.uid]),
    "runs": lambda store: store.runs.list_keys(),
    "runs of a job": lambda store: store.runs.find_of_job(1),
    "runs of a task": lambda store: store.runs.find_of_job(22, CLUSTER, 5),
    "runs of an array": lambda store: store.runs.find_of_job(22, CLUSTER),
    "runs at a directory": lambda store: store.runs.find_at(OTHER.directory, CLUSTER),
    "runs seen writing": lambda store: store.runs.read_writing(),
    "whether users set retention": lambda store: [store.runs.has_retention_settings(key) for key in (OTHER, RUN)],
}


def fill_further(store):
    """Add to the jobs, flags and actions: a copied location, links, what jobs name, and a user's settings."""
    fill(store)
    suspended = make_job(3, JobState.SUSPENDED, restart_count=2)
    task = make_job(6, array_job_id=22, array_task_id=5)
    poll(store, 6, make_job(1), make_job(2, user=HOSTILE, uid=2000), suspended, task)
    copies = (
        NamedLocation(COPY.directory),
        NamedLocation("/elsewhere", HOSTILE),
        NamedLocation("/to-come", None, True),
    )
    where = LocationRecord(jobs=(), run=RUN, user="alice", located_by="comment", copies=copies)
    store.located_runs.record([where], at(6))
    scan(store, 7, *(make_checkpoint(f"s{step}", 2, step=step) for step in (20, 30)), run=COPY)
    note_run(store, OTHER, at(6), user=HOSTILE, user_settings={"epochs": 3, "retention": {"last": 2}})
    link = SeenLink(HOSTILE, "/b", None, 1, 2, "c")
    store.checkpoints.record_scans([ScanRecord(run=OTHER, scan=make_scan(8, links=(link,)))])
    named = describe(make_job(9, JobState.PENDING), None, reads_scripts=False)
    mention = Mention("comment", path=HOSTILE, tail="b")
    script = (Mention("script", is_sure=False),)
    named = replace(named, mentions=(mention,), script_mentions=script, resolved={HOSTILE: None}, links=(link,))
    store.mentions.record(CLUSTER, [named, replace(named, job_id=10, started_at=at(3), script_mentions=None)])


pytestmark = pytest.mark.filled_by(record=fill_further)


@pytest.fixture
def both(store, database_url):
    opened = open_reader(database_url)
    with read_snapshot(opened) as reader:
        yield store, reader
    opened.close()


@pytest.mark.parametrize("name", READS)
def test_a_driver_alone_reads_what_the_store_reads(both, name):
    store, reader = both
    found = READS[name](reader)
    assert found == READS[name](store)
    assert repr(found) == repr(READS[name](store)), "the types of numbers and containers, too"
    assert found


def test_everything_is_read_of_one_snapshot(both):
    store, reader = both
    before = reader.clusters.read_status()
    store.clusters.record_poll(CLUSTER, at(90))
    assert reader.clusters.read_status() == before != store.clusters.read_status()


def test_what_is_compared_holds_what_is_rare(both):
    """The comparison would say nothing about what no record holds."""
    _, reader = both
    (copied,) = [each for each in reader.histories.read(CLUSTER) if each.copies]
    assert [bool(each.checkpoints) for each in copied.copies] == [True, False, False]
    (copy,) = reader.prune_records.read(CLUSTER, [COPY])
    assert copy.history.primaries == (RUN,)
    (own,) = reader.prune_records.read(CLUSTER, [OTHER])
    assert own.retention_settings
    assert [reader.runs.has_retention_settings(key) for key in (OTHER, RUN)] == [True, False]
    assert {each.run for each in reader.audit.list_newest(CLUSTER)} == {RUN}
    assert reader.restart_state.read_ends(CLUSTER, at(0))
