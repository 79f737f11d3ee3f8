"""What a daemon, its pages and its commands ask of the database, each with the number of rows that it is about."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from ckptd.core import queue
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, JobState, QueueSnapshot, RunKey, Scan, Severity
from ckptd.core.model.records import AuditEntry, LocationRecord, ScanRecord
from ckptd.core.queue import TrackedJob
from ckptd.core.runs import ownership, progress
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.store.store import Store
from support.further_statements import list_further_calls
from support.hot_call import HotCall
from support.recorded_year import KEPT, NOW, RECORDED, RecordedYear

DAY = timedelta(days=1)
CHECKPOINTS = 100  # of a run that is active


def list_calls(year: RecordedYear) -> list[HotCall]:
    """Return the calls in an order in which they can be made one after the other."""
    keys = year.list_newest(20)
    active, a_day = year.active_count, max(100, year.job_count * 11 // 10 // RECORDED.days)
    saved = len(keys) * CHECKPOINTS
    all_saved = active * CHECKPOINTS

    held: dict[int, TrackedJob] = {}  # as the daemon keeps it

    def calls(step: str, needed: int, **named: Callable[[Store], object]) -> list[HotCall]:
        return [HotCall(f"{step}: {name}", run, needed) for name, run in named.items()]

    return [
        *calls(
            "start",
            max(active, all_saved),
            tracked=lambda store: held.update(store.jobs.read_tracked("alpha")),
            state=lambda store: store.restart_state.read("alpha", ended_since=NOW - DAY, timed_out_since=NOW - DAY),
        ),
        *calls(
            "start",
            2 * a_day,
            unscanned=lambda store: store.lost_work.list_unscanned_runs("alpha", NOW - DAY, partly_since=NOW - DAY),
            unaddressed=lambda store: store.outbox.list_unaddressed("alpha"),
        ),
        *calls(
            "poll",
            100,
            record=lambda store: _poll(store, held),
            status=lambda store: store.clusters.record_poll("alpha", NOW),
        ),
        *calls(
            "poll",
            100,
            gap=lambda store: store.backfill.read_gap("alpha"),
            awaiting=lambda store: store.backfill.read_unscanned_jobs("alpha"),
            recorded=lambda store: store.backfill.read_recorded_jobs("alpha", range(1, 100)),
            unconfirmed=lambda store: store.jobs.list_unconfirmed_attempts("alpha", NOW - timedelta(hours=1)),
        ),
        *calls("poll", 6 * active, mentions=lambda store: store.mentions.read("alpha")),
        *calls("poll", a_day, neighbours=lambda store: store.backfill.list_neighbours("alpha", keys[0].uid, NOW - DAY)),
        *calls(
            "scan",
            saved,
            read=lambda store: store.checkpoints.read_present(keys),
            alike=lambda store: _read_alike(store, keys),
            record=lambda store: _scan(store, keys),
            locate=lambda store: _locate(store, keys[0], held),
            last=lambda store: store.checkpoints.read_last_scans("alpha", keys),
            work_dirs=lambda store: store.runs.read_work_dirs(keys),
        ),
        *calls(
            "decide",
            saved,
            revisions=lambda store: store.runs.read_revisions_of(keys),
            resumes=lambda store: store.runs.read_open_resumes(keys),
            record=lambda store: _flag(store, keys[0]),
            outcomes=lambda store: store.audit.read_outcomes("alpha", "signal", keys),
            moved=lambda store: store.audit.read_moved_bytes(keys),
            acted=lambda store: store.audit.find_recorded("alpha", [f"signal/{number}" for number in range(100)]),
        ),
        *calls(
            "decide",
            max(a_day, all_saved),
            active=lambda store: store.histories.read("alpha", active_only=True),
            saved=lambda store: store.ended_runs.list_saved("alpha", NOW - DAY),
        ),
        *calls("decide", active, flags=lambda store: store.flags.list_open("alpha")),
        *calls("send", active, jobs=lambda store: store.flags.read_jobs(store.flags.list_open("alpha"))),
        *calls(
            "publish",
            4 * a_day,
            losses=lambda store: store.lost_work_sums.sum_by_day(
                "alpha", first=(NOW - DAY).date(), final_before=NOW - DAY
            ),
            confirmed=lambda store: store.lost_work_sums.sum_confirmed("alpha", NOW - DAY, ()),
            outbox=lambda store: store.outbox.read_waiting("alpha", NOW),
            last_mail=lambda store: store.outbox.read_last_sent_at("alpha"),
            actions=lambda store: store.audit.list_newest("alpha", begun_since=NOW - DAY),
            by_owner=lambda store: store.audit.count_by_owner("alpha", "ckptd", NOW - timedelta(hours=1)),
            unfinished=lambda store: store.audit.list_newest("alpha", unfinished_only=True),
        ),
        *calls(
            "send",
            a_day,
            mailed=lambda store: store.outbox.list_mailed("alpha", NOW - timedelta(hours=1)),
            held=lambda store: store.outbox.read_held("alpha", (), NOW),
            claim=lambda store: store.claims.take("alpha", ["mail"], NOW, timedelta(minutes=5)),
        ),
        *calls("page", all_saved, jobs=lambda store: store.jobs.list_open(NOW)),
        *calls(
            "page",
            max(100, year.job_count // USER_JOBS),
            of_user=lambda store: store.jobs.list_open(NOW, user="u7"),
            ended=lambda store: store.ended_runs.list_of_user("u7", 50),
        ),
        *calls("page", active, flags=lambda store: store.flags.read()),
        *calls(
            "show",
            100,
            find=lambda store: store.runs.find_of_job(year.job_count),
            array=lambda store: store.runs.find_of_job(year.job_count // 100 * 100 - 100),
            none=lambda store: store.runs.find_of_job(10**9),
            flags=lambda store: store.flags.read(run=keys[0], include_resolved=True),
            losses=lambda store: store.lost_work.list_lines(keys[0]),
            actions=lambda store: store.audit.list_newest("alpha", run=keys[0]),
            at=lambda store: store.runs.find_at(keys[0].directory),
        ),
        *calls("show", max(2 * CHECKPOINTS, active), history=lambda store: store.histories.read("alpha", keys[:1])),
        *calls(
            "lost",
            2 * a_day,
            by_user=lambda store: store.lost_work_sums.sum_by(GroupedBy.USER, NOW - DAY),
            by_rule=lambda store: store.lost_work_sums.sum_by(GroupedBy.RULE, NOW - DAY),
        ),
        *calls("decide", 2 * CHECKPOINTS, changed=lambda store: store.histories.read_changed(dict.fromkeys(keys[:2]))),
        *calls("prune", max(2 * CHECKPOINTS, active), plan=lambda store: store.prune_records.read("alpha", keys[:2])),
        *calls("prune", saved, record=lambda store: store.audit.record(_entry(keys[0]))),
        *list_further_calls(year, a_day, calls),
        *calls("expire", EXPIRED, delete=_expire),
    ]


USER_JOBS = 400  # one user has about a fifth of a percent of all jobs
EXPIRED = 4000  # rows of a table in one transaction
EXPIRED_BATCHES = 100


def _expire(store: Store) -> None:
    """Delete all that is old, and check the first transaction after it as well."""
    after = None
    for _ in range(EXPIRED_BATCHES):
        done = store.expiry.delete_old("alpha", NOW - KEPT, after)
        after = done.last_run
        if done.is_all:
            break


def _poll(store: Store, tracked: dict[int, TrackedJob]) -> None:
    """Record a poll in which one job ended and one began."""
    jobs = [known.job for known in tracked.values()]
    began = replace(jobs[0], job_id=max(tracked) + 1, submitted_at=NOW, started_at=NOW, array_job_id=None)
    ended = replace(jobs[0], state=JobState.COMPLETED, ends_at=NOW)
    snapshot = QueueSnapshot(cluster="alpha", polled_at=NOW, jobs=(ended, *jobs[1:], began))
    store.jobs.record(queue.compare(tracked, snapshot))


def _scan(store: Store, keys: list[RunKey]) -> None:
    """Record scans that found one checkpoint less in each directory."""
    looks = []
    for key, known in store.checkpoints.read_many(keys).items():
        there = tuple(each.checkpoint for each in known if each.deleted_at is None)[1:]
        scan = Scan(directory=there[0].path.parent, scanned_at=NOW, checkpoints=there)
        changes = progress.merge_scan(known, scan, ownership.Writers(owner_uid=key.uid), NOW)
        looks.append(ScanRecord(run=key, changes=changes, scan=scan))
    store.checkpoints.record_scans(looks)


def _read_alike(store: Store, keys: list[RunKey]) -> None:
    """Look for deleted checkpoints that may be the newest ones of each directory."""
    present = store.checkpoints.read_present(keys)
    store.checkpoints.read_deleted_alike({key: [known[-1].checkpoint] for key, known in present.items()})


def _locate(store: Store, key: RunKey, tracked: dict[int, TrackedJob]) -> None:
    [known, *_] = [each for each in tracked.values() if each.run == key]
    record = LocationRecord(jobs=(known.key,), run=key, user=known.job.user, located_by="comment")
    store.located_runs.record([record], NOW)


def _flag(store: Store, key: RunKey) -> None:
    finding = Finding(rule="at-risk", severity=Severity.WARNING, run=key, job_id=None, user="u", evidence={})
    [opened] = store.flags.record(FlagChanges(opened=(Flag(finding=finding, opened_at=NOW),)), NOW)
    store.flags.record(FlagChanges(resolved=(replace(opened, resolved_at=NOW),)), NOW)


def _entry(key: RunKey) -> AuditEntry:
    return AuditEntry(cluster="alpha", actor="policy", action="prune", target="/x", run=key, begun_at=NOW)
