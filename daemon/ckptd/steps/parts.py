"""The objects that steps use, built from the configuration at the start and at every reload."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.scan_client import ScanLimits
from ckptd.checkpoints.executor import VerifyPlace
from ckptd.checkpoints.scanning.locate import SiteRule
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor
from ckptd.core import health, notices
from ckptd.core.discovery.file_system_budgets import FileSystemBudget
from ckptd.core.fleet.snapshot import Report
from ckptd.core.job_actions.action_policy import ActionPermits
from ckptd.core.model import Maintenance, PurgeRule, RunKey, Scan, Unknown
from ckptd.core.model.records import DaemonIdentity
from ckptd.core.node_scans.step_policy import NodeScanPolicy
from ckptd.core.notices import Recipient
from ckptd.core.queue.poll_gaps import BackfillWindow
from ckptd.core.runs.shared_files import SharedDirectory
from ckptd.notify.interface import Channel
from ckptd.notify.rendering import Renderer
from ckptd.slurm.interface import JobSource
from ckptd.slurm.programs import Programs
from ckptd.steps.site_policy import SitePolicy
from ckptd.store.store import Store

if TYPE_CHECKING:
    from ckptd.steps.state import State

LEASE = timedelta(minutes=15)  # of a claimed message at least, and longer than every relay's deadline together

MuteReader = Callable[[Sequence[tuple[int, str]]], Sequence[Collection[str] | Unknown]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SendParts:
    """The objects that the step `send` uses."""

    cluster: str
    store: Store
    channels: Mapping[str, Channel]
    renderer: Renderer
    read_mutes: MuteReader
    # users do not mute what its administrators hear
    policy: notices.NoticePolicy = field(default_factory=notices.NoticePolicy)
    max_per_minute: int = 60
    max_per_hour: int = 500
    max_per_user: int = 20
    max_entries: int = 20
    lease: timedelta = LEASE

    def is_admin(self, recipient: Recipient) -> bool:
        return recipient.address in self.policy.admins


class ChangeWatcher(Protocol):
    """Reports changes on local file systems."""

    @property
    def unwatched(self) -> Mapping[str, str]: ...

    def watch(self, directories: Iterable[tuple[str, int]]) -> None: ...

    def take_changed(self) -> frozenset[str]: ...


class SearchDirectories(Protocol):
    """Searches for the checkpoints of these owners' jobs that were not searched for yet."""

    def __call__(
        self, parts: "Parts", state: "State", owners: Collection[int], now: datetime, *, is_recorded: bool = True
    ) -> None: ...


Scans = Mapping[RunKey, Scan | Unknown]


def _do_at_once(work: Callable[[], None]) -> None:
    work()


def _do_nothing(*_arguments: object) -> None:
    return


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """What steps request from the process that runs them: runs of other steps, and what only the process can do."""

    poll: Callable[["Parts", "State"], None]  # poll Slurm now
    search: SearchDirectories
    scan: Callable[["Parts", "State", Collection[RunKey], Collection[str], datetime], Scans]  # whether due or not
    submit: Callable[[Callable[[], None]], object] = _do_at_once  # one owner's scans
    scan_soon: Callable[[], None] = _do_nothing  # one owner has more to scan than was submitted
    read_time: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    read_elapsed: Callable[[], timedelta] | None = None  # of a clock that nobody can set; None: jumps are not noticed
    is_stopping: Callable[[], bool] = field(default=lambda: False)
    still_wants: Callable[[SitePolicy], bool] = field(default=lambda _site: True)  # False: a reload changed retention
    note_alive: Callable[[], None] = _do_nothing
    note_scanned: Callable[[], None] = _do_nothing  # some of one owner's directories were scanned, and recorded
    show: Callable[[Report], None] = _do_nothing
    identity: DaemonIdentity | None = None  # None: this is no daemon


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """All objects that steps use. Immutable: a reload builds a new one."""

    cluster: str
    runner: Runner
    source: JobSource
    store: Store
    agent: BatchRunner
    rules: tuple[health.Rule, ...]
    overrides: tuple[health.Override, ...] = ()
    site_rules: tuple[SiteRule, ...]
    limits: ScanLimits
    watcher: ChangeWatcher | None = None  # None: only scans see changes
    read_maintenance: Callable[[], tuple[Maintenance, ...] | Unknown] | None = None
    read_clock: Callable[[], datetime | Unknown | None] | None = None  # the controller's own
    reads_batch_scripts: bool = False
    site_variables: Mapping[str, str] = field(default_factory=dict)  # templates, as scripts find them set
    node_scans: NodeScanPolicy = field(default_factory=NodeScanPolicy)  # of locations that only nodes see
    budgets: tuple[FileSystemBudget, ...] = ()  # of file systems, for scans and searches
    purge_rules: tuple[PurgeRule, ...] = ()  # of the site's own cleaning, in which ckptd has no part
    workspace_databases: tuple[PurePosixPath, ...] = ()
    shared: tuple[SharedDirectory, ...] = ()  # what this cluster declares; the records say what is in effect
    poll_interval: timedelta = timedelta(minutes=1)
    scan_interval: timedelta
    max_poll_age: timedelta  # rules do not judge by an older poll
    min_job_duration: timedelta
    # None: what nobody polled stays unknown
    backfill_window: BackfillWindow | None = field(default_factory=BackfillWindow)
    permits: ActionPermits = field(default_factory=lambda: ActionPermits(partitions={}))
    programs: Programs = field(default_factory=Programs)
    notice_policy: notices.NoticePolicy = field(default_factory=notices.NoticePolicy)
    post: SendParts | None = None  # None: a command, which sends nothing
    retention: SitePolicy | None = None  # None: a command, which is given what it needs of it
    job_executor: JobExecutor | None = None  # None: a command, which follows no verification jobs of others
    verify_place: VerifyPlace = VerifyPlace.HERE
    require_lease: Callable[[], None] = _do_nothing  # raises an error if this process may not act now
    keep: timedelta = timedelta(days=365)  # runs that ended longer ago are deleted from the database
    keep_checkpoints: timedelta = timedelta(days=30)  # of runs that ended longer ago, deleted checkpoints are summed up
