"""The whole configuration: its sections, and the checks across sections."""

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from ckptd.config.agent import AgentSection
from ckptd.config.base import Section
from ckptd.config.cluster import ScanSection, SitePurgeRule, SlurmSection, StoreSection, WatchRule
from ckptd.config.health import HealthSection
from ckptd.config.listing_settings import choose_state_directory, default_url
from ckptd.config.outputs import ActionsSection, AppriseSection, MailSection, MetricsSection, WebSection
from ckptd.config.retention import RetentionSection


class ServiceSection(Section):
    """The daemon process."""

    user: str | None = None
    """When started as root, the main process switches to this user; only the agent keeps the privilege to switch."""
    state_directory: Path | None = None
    """By default systemd's StateDirectory, else /var/lib/ckptd for root and ~/.local/state/ckptd for others."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    standby: Literal["auto", "refuse"] = "auto"
    """What a second daemon for the same cluster does: `auto` waits on PostgreSQL, to take over within 30 s when the
    first one fails, and refuses to start on SQLite; `refuse` always refuses to start."""


class Config(Section):
    slurm: SlurmSection = SlurmSection()
    store: StoreSection = StoreSection()
    scan: ScanSection = ScanSection()
    watch: tuple[WatchRule, ...] = ()
    purge: tuple[SitePurgeRule, ...] = ()
    health: HealthSection = HealthSection()
    retention: RetentionSection = RetentionSection()
    mail: MailSection = MailSection()
    apprise: AppriseSection = AppriseSection()
    actions: ActionsSection = ActionsSection()
    web: WebSection = WebSection()
    metrics: MetricsSection = MetricsSection()
    agent: AgentSection = AgentSection()
    service: ServiceSection = ServiceSection()

    @model_validator(mode="after")
    def _keep_lasts_for_repeat_gap(self) -> "Config":
        if self.mail.repeat_gap > self.store.keep:
            raise ValueError(
                "mail.repeat_gap must not be longer than store.keep: notifications are deleted with their run's records"
            )
        return self

    @property
    def state_directory(self) -> Path:
        """Return the directory of SQLite and the heartbeat: configured, systemd's, or the user's own."""
        return choose_state_directory(self.service.state_directory)

    @property
    def database_url(self) -> str:
        return self.store.url or default_url(self.state_directory)
