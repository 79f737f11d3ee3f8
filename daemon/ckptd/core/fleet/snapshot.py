"""The published state of the daemon at one time: the only input of metrics and the status page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.fleet.event_counts import EventTotals
from ckptd.core.fleet.fleet_totals import FleetTotals
from ckptd.core.fleet.prune_totals import PruneTotals
from ckptd.core.job_actions.action_policy import ActionKind, DeferReason
from ckptd.core.model import Flag, Severity
from ckptd.core.notices.delivery import Outbox
from ckptd.core.runs.lost_work_totals import LossKey, LossTotal


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Counts and times after the last step. `slurm_trouble` is the reason why Slurm does not answer."""

    cluster: str
    made_at: datetime
    slurm_trouble: str | None = None
    polled_at: datetime | None = None
    scanned_at: datetime | None = None
    jobs_by_state: Mapping[str, int] = field(default_factory=dict)
    runs_by_locator: Mapping[str, int] = field(default_factory=dict)
    unknown_directories: int = 0
    unreadable_directory_users: int = 0  # users of whom a directory could not be read
    recent_requeues: int = 0  # that began within the last half hour, of each user some at most
    unwatched_directories: int = 0
    backfill_gap: timedelta = timedelta(0)  # time of which accounting has still to tell
    is_mail_limit_reached: bool = False  # mail to users waits for mail.max_per_hour
    scan_delay: timedelta = timedelta(0)  # how long the most overdue scan is overdue
    open_flags: tuple[Flag, ...] = ()
    fleet: FleetTotals = field(default_factory=FleetTotals)
    totals: EventTotals = field(default_factory=EventTotals)
    losses: Mapping[LossKey, LossTotal] = field(default_factory=dict)  # since the record began; never falls
    outbox: Outbox = field(default_factory=Outbox)
    pruned: PruneTotals = field(default_factory=PruneTotals)
    # on jobs since the start, by how they went
    job_actions: Mapping[tuple[ActionKind, str], int] = field(default_factory=dict)
    # now, by what they wait for
    deferred_job_actions: Mapping[tuple[ActionKind, DeferReason], int] = field(default_factory=dict)
    node_scans: Mapping[str, int] = field(default_factory=dict)  # steps in users' jobs, by how they went
    node_scan_seconds: float = 0.0
    messages_by_result: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (channel, result)

    @property
    def flags_by_rule(self) -> dict[tuple[str, Severity], int]:
        """Return the number of open flags by rule and severity."""
        counts: dict[tuple[str, Severity], int] = {}
        for flag in self.open_flags:
            key = flag.finding.rule, flag.finding.severity
            counts[key] = counts.get(key, 0) + 1
        return counts

    @property
    def flagged_users_by_rule(self) -> dict[str, int]:
        """Return the number of users with an open flag, by rule."""
        users: dict[str, set[int]] = {}
        for flag in self.open_flags:
            users.setdefault(flag.finding.rule, set()).add(flag.finding.run.uid)
        return {rule: len(uids) for rule, uids in users.items()}

    @property
    def checkpoints_by_format(self) -> Mapping[tuple[str, str], int]:
        return self.fleet.checkpoints_by_format
