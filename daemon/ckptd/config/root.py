"""The whole configuration: its sections, and the checks across sections."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from ckptd.config.agent import AgentSection
from ckptd.config.base import AbsolutePath, Section
from ckptd.config.cluster import (
    FileSystemRule,
    ScanSection,
    SharedRule,
    SitePurgeRule,
    SlurmSection,
    StoreSection,
    WatchRule,
    find_overlap,
)
from ckptd.config.health import HealthSection
from ckptd.config.listing_settings import choose_state_directory, default_url
from ckptd.config.node_scans_table import NodeScansSection
from ckptd.config.outputs import ActionsSection, AppriseSection, MailSection, MetricsSection, WebSection
from ckptd.config.retention import RetentionSection
from ckptd.config.verify_jobs_table import VerifyJobsSection


class ServiceSection(Section):
    """The daemon process."""

    user: str | None = None
    """When started as root, the main process switches to this user; only the agent keeps the privilege to switch."""
    state_directory: AbsolutePath | None = None
    """By default systemd's StateDirectory, else /var/lib/ckptd for root and ~/.local/state/ckptd for others."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""
    standby: Literal["auto", "refuse"] = "auto"
    """What a second daemon for the same cluster does: `auto` waits on PostgreSQL, to take over within 30 s when the
    first one fails, and refuses to start on SQLite; `refuse` always refuses to start."""
    heartbeat_url: str | None = None
    """An http or https address that the acting daemon requests after each round of its steps, of a service that alerts
    when the requests stop. Anyone who can read the address can send such requests, so keep it secret."""

    @field_validator("heartbeat_url")
    @classmethod
    def _heartbeat_url_is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not _is_web_address(url):
            raise ValueError('must be an address such as "https://host/path"')
        return url


def _is_web_address(url: str) -> bool:
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port
        return False


class Config(Section):
    slurm: SlurmSection = SlurmSection()
    store: StoreSection = StoreSection()
    scan: ScanSection = ScanSection()
    watch: tuple[WatchRule, ...] = ()
    file_system: tuple[FileSystemRule, ...] = ()
    purge: tuple[SitePurgeRule, ...] = ()
    shared: tuple[SharedRule, ...] = ()
    health: HealthSection = HealthSection()
    retention: RetentionSection = RetentionSection()
    verify_jobs: VerifyJobsSection = VerifyJobsSection()
    node_scans: NodeScansSection = NodeScansSection()
    mail: MailSection = MailSection()
    apprise: AppriseSection = AppriseSection()
    actions: ActionsSection = ActionsSection()
    web: WebSection = WebSection()
    metrics: MetricsSection = MetricsSection()
    agent: AgentSection = AgentSection()
    service: ServiceSection = ServiceSection()

    @field_validator("shared")
    @classmethod
    def _shared_directories_do_not_overlap(cls, rules: tuple[SharedRule, ...]) -> tuple[SharedRule, ...]:
        if problem := find_overlap(rules):
            raise ValueError(problem)
        return rules

    @model_validator(mode="after")
    def _keep_lasts_for_repeat_gap(self) -> "Config":
        if self.mail.repeat_gap > self.store.keep:
            raise ValueError(
                "mail.repeat_gap must not be longer than store.keep: notifications are deleted with their run's records"
            )
        return self

    def list_files(self) -> dict[str, Path]:
        """Return the files that the main process reads, by their settings."""
        files = {
            "store.password_file": self.store.password_file,
            "mail.password_file": self.mail.password_file,
            "mail.ca_file": self.mail.ca_file,
            "apprise.urls_file": self.apprise.urls_file,
            "web.config_file": self.web.config_file,
            "slurm.rest_token_file": self.slurm.rest_token_file if self.slurm.source == "slurmrestd" else None,
        }
        return {setting: path for setting, path in files.items() if path is not None}

    @property
    def state_directory(self) -> Path:
        """Return the directory of SQLite and the heartbeat: configured, systemd's, or the user's own."""
        return choose_state_directory(self.service.state_directory)

    @property
    def database_url(self) -> str:
        return self.store.url or default_url(self.state_directory)
