"""What jobs name and what links lead to, on record."""

from dataclasses import replace

import sqlalchemy as sa

from ckptd.core.discovery.path_mentions import Mention, describe
from ckptd.core.model import JobState, SeenLink, Unknown
from ckptd.core.model.records import ScanRecord
from ckptd.store import mentions
from store.observing import poll
from support.queue_facts import CLUSTER, RUN, at, make_job, make_scan
from support.recorded import locate

HOSTILE = "/a\n\udcff\x1f\\b"


def named(job_id=1, *mentions, **changes):
    job = make_job(job_id, JobState.PENDING)
    return replace(describe(job, None, reads_scripts=False), mentions=mentions, **changes)


FULL = named(
    1,
    Mention("comment", path=HOSTILE, tail="b"),
    script_mentions=(Mention("script", is_sure=False),),
    resolved={HOSTILE: None, "/x": "/y"},
    links=(SeenLink(HOSTILE, "/b", None, 1, 2, "c"),),
)


def test_what_a_job_names_comes_back_as_it_was_recorded(store):
    store.mentions.record(CLUSTER, [FULL])
    assert store.mentions.read(CLUSTER) == [FULL]
    assert store.mentions.read("other") == []
    assert store.mentions.read_elsewhere("other") == [FULL]
    assert store.mentions.read_elsewhere(CLUSTER) == []
    changed = replace(FULL, resolved={}, is_waiting=False, started_at=at(3))
    store.mentions.record(CLUSTER, [changed])
    assert store.mentions.read(CLUSTER) == [changed]
    assert store.mentions.read_elsewhere("other") == [changed]
    store.mentions.record("other", [replace(FULL, cluster="other")])
    assert store.mentions.read_elsewhere("third") == [changed, replace(FULL, cluster="other")]


def test_what_the_jobs_of_a_large_queue_name_is_written_in_portions(store, monkeypatch):
    counts = []

    def count(_connection, _cursor, statement, rows, _context, executemany):
        if statement.startswith("INSERT INTO mentions"):
            counts.append(len(rows) if executemany else 1)

    monkeypatch.setattr(mentions, "ROWS_AT_ONCE", 2)
    sa.event.listen(store.database._engine, "before_cursor_execute", count)
    some = [named(number, Mention("comment", path=f"/{number}")) for number in range(1, 6)]
    store.mentions.record(CLUSTER, [*some, named(6)])
    sa.event.remove(store.database._engine, "before_cursor_execute", count)
    assert store.mentions.read(CLUSTER) == some
    assert (len(counts), max(counts)) == (3, 2)


def test_a_job_that_left_the_queue_or_names_nothing_any_more_has_no_row(store):
    store.mentions.record(CLUSTER, [FULL, replace(FULL, job_id=2), replace(FULL, job_id=3)])
    store.mentions.record(CLUSTER, [named(2)], [1])
    assert [each.job_id for each in store.mentions.read(CLUSTER)] == [3]


def test_it_is_known_what_jobs_name_only_as_of_a_poll_that_recorded_it(store):
    assert store.mentions.read_unknown_reason(CLUSTER) is None
    store.clusters.record_poll(CLUSTER, at(0))
    assert store.mentions.read_unknown_reason(CLUSTER) is not None
    store.clusters.record_poll(CLUSTER, at(1), has_mentions=True)
    assert store.mentions.read_unknown_reason(CLUSTER) is None
    store.clusters.record_poll(CLUSTER, at(2), Unknown(what="queue", reason="down"))
    assert store.mentions.read_unknown_reason(CLUSTER) is None


def test_the_links_of_the_last_scan_of_an_owners_runs_are_on_record(store):
    poll(store, 0, make_job(1))
    locate(store, 1)
    link = SeenLink(HOSTILE, "/b", "/c")
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(1, links=(link,)))])
    (seen,) = store.mentions.read_links([RUN.uid])[RUN.uid]
    assert (seen.run, seen.seen_at, seen.links) == (RUN, at(1), (link,))
    assert store.mentions.read_links([7]) == {}
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=Unknown(what="directory", reason="silent"))])
    assert store.mentions.read_links([RUN.uid])[RUN.uid][0].links == (link,)
    store.checkpoints.record_scans([ScanRecord(run=RUN, scan=make_scan(2))])
    assert store.mentions.read_links([RUN.uid]) == {}
