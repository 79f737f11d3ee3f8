"""Publishes the current state of the cluster for metrics and the status page."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Self

from ckptd.checkpoints.scanning.mounts import MountPoints
from ckptd.core.fleet import per_user_cap
from ckptd.core.fleet.fleet_totals import FleetCounter, FleetTotals
from ckptd.core.fleet.prune_totals import PruneTotals
from ckptd.core.fleet.snapshot import Report
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.core.notices.delivery import Outbox
from ckptd.core.runs import lost_work_totals
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.steps.end_recheck import UnconfirmedEnds
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.requeue_counts import RequeueStarts
from ckptd.steps.results import StepResult
from ckptd.steps.snapshots import (
    ActionCounts,
    CurrentFlags,
    MessageCounts,
    NodeScanTotals,
    PurgeFacts,
    RunHistories,
    ScanProgress,
)
from ckptd.steps.state import State
from ckptd.store.store import Store

LOSSES_INTERVAL = timedelta(minutes=1)  # between two sums of the lost work
PAUSE_PER_RUN = timedelta(milliseconds=2.5)  # between two sums over all runs, which take about 10 us a run
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


class RunTotals:
    """The totals over all runs, summed up less often the more runs there are: this takes a fixed share of a core."""

    def __init__(self) -> None:
        self.fleet = FleetTotals()
        self.by_locator: Mapping[str, int] = {}
        self.unknown_directories = 0
        self.unreadable_directory_users = 0
        self.scan_delay = timedelta(0)
        self._counter = FleetCounter()
        self._mounts = MountPoints()
        self._counted: tuple[datetime, int] | None = None  # when last, and how many runs

    def refresh(self, state: State, now: datetime) -> Self:
        """Sum up again, unless this was done lately."""
        if self._counted is not None:
            counted_at, run_count = self._counted
            if abs(now - counted_at) < PAUSE_PER_RUN * run_count:
                return self
        scanned, runs, watched = state.latest(ScanProgress), state.latest(RunHistories), state.watchlist.all
        queued = [each for each in watched if not each.is_last_scan]
        histories = runs.by_run
        copies = state.watchlist.copies - histories.keys()
        ended = state.latest(PurgeFacts).ended
        in_queue = [history for history in histories.values() if history.jobs or history.key not in ended]
        located_by = {key: history.located_by for key, history in histories.items()} | dict(scanned.located_by)
        self._mounts.refresh()
        self.by_locator = Counter(
            located_by.get(each.key) or "unknown" if each.key.is_located else "none"
            for each in queued
            if each.key not in copies
        )
        self.unknown_directories = sum(each.is_unknown for each in queued)
        self.unreadable_directory_users = per_user_cap.count_unreadable_directory_users(queued)
        on_nodes = state.latest(NodeScanTotals).directories  # those have a pace of their own
        late = (each for each in watched if each.due_at < now and not is_on_nodes(each.key.directory, on_nodes))
        self.scan_delay = now - min((each.due_at for each in late), default=now)
        self.fleet = self._counter.sum_up(in_queue, now, self._mounts.find, runs.shares)
        self._counted = (now, max(len(watched), len(in_queue)))
        return self


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
        node_scans=state.latest(NodeScanTotals).steps,
        node_scan_seconds=state.latest(NodeScanTotals).seconds,
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
    queued, missed = state.latest(PolledQueue), state.latest(MissedJobs)
    totals = state.own(RunTotals, RunTotals).refresh(state, now)
    return Report(
        cluster=parts.cluster,
        made_at=now,
        slurm_trouble=queued.slurm_trouble,
        polled_at=queued.polled_at or missed.polled_at,
        scanned_at=state.latest(ScanProgress).scanned_at,
        jobs_by_state=queued.jobs_by_state,
        open_flags=open_flags,
        totals=state.events.read(),
        losses=losses.totals,
        backfill_gap=missed.gap.until - missed.gap.since if missed.gap and not missed.is_hopeless else timedelta(0),
        recent_requeues=state.latest(RequeueStarts).count(now),
        runs_by_locator=totals.by_locator,
        unknown_directories=totals.unknown_directories,
        unreadable_directory_users=totals.unreadable_directory_users,
        scan_delay=totals.scan_delay,
        fleet=totals.fleet,
    )
