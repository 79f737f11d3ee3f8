"""Short ways to bring facts onto a real record, as the steps of a cycle do."""

from ckptd.core import queue
from ckptd.core.model.records import LocationRecord, ScanRecord
from ckptd.core.queue import accounting_merge
from support.queue_facts import CLUSTER, RUN, at, look, make_scan, merge


def poll(store, minutes, *jobs, accounting=()):
    """Compare a poll and record it; `accounting` is the answer of sacct, and None merges none."""
    snapshot = look(minutes, *jobs)
    changes = queue.compare(store.jobs.read_tracked(CLUSTER), snapshot)
    if accounting is not None:
        changes = accounting_merge.merge_accounting(changes, accounting, snapshot.polled_at)
    store.jobs.record(changes)
    store.clusters.record_poll(CLUSTER, snapshot.polled_at)
    return changes


def note_run(
    store, run, now, *, jobs=(), user="alice", located_by="comment", user_settings=None, settings_directory="/w"
):
    """Record a run where it is new, that these jobs are part of it, and what its owner says of it."""
    found = LocationRecord(
        jobs=tuple(jobs),
        run=run,
        user=user,
        located_by=located_by,
        user_settings=user_settings,
        settings_directory=settings_directory,
    )
    store.located_runs.record([found], now)


def locate(store, job_id, run=RUN, minutes=0):
    """Make a job on record part of a run; return the job's key."""
    key = store.jobs.read_tracked(CLUSTER)[job_id].key
    note_run(store, run, at(minutes), jobs=[key])
    return key


def scan(store, minutes, *found, run=RUN, attempts=(), looked=None, **changes):
    """Look at a run's directory and record it; the attempts are those that may have written there."""
    seen = make_scan(minutes, *found, **changes)
    result = merge(store.checkpoints.read(run), seen, attempts, looked)
    store.checkpoints.record_scans([ScanRecord(run=run, changes=result, scan=seen)])
    return result
