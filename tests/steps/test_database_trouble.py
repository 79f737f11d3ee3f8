"""Databases that go away, fill up or lose an answer, and clocks that are set: nothing is lost, no flag flaps."""

import contextlib
import shutil
from dataclasses import replace

import pytest

from ckptd.steps import decide, poll, publish, scan
from ckptd.store.engine import StoreError, create_engine
from ckptd.store.store import Store
from ckptd.store.transactions import Database
from steps.daemon_lives import Cluster, Disk, Service
from support.migrated import get_template
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job

# A run that is requeued with nothing saved, then saves, is stopped by its limit, and goes on as another job.
STORY = (
    (0, (make_job(1),), ()),
    (10, (make_job(1, STATES.PENDING, 1, submitted_at=at(9), started_at=None),), ()),
    (12, (make_job(1, STATES.RUNNING, 1, submitted_at=at(9), started_at=at(11)),), ()),
    (30, (make_job(1, STATES.RUNNING, 1, submitted_at=at(9), started_at=at(11)),), (make_checkpoint(written=25),)),
    (60, (make_job(1, STATES.TIMEOUT, 1, submitted_at=at(9), started_at=at(11), ends_at=at(59)),), None),
    (61, (make_job(2, submitted_at=at(60), started_at=at(60.5)),), None),
    (70, (make_job(2, submitted_at=at(60), started_at=at(60.5)),), (make_checkpoint("step-2.pt", 68, step=2),)),
)


class FaultyDatabase(Database):
    """Fails once: before the transaction of that number, or when it is done and only its answer is lost."""

    fails_at = None
    is_done = False
    written = 0

    @contextlib.contextmanager
    def writing(self):
        self.written += 1
        fails = self.written == self.fails_at
        if fails and not self.is_done:
            raise StoreError("the database went away")
        with super().writing() as connection:
            yield connection
        if fails:
            raise StoreError("the answer of the database was lost")


def live(service, story=STORY):
    """Run every step as the daemon does: one that fails is told, and the others go on. It polls twice a minute."""
    failed = 0
    parts, state, source = service.parts, service.state, service.parts.source
    for minutes, jobs, checkpoints in story:
        source.jobs = (*jobs, make_job(91, uid=2000, user="bob"))
        if checkpoints is not None:
            parts.agent.checkpoints = checkpoints
        for now in (at(minutes), at(minutes), at(minutes + 0.5)):
            steps = (
                lambda now=now: poll.record_queue(parts, state, *poll.observe_queue(parts, state, now), now),
                lambda now=now: scan.scan_due(parts, state, now),
                lambda now=now: scan.scan_due(parts, state, now),
                lambda now=now: decide.decide(parts, state, now),
                lambda now=now: publish.report(parts, state, now),
            )
            for step in steps:
                try:
                    step()
                except StoreError:
                    failed += 1
    return failed


def tell(store):
    """Return what the record says in the end, without the instants at which ckptd itself happened to look."""
    histories = sorted(store.histories.read(CLUSTER), key=lambda history: history.key)
    return {
        "attempts": [
            (h.key.uid, a.job.job_id, a.restart_count, a.kind, a.state, a.cause, a.started_at, a.ended_at)
            for h in histories
            for a in h.attempts
        ],
        "saves": [
            (r.checkpoint.path.name, r.completed_at, r.deleted_at is None, r.attempt and r.attempt[0].job_id)
            for h in histories
            for r in h.checkpoints
        ],
        "user_settings": [h.user_settings for h in histories],
        "flags": sorted(
            (f.finding.rule, f.finding.job_id, f.resolved_at is not None)
            for f in store.flags.read(CLUSTER, include_resolved=True)
            if f.finding.run == RUN
        ),
        "lost": [(line.cause, line.loss.lost) for line in store.lost_work.list_lines(RUN)],
    }


def start(folder, **faults):
    shutil.copyfile(get_template(), folder / "record.db")
    service = Service(f"sqlite:///{folder}/record.db", Cluster(), Disk(), 0)
    service.parts.store.close()
    database = FaultyDatabase(create_engine(f"sqlite:///{folder}/record.db"))
    for name, value in faults.items():
        setattr(database, name, value)
    service.parts = replace(service.parts, store=Store(database))
    return service


def test_a_transaction_that_fails_or_whose_answer_is_lost_leaves_the_same_record_in_the_end(tmp_path):
    undisturbed = start(tmp_path)
    assert live(undisturbed) == 0
    store = undisturbed.parts.store
    expected, count = tell(store), store.database.written
    store.close()
    assert [rule for rule, *_ in expected["flags"]].count("restarted-without-checkpoint") == 1
    assert len(expected["attempts"]) == 4
    for number in range(1, count + 1, 3):  # odd, so that both ways to fail meet every step
        service = start(tmp_path, fails_at=number, is_done=number % 2 == 0)
        assert live(service) == 1
        assert tell(service.parts.store) == expected, f"transaction {number}"
        service.parts.store.close()


def test_a_server_that_goes_away_and_comes_back_costs_nothing_but_time(postgresql_server, postgresql_record):
    service = Service(postgresql_record, Cluster(), Disk(), 0)
    live(service, STORY[:3])
    opened = tell(service.parts.store)["flags"]
    assert ("restarted-without-checkpoint", 1, False) in opened
    postgresql_server.halt()
    try:
        assert live(service, STORY[3:5]) > 0
    finally:
        postgresql_server.resume()
    live(service, [(62, STORY[4][1], None), *((minutes + 5, *rest) for minutes, *rest in STORY[5:])])
    told = tell(service.parts.store)
    assert told["flags"].count(("restarted-without-checkpoint", 1, True)) == 1
    assert [row[1:3] for row in told["attempts"] if row[0] == RUN.uid] == [(1, 0), (1, 1), (2, 0)]
    assert [name for name, *_ in told["saves"]] == ["step-1.pt", "step-2.pt"]
    assert len(told["lost"]) == 2
    service.parts.store.close()


def run_many(service):
    for number in range(100, 400):
        service.run(20 + number / 100, make_job(number, comment="x" * 5000))


def test_a_disk_without_room_is_named_spoils_nothing_and_is_forgotten_once_there_is_some(full_disk):
    service = start(full_disk.folder)
    live(service, STORY[:3])
    before = tell(service.parts.store)
    full_disk.fill()
    with pytest.raises(StoreError, match=r"database or disk is full.*free space on its disk") as caught:
        run_many(service)
    assert str(full_disk.folder / "record.db") in str(caught.value)
    assert tell(service.parts.store)["flags"] == before["flags"]
    with service.parts.store.database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    full_disk.empty()
    live(service, [(30, STORY[3][1], STORY[3][2]), *STORY[4:]])
    told = tell(service.parts.store)
    assert [row[1:3] for row in told["attempts"] if row[0] == RUN.uid and row[1] < 100] == [(1, 0), (1, 1), (2, 0)]
    assert told["flags"].count(("restarted-without-checkpoint", 1, True)) == 1
    service.parts.store.close()


@pytest.mark.parametrize("hours", [-7, -2, 3, 30])
def test_a_clock_that_is_set_opens_and_resolves_nothing_and_looks_go_on(tmp_path, hours):
    service = start(tmp_path)
    again = make_job(1, STATES.RUNNING, 1, submitted_at=at(9), started_at=at(11), time_limit=None, ends_at=None)
    live(service, STORY[:2])
    service.run(12, again)
    flags = tell(service.parts.store)["flags"]
    observed_at = service.state.watchlist.get(RUN).observed_at
    for minutes in (0, 1, 2):
        service.run(12 + hours * 60 + minutes, again)
    assert service.state.watchlist.get(RUN).observed_at != observed_at
    if hours < 24:  # over a day of silence is one, whoever set the clock
        assert tell(service.parts.store)["flags"] == flags
    service.run(15, again)  # and it is set right
    service.parts.agent.checkpoints = (make_checkpoint(written=16),)
    service.run(21, again)
    [history] = service.parts.store.histories.read(CLUSTER, [RUN])
    assert [(a.restart_count, a.ended_at is None) for a in history.attempts] == [(0, False), (1, True)]
    assert [record.checkpoint.path.name for record in history.checkpoints] == ["step-1.pt"]
    service.parts.store.close()
