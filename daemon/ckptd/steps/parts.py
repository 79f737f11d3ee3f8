"""What the steps work with: built from the configuration at the start, and again at every reload."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.checkpoints.agent.scan_client import Agent, LookLimits
from ckptd.checkpoints.scanning.locate import SiteRule
from ckptd.core import health, notices
from ckptd.core.job_actions.action_policy import Permits
from ckptd.core.model import Maintenance, Unknown
from ckptd.core.notices import Recipient
from ckptd.core.queue.poll_gaps import Reach
from ckptd.notify.interface import Channel
from ckptd.notify.rendering import Renderer
from ckptd.slurm.interface import JobSource
from ckptd.slurm.programs import Programs
from ckptd.steps.site_policy import Site
from ckptd.store.store import Store

LEASE = timedelta(minutes=15)  # of a claimed message at least, and longer than every relay's deadline together

MuteReader = Callable[[Sequence[tuple[int, str]]], Sequence[Collection[str] | Unknown]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Post:
    """Everything that sending works with."""

    cluster: str
    store: Store
    channels: Mapping[str, Channel]
    renderer: Renderer
    read_mutes: MuteReader
    policy: notices.Policy = field(default_factory=notices.Policy)  # users do not mute what its administrators hear
    max_per_minute: int = 60
    max_per_hour: int = 500
    max_entries: int = 20
    lease: timedelta = LEASE

    def is_admin(self, recipient: Recipient) -> bool:
        return recipient.address in self.policy.admins


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Everything that the steps work with. It never changes: a reload builds another one."""

    cluster: str
    source: JobSource
    store: Store
    agent: Agent
    rules: tuple[health.Rule, ...]
    overrides: tuple[health.Override, ...] = ()
    site_rules: tuple[SiteRule, ...]
    limits: LookLimits
    read_maintenance: Callable[[], tuple[Maintenance, ...] | Unknown] | None = None
    read_clock: Callable[[], datetime | Unknown | None] | None = None  # the controller's own
    reads_batch_scripts: bool = False
    poll_interval: timedelta = timedelta(minutes=1)
    scan_interval: timedelta
    max_poll_age: timedelta  # rules do not judge by an older poll
    min_job_duration: timedelta
    catching_up: Reach | None = field(default_factory=Reach)  # None: what nobody polled stays unknown
    permits: Permits = field(default_factory=lambda: Permits(partitions={}))
    programs: Programs = field(default_factory=Programs)
    notice_policy: notices.Policy = field(default_factory=notices.Policy)
    post: Post | None = None  # None: a command, which sends nothing
    retention: Site | None = None  # None: a command, which is given what it needs of it
    keep: timedelta = timedelta(days=365)  # runs that ended longer ago are deleted from the database
