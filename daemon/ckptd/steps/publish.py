"""Publishes the current state of the cluster for metrics and the status page."""

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta

from ckptd.checkpoints.scanning.mounts import MountPoints
from ckptd.core.fleet import per_user_cap
from ckptd.core.fleet.fleet_totals import FleetCounter
from ckptd.core.fleet.prune_totals import PruneTotals
from ckptd.core.fleet.snapshot import Report
from ckptd.core.notices.delivery import Outbox
from ckptd.core.runs import lost_work_totals
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.steps.end_recheck import UnconfirmedEnds
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.requeue_counts import RequeueStarts
from ckptd.steps.results import StepResult
from ckptd.steps.snapshots import ActionCounts, CurrentFlags, MessageCounts, PurgeFacts, RunHistories, ScanProgress
from ckptd.steps.state import State
from ckptd.store.store import Store

LOSSES_INTERVAL = timedelta(minutes=1)  # between two sums of the lost work
LOSS_FINAL_AGE = timedelta(hours=1)  # a row of this age counts, final or not


class LostWorkTotals:
    """The totals of lost work for metrics, read periodically; old days are summed up once a day."""

    def __init__(self) -> None:
        self.totals: dict[LossKey, LossTotal] = {}
        self._old: dict[LossKey, LossTotal] = {}
        self._old_until: date | None = None
        self._summed_at: datetime | None = None

    def refresh(self, store: Store, cluster: str, now: datetime, state: State) -> None:
        """Sum up the lost work again, unless this was done recently. No total ever decreases.

        A cause that only the queue showed may change, and the attempt would then count under both causes. So it counts
        once accounting has confirmed the cause, or after LOSS_FINAL_AGE.
        """
        if self._summed_at is not None and abs(now - self._summed_at) < LOSSES_INTERVAL:
            return
        until = (now - timedelta(days=2)).date()
        if until != self._old_until:
            self._old = lost_work_totals.add_up(store.lost_work_sums.sum_by_day(cluster, last=until).values())
            self._old_until = until
        sums, first = store.lost_work_sums, until + timedelta(days=1)
        with state.record_lock:  # an end may just have been recorded, and counts as unconfirmed only after that
            recent = sums.sum_by_day(cluster, first=first, final_before=now - LOSS_FINAL_AGE)
            confirmed = sums.sum_confirmed(cluster, now - LOSS_FINAL_AGE, state.latest(UnconfirmedEnds).names)
        found = lost_work_totals.add_up([self._old, *recent.values(), confirmed])
        self.totals = lost_work_totals.never_less(self.totals, found)
        self._summed_at = now


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Publish the report to Prometheus and systemd."""
    parts.runner.note_alive()  # first: a database that does not answer is no reason to be restarted
    actions = state.latest(ActionCounts)
    made = replace(
        report(parts, state, now),
        outbox=state.latest(Outbox),
        messages_by_result=state.latest(MessageCounts).by_result,
        is_mail_limit_reached=state.latest(MessageCounts).is_limit_reached,
        pruned=state.latest(PruneTotals),
        job_actions=actions.done,
        deferred_job_actions=actions.deferred,
        unwatched_directories=len(parts.watcher.unwatched) if parts.watcher else 0,
    )
    state.publish(made)
    parts.runner.show(made)
    return StepResult()


def report(parts: Parts, state: State, now: datetime) -> Report:
    """Return the report of the current state."""
    decided = state.latest(CurrentFlags).flags
    open_flags = parts.store.flags.list_open(parts.cluster) if decided is None else decided
    losses = state.own(LostWorkTotals, LostWorkTotals)
    losses.refresh(parts.store, parts.cluster, now, state)
    queued, scanned = state.latest(PolledQueue), state.latest(ScanProgress)
    runs, watched = state.latest(RunHistories), state.watchlist.all
    histories = runs.by_run
    copies = state.watchlist.copies - histories.keys()
    ended = state.latest(PurgeFacts).ended
    in_queue = [history for history in histories.values() if history.jobs or history.key not in ended]
    located_by = {key: history.located_by for key, history in histories.items()} | dict(scanned.located_by)
    missed = state.latest(MissedJobs)
    mounts = state.own(MountPoints, MountPoints)
    mounts.refresh()
    return Report(
        cluster=parts.cluster,
        made_at=now,
        slurm_trouble=queued.slurm_trouble,
        polled_at=queued.polled_at,
        scanned_at=scanned.scanned_at,
        jobs_by_state=queued.jobs_by_state,
        open_flags=open_flags,
        totals=state.events.read(),
        losses=losses.totals,
        backfill_gap=missed.gap.until - missed.gap.since if missed.gap and not missed.is_hopeless else timedelta(0),
        recent_requeues=state.latest(RequeueStarts).count(now),
        runs_by_locator=Counter(
            located_by.get(each.key) or "unknown" if each.key.is_located else "none"
            for each in watched
            if each.key not in copies
        ),
        unknown_directories=sum(each.is_unknown for each in watched),
        unreadable_directory_users=per_user_cap.count_unreadable_directory_users(watched),
        scan_delay=now - min((each.due_at for each in watched if each.due_at < now), default=now),
        fleet=state.own(FleetCounter, FleetCounter).sum_up(in_queue, now, mounts.find, runs.shares),
    )
