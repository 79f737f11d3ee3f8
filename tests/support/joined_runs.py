"""One run on two clusters that share its directory: polls and scans of either, as its daemon does them."""

from dataclasses import replace
from pathlib import PurePosixPath

from ckptd.core.model import JobState, Scan
from ckptd.core.model.records import ScanRecord
from ckptd.core.runs import ownership, progress
from ckptd.core.runs.shared_files import SharedDirectory
from support.checkpoints import make_checkpoint
from support.queue_facts import at
from support.recorded import note_run
from support.two_clusters import ALPHA, BETA, DIRECTORY, make_job, poll

SHARED = SharedDirectory("alpha", "beta", "/data")
DEVICES = {"alpha": 11, "beta": 22}  # the same file system has other numbers on other clients


def share(store, *, is_mutual=True):
    """Declare that both clusters share the directory, or that only alpha says so."""
    store.declared_shares.record("alpha", [SHARED])
    store.declared_shares.record("beta", [SHARED.reverse] if is_mutual else [])


def make_started(run, minutes, job_id=7, **changes):
    """Return a job that started at this minute, as the queue shows it then."""
    now = at(minutes)
    return make_job(run.cluster, job_id, now, name="train", started_at=now, submitted_at=now, **changes)


def start(store, run, minutes, job_id=7, **changes):
    """Poll a job that started at this minute, and find its directory; return it."""
    now = at(minutes)
    job = make_started(run, minutes, job_id, **changes)
    found = poll(store, run.cluster, now, job)
    note_run(store, run, now, jobs=[each.key for each in found.new])
    return job


def end(store, job, minutes, state=JobState.TIMEOUT):
    """Poll the end of a job at this minute."""
    poll(store, job.cluster, at(minutes), replace(job, state=state, ends_at=at(minutes)))


def save(run, step, minutes, **changes):
    """Return a checkpoint as a scan of this cluster sees it."""
    made = make_checkpoint(f"{DIRECTORY}/step_{step}.pt", at(minutes), inode=step, step=step, **changes)
    identities = tuple(each._replace(device=DEVICES[run.cluster]) for each in made.identities)
    return replace(made, identities=identities)


def scan(store, run, minutes, *saves, watched=None, problems=()):
    """Scan the directory from one cluster; each save is a step and the minute when it was written.

    `watched` is the minute of the scan before, if the daemon has watched the run since then.
    """
    now, recorded = at(minutes), store.checkpoints.read(run)
    found = Scan(
        directory=PurePosixPath(DIRECTORY),
        scanned_at=now,
        checkpoints=tuple(save(run, step, written) for step, written in saves),
        problems=problems,
    )
    known = store.checkpoints.read_last_scans(run.cluster, [run]).get(run, ownership.PreviousScan())
    writers = ownership.find_writers(run, known, None if watched is None else at(watched), now)
    changes = progress.merge_scan(recorded, found, writers, now)
    return store.checkpoints.record_scans([ScanRecord(run=run, scan=found, changes=changes)])


def read(store, run):
    """Return the record of one part."""
    (record,) = store.histories.read(run.cluster, [run])
    return record


def run_on_alpha(store):
    """Record a job of alpha that saved twice and reached its time limit after an hour."""
    job = start(store, ALPHA, 0)
    scan(store, ALPHA, 1)
    scan(store, ALPHA, 31, (1, 30), watched=1)
    scan(store, ALPHA, 51, (1, 30), (2, 50), watched=31)
    end(store, job, 60)
    scan(store, ALPHA, 61, (1, 30), (2, 50), watched=51)
    return job


__all__ = ["ALPHA", "BETA", "end", "make_started", "read", "run_on_alpha", "save", "scan", "share", "start"]
