"""Whom ckptd tells, what it does for them, and who may see what."""

import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ckptd.config.base import Duration, PartitionPattern, Section
from ckptd.core.notices import parse_address


class MailSection(Section):
    """Mail to users and administrators. Secrets stand in files, never here."""

    mode: Literal["off", "log", "admin", "on"] = "off"
    """`log` writes to the log whom it would tell what, `admin` sends everything to `admins`, `on` to users too."""
    sender: str | None = None
    """The address that mail comes from."""
    recipient: str | None = None
    """A user's address where the job names none that is valid, such as "{user}@example.org"."""
    allowed_domains: tuple[str, ...] = ()
    """Domains of addresses that jobs may name; with none any is allowed."""
    admins: tuple[str, ...] = ()
    """Who is told of what concerns administrators."""
    relays: tuple[str, ...] = ("localhost:25",)
    """SMTP servers as HOST:PORT, tried in this order."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is encrypted; the server's certificate must be valid for its name."""
    ca_file: Path | None = None
    """Certificates that are trusted instead of the system's."""
    username: str | None = None
    """With password_file: how to authenticate."""
    password_file: Path | None = None
    """A file that holds the password."""
    timeout: Duration = timedelta(seconds=30)
    """A server that does not answer for so long is given up; four times as long for a whole message."""
    max_per_minute: int = Field(default=60, ge=1)
    """Messages in a minute; more wait."""
    max_per_hour: int = Field(default=500, ge=1)
    """Mails to users in an hour, for the whole site; more wait, and administrators are told how much and why."""
    max_bytes: int = Field(default=100_000, ge=10_000)
    """A message that would be larger shows fewer flags and counts the others."""
    max_entries: int = Field(default=20, ge=1)
    """Flags that one message shows; others are counted."""
    critical_window: Duration = timedelta(minutes=10)
    """So long after a critical flag everything that waits for its reader goes as one message."""
    warning_window: Duration = timedelta(hours=1)
    """The same for a warning."""
    info_window: Duration = timedelta(days=1)
    """The same for an information."""
    repeat_gap: Duration = timedelta(days=7)
    """Nobody is told the same of one run again within this time unless it becomes worse."""
    max_repeats: int = Field(default=4, ge=0)
    """So often what still holds is told again, each time after that time; 0 never."""
    tell_recovery: bool = True
    """Whether a flag that was told and no longer holds is told as resolved, once."""
    templates: Path | None = None
    """A directory with subject.txt, body.txt or body.html to be used instead of the built-in ones."""

    @model_validator(mode="after")
    def _addresses_are_given(self) -> "MailSection":
        if self.mode == "off":
            return self
        if self.sender is None or parse_address(self.sender) is None:
            raise ValueError(f'mode = "{self.mode}" needs a valid address as sender')
        recipient = self.recipient or ""
        example = recipient.replace("{user}", "user")
        if example == recipient or "{" in example or parse_address(example) is None:
            raise ValueError(
                f'mode = "{self.mode}" needs recipient with the user\'s name in it, such as "{{user}}@example.org"'
            )
        if self.mode == "admin" and not self.admins:
            raise ValueError('mode = "admin" needs admins')
        return self

    @model_validator(mode="after")
    def _windows_end_before_repetitions(self) -> "MailSection":
        for name in ("critical_window", "warning_window", "info_window"):
            if getattr(self, name) >= self.repeat_gap:
                raise ValueError(f"{name} must be shorter than repeat_gap: what was never told would be told again")
        return self

    @model_validator(mode="after")
    def _secrets_travel_encrypted(self) -> "MailSection":
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and self.security == "none":
            raise ValueError('username needs security = "starttls" or "tls": the password would travel in the clear')
        return self

    @field_validator("admins")
    @classmethod
    def _admins_are_addresses(cls, admins: tuple[str, ...]) -> tuple[str, ...]:
        for address in admins:
            if parse_address(address) is None:
                raise ValueError(f"{address!r} is no mail address")
        return admins

    @field_validator("relays")
    @classmethod
    def _relays_have_ports(cls, relays: tuple[str, ...]) -> tuple[str, ...]:
        for relay in relays:
            if not re.fullmatch(r"([^\s:@/\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}", relay):
                raise ValueError(f"{relay!r} is not of the form HOST:PORT")
        return relays


class AppriseSection(Section):
    """Chat rooms and webhooks, through Apprise (pip install ckptd[apprise]); independent of mail's mode."""

    urls_file: Path | None = None
    """A file of lines `NAME URL`, because such addresses hold secrets."""
    tells: tuple[Literal["user", "admin"], ...] = Field(default=("admin",), min_length=1)
    """Which flags the rooms are told of: those for users, those for administrators."""


class ActionsSection(Section):
    """What ckptd may do to jobs before work is lost: nothing, until partitions (shell patterns) are named here."""

    signal: tuple[PartitionPattern, ...] = ()
    """Partitions where a job that declares a signal (`ckpt-signal=B:USR1` in its comment, `signal` in `.ckptd.toml`)
    is sent it once its time is just enough to save, where its limit would take work."""
    hold: tuple[PartitionPattern, ...] = ()
    """Partitions where a job in a restart loop is held; its user is told so and can release it."""
    summary: tuple[PartitionPattern, ...] = ()
    """Partitions where a job's open flags are written into its AdminComment, unless the site has written there."""
    resubmit: tuple[PartitionPattern, ...] = ()
    """Partitions where a job that its time limit ended is submitted again, as its user and with its options, where
    `.ckptd.toml` says `resubmit = true` and `max_resubmits`, as long as each attempt moves the run on."""
    signal_margin: Duration = timedelta(seconds=60)
    """Time that a save is given beside one and a half times what saves took so far."""
    min_loss: Duration = timedelta(minutes=5)
    """Where the limit would take less than this, no signal is sent."""
    max_resubmits: int = Field(default=10, ge=0)
    """A user may ask for fewer."""
    max_per_cycle: int = Field(default=20, ge=0)
    """Acts in one cycle."""
    max_per_hour: int = Field(default=200, ge=0)
    """Acts of each kind within an hour; no user gets more than half of what the others left."""


class WebSection(Section):
    """The status page, its JSON and /metrics. Users see their own runs, operators all, strangers no jobs at all."""

    listen: str = "127.0.0.1:9478"
    """Address and port; "" turns all off."""
    config_file: Path | None = None
    """TLS, client certificates and passwords, in the format of Prometheus's exporter-toolkit."""
    operators: tuple[str, ...] = ("root",)
    """Users who see everybody's runs."""
    local_users: bool = True
    """Whether who connects from this host, or through ssh's port forwarding, is known by the kernel's word."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses or networks of reverse proxies whose word on who the user is counts."""
    proxy_account: str | None = None
    """The account of a proxy on this host: there every user could say to be one."""
    user_header: str = Field(default="X-Remote-User", pattern=r"^[A-Za-z0-9-]+$")
    """The header in which such a proxy names the user; it must remove what a browser sends under that name."""

    @model_validator(mode="after")
    def _local_proxies_have_an_account(self) -> "WebSection":
        if self.proxy_account is None and any(network.is_loopback for network in self.trusted_proxies):
            raise ValueError("a proxy on this host among trusted_proxies needs proxy_account")
        return self


class MetricsSection(Section):
    """What /metrics shows beside the sums over all jobs."""

    flagged_jobs: int = Field(default=0, ge=0, le=300)
    """So many flags are shown with their job's id and user, each as a time series; 0 shows none. Only to operators:
    Prometheus's account must be one of `web.operators`. Whoever reads Prometheus then reads these names."""
