"""A record with two users' runs, one of them hostile in every name, for tests of the web."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core import queue
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import (
    CheckpointState,
    FileIdentity,
    Finding,
    Flag,
    JobState,
    QueueSnapshot,
    RunKey,
    Severity,
    Unknown,
)
from ckptd.core.model.records import AuditEntry, DaemonIdentity, ScanRecord
from ckptd.core.queue import accounting_merge
from ckptd.core.runs import ownership, progress
from support.queue_facts import CLUSTER, EndedAttempt, make_checkpoint, make_job, make_scan
from support.recorded import note_run

NOW = datetime.now(UTC).replace(microsecond=0)
EVIL = "<script>alert('x')</script>\n\x1b[31m\u202e\udcff\"'><img src=x onerror=alert(1)>"
ALICE = RunKey(CLUSTER, 1000, "/scratch/alice/resnet/a-directory-with-a-name-that-is-rather-long/checkpoints")
BOB = RunKey(CLUSTER, 2000, "/scratch/bob/" + EVIL)
ENDED = RunKey(CLUSTER, 1000, "/scratch/alice/finished/checkpoints")
BOBS_ENDED = RunKey(CLUSTER, 2000, "/scratch/bob/finished")
SECRETS = ("bob", "90190190", "secret-advice", "/scratch/bob", "nightly")  # nobody but bob and operators reads these


def ago(minutes):
    return NOW - timedelta(minutes=minutes)


def fill(store):
    """Record what the tests of pages show."""
    alice = make_job(101, name="resnet-train", partition="gpu", **_since(300))
    bob = make_job(90190190, user="bob", uid=2000, name=EVIL + "nightly", partition="cpu", **_since(100))
    bob = replace(bob, comment=f'ckpt="/data/{EVIL.replace(chr(34), "")}"')
    idle = make_job(102, name="no-directory", partition="cpu", **_since(20))
    done = make_job(50, name="finished-train", **_since(400))
    secret = make_job(51, user="bob", uid=2000, name="nightly", **_since(400))
    tracked = _look(store, {}, 299, [alice, done, secret])
    _assign(store, tracked, 101, ALICE, "alice")
    _assign(store, tracked, 50, ENDED, "alice")
    _assign(store, tracked, 51, BOBS_ENDED, "bob")
    _scan(store, ENDED, [_save(ENDED, 290, 90)])
    saves = [_save(ALICE, 300 - 30 * number, 500 * number) for number in range(1, 5)]
    saves.append(_save(ALICE, 165, 2500, state=CheckpointState.DAMAGED, reason="the file is cut short"))
    recorded = ()
    for count in range(1, len(saves) + 1):
        recorded = _scan(store, ALICE, saves[:count])
    _prune(store, recorded[0])
    note_run(store, ALICE, NOW, user="alice", user_settings={"epochs": 200})
    again = replace(alice, restart_count=1, **_since(150))
    ended = EndedAttempt(101, None, ago(300), ago(155), JobState.NODE_FAIL, "n1", 1, 4, 0)
    finished = [
        EndedAttempt(number, None, ago(400), ago(200), JobState.COMPLETED, "n1", 1, 4, 0) for number in (50, 51)
    ]
    tracked = _look(store, tracked, 149, [again, bob, idle], (ended, *finished))
    _assign(store, tracked, 90190190, BOB, "bob", "discovery")
    for number in range(1, 5):
        saves.append(_save(ALICE, 150 - 30 * number, 2500 + 500 * number))
        recorded = _scan(store, ALICE, saves[1:][-6:])
    assert len(recorded) == 9
    _scan(store, BOB, [_save(BOB, 60, 7)])
    evil = replace(_save(BOB, 30, 8), path=PurePosixPath(BOB.directory, EVIL))
    _scan(store, BOB, [_save(BOB, 60, 7), evil], problems=(Unknown(what="locked", reason="permission denied"),))
    store.checkpoints.record_searches({tracked[102].run: Unknown(what="search", reason=f"{EVIL} is not the job's")})
    _look(store, tracked, 0, [again, bob, idle])
    store.flags.record(FlagChanges(opened=tuple(_flags())), NOW)
    store.clusters.record_heartbeat(CLUSTER, DaemonIdentity(host="admin", pid=1, version="0", started_at=ago(400)), NOW)


def _since(minutes):
    return {
        "submitted_at": ago(minutes + 1),
        "started_at": ago(minutes),
        "time_limit": timedelta(hours=4),
        "ends_at": ago(minutes) + timedelta(hours=4),
        "time_left": timedelta(hours=4) - timedelta(minutes=minutes),
    }


def _look(store, tracked, minutes, jobs, ended=()):
    snapshot = QueueSnapshot(cluster=CLUSTER, polled_at=ago(minutes), jobs=tuple(jobs))
    changes = accounting_merge.merge_accounting(queue.compare(tracked, snapshot), tuple(ended), ago(minutes))
    store.jobs.record(changes)
    store.clusters.record_poll(CLUSTER, ago(minutes))
    return queue.apply(tracked, changes)


def _assign(store, tracked, job_id, run, user, located_by="comment"):
    note_run(store, run, NOW, jobs=[tracked[job_id].key], user=user, located_by=located_by)


def _save(run, minutes, step, **changes):
    name = f"step-{step}.pt"
    return make_checkpoint(
        name,
        path=PurePosixPath(run.directory, name),
        identities=(FileIdentity(1, step, 10, round(ago(minutes).timestamp() * 1e9)),),
        modified_at=ago(minutes),
        size_bytes=3 * 2**30,
        epoch=step // 100,
        step=step,
        **changes,
    )


def _scan(store, run, found, **changes):
    at = max(each.modified_at for each in found) + timedelta(seconds=40)
    recorded = store.checkpoints.read(run)
    scan = make_scan(0, *found, directory=PurePosixPath(run.directory), scanned_at=at, **changes)
    changes = progress.merge_scan(recorded, scan, ownership.Writers(owner_uid=run.uid), at)
    store.checkpoints.record_scans([ScanRecord(run=run, changes=changes, scan=scan)])
    return store.checkpoints.read(run)


def _prune(store, record):
    entry = AuditEntry(
        cluster=CLUSTER,
        actor="policy",
        action="prune",
        target=str(record.checkpoint.path),
        run=ALICE,
        begun_at=ago(160),
    )
    done = replace(entry, audit_id=store.audit.record(entry), outcome="moved", finished_at=ago(160))
    store.prune_records.finish(done, record.first_seen_at, is_pruned=True)


def _flags():
    yield _flag(ALICE, 101, "at-risk", Severity.WARNING, "Save before the limit.", {"seconds": 55.5, "none": None})
    yield _flag(BOB, 90190190, "damaged-checkpoint", Severity.CRITICAL, "secret-advice " + EVIL, {"paths": [EVIL, "x"]})


def _flag(run, job_id, rule, severity, advice, evidence):
    user = "alice" if run == ALICE else "bob"
    finding = Finding(
        rule=rule, severity=severity, run=run, job_id=job_id, user=user, evidence=evidence, recorded_advice=advice
    )
    return Flag(finding=finding, opened_at=ago(10))
