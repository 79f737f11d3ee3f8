"""Steps of a cycle on a record, which is read back at once: what is there is what was meant."""

from dataclasses import replace

from ckptd.core import queue
from ckptd.core.model import Finding, Flag, Severity
from support import recorded
from support.queue_facts import CLUSTER, RUN, at, make_checkpoint, make_job
from support.recorded import locate

HOSTILE = "a\x00b\\u0000|\n'\";--\udcff\ud800é\U0001f600\\"


def poll(store, minutes, *jobs, accounting=None):
    """One step of a cycle: compare, merge accounting where asked to, record; what is read back is what was meant."""
    before = store.jobs.read_tracked(CLUSTER)
    changes = recorded.poll(store, minutes, *jobs, accounting=accounting)
    meant = {job_id: plain(known) for job_id, known in queue.apply(before, changes).items()}
    assert {job_id: plain(known) for job_id, known in store.jobs.read_tracked(CLUSTER).items()} == meant
    return changes


def begin_run(store):
    """See a job that runs, and find its directory."""
    poll(store, 0, make_job(1))
    locate(store, 1)


def plain(known):
    """What the queue decides of a tracked job: not its run, nor what its run says of its attempt."""
    attempt = known.attempt and replace(known.attempt, kind=None, resumed_from=None)
    return known.key, known.job, attempt, known.ended_at


def scan(store, minutes, *found, run=RUN, looked=None, **changes):
    return recorded.scan(
        store, minutes, *found, run=run, attempts=history_of(store, run).attempts, looked=looked, **changes
    )


def history_of(store, run=RUN):
    (history,) = store.histories.read(CLUSTER, [run])
    return history


def make_flag(run=RUN, severity=Severity.WARNING, job_id=1, **evidence):
    finding = Finding(
        rule="at-risk",
        severity=severity,
        run=run,
        job_id=job_id,
        user=HOSTILE,
        evidence={"seconds": 1, "text": HOSTILE, "names": [HOSTILE], "share": 0.5, "nothing": None} | evidence,
        recorded_advice=HOSTILE,
        audience=("user", "admin"),
    )
    return Flag(finding=finding, opened_at=at(1))


def begin_saved(store):
    begin_run(store)
    scan(store, 1, make_checkpoint())
