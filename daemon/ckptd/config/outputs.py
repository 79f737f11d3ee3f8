"""Sections for notifications, actions on jobs, the status page and metrics."""

import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ckptd.config.base import Duration, PartitionPattern, Section
from ckptd.core.notices import parse_address


class MailSection(Section):
    """Mail to users and administrators. Secrets are kept in separate files, never here."""

    mode: Literal["off", "log", "admin", "on"] = "off"
    """`off` sends nothing; `log` only logs what would be sent to whom; `admin` sends everything to `admins`; `on` also
    mails users."""
    sender: str | None = None
    """From address of the mail."""
    recipient: str | None = None
    """A user's address if the job names no valid one with --mail-user, such as "{user}@example.org"."""
    allowed_domains: tuple[str, ...] = ()
    """Mail domains that jobs may name with --mail-user; empty: that of `recipient`; ["*"] allows all."""
    admins: tuple[str, ...] = ()
    """Addresses of the administrators."""
    relays: tuple[str, ...] = ("localhost:25",)
    """SMTP servers as HOST:PORT, tried in this order."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """Encryption of the connection; the server's certificate must be valid for its name."""
    ca_file: Path | None = None
    """CA certificates to trust instead of the system's."""
    username: str | None = None
    """SMTP user name; requires password_file."""
    password_file: Path | None = None
    """File that contains the SMTP password."""
    timeout: Duration = timedelta(seconds=30)
    """Maximum time that a server may take to answer; a message and the answer to it may take four times as long."""
    max_per_minute: int = Field(default=60, ge=1)
    """Maximum number of messages per minute; further ones are delayed."""
    max_per_hour: int = Field(default=500, ge=1)
    """Maximum number of mails to users per hour for the whole site. A fifth of them is for critical flags only. Further
    ones are delayed, and administrators are notified of their number and cause."""
    max_per_user: int = Field(default=20, ge=1)
    """Maximum number of mails per hour because of one user's jobs, whatever addresses they name. Further ones are
    delayed."""
    max_bytes: int = Field(default=100_000, ge=10_000)
    """Maximum size of a message in bytes; a larger one shows fewer flags and only counts the others."""
    max_entries: int = Field(default=20, ge=1)
    """Maximum number of flags in one message; others are only counted."""
    critical_window: Duration = timedelta(minutes=10)
    """How long a critical flag may wait for other flags of the same recipient, to be sent in one message."""
    warning_window: Duration = timedelta(hours=1)
    """The same for a warning."""
    info_window: Duration = timedelta(days=1)
    """The same for an info."""
    repeat_gap: Duration = timedelta(days=7)
    """Minimum time between notifications of the same flag of a run, unless it gets worse."""
    max_repeats: int = Field(default=4, ge=0)
    """Maximum number of reminders for a flag that stays open, one per `repeat_gap`; 0 disables reminders."""
    notify_resolved: bool = True
    """Whether to notify once when a reported flag is resolved."""
    templates: Path | None = None
    """Directory with subject.txt, body.txt or body.html that replace the built-in templates."""

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
                raise ValueError(
                    f"{name} must be shorter than repeat_gap: a reminder would be due before the first notification"
                )
        return self

    @model_validator(mode="after")
    def _secrets_travel_encrypted(self) -> "MailSection":
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file must be set together")
        if self.username is not None and self.security == "none":
            raise ValueError('username needs security = "starttls" or "tls": the password would be sent unencrypted')
        return self

    @field_validator("admins")
    @classmethod
    def _admins_are_addresses(cls, admins: tuple[str, ...]) -> tuple[str, ...]:
        for address in admins:
            if parse_address(address) is None:
                raise ValueError(f"{address!r} is not a mail address; use for example admin@example.org")
        return admins

    @field_validator("allowed_domains")
    @classmethod
    def _allowed_domains_are_domains(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        for domain in domains:
            if domain != "*" and parse_address(f"user@{domain}") is None:
                raise ValueError(f'{domain!r} is not a mail domain; use for example "example.org", or "*" for all')
        return domains

    @field_validator("relays")
    @classmethod
    def _relays_have_ports(cls, relays: tuple[str, ...]) -> tuple[str, ...]:
        if not relays:
            raise ValueError('name at least one server as HOST:PORT; use for example ["localhost:25"]')
        for relay in relays:
            host, _, port = relay.rpartition(":")
            if not _is_host(host) or not re.fullmatch("[0-9]+", port):
                raise ValueError(f'{relay!r} is not of the form HOST:PORT; use for example "smtp.example.org:25"')
            if len(port) > len("65535") or not 0 < int(port) < 2**16:
                raise ValueError(f"{relay!r} has the port {port}; use one from 1 to 65535")
        return relays


def _is_host(text: str) -> bool:
    """Return whether this is a host's name, an IPv4 address, or an IPv6 address in brackets."""
    if text.startswith("[") and text.endswith("]"):
        try:
            IPv6Address(text[1:-1])
        except ValueError:
            return False
        return True
    return re.fullmatch(r"[\w.-]+", text) is not None


class AppriseSection(Section):
    """Chat rooms and webhooks, through Apprise (pip install ckptd[apprise]); independent of mail's mode."""

    urls_file: Path | None = None
    """File with lines `NAME URL`; it is separate because these URLs contain secrets."""
    audience: tuple[Literal["user", "admin"], ...] = Field(default=("admin",), min_length=1)
    """Which flags to send there: those for users, those for administrators, or both."""


class ActionsSection(Section):
    """Actions on jobs. By default ckptd takes none; name the partitions (shell patterns) in which it may."""

    signal: tuple[PartitionPattern, ...] = ()
    """Partitions where ckptd signals jobs that ask for it (`ckpt-signal=B:USR1` in the comment, or `signal` in
    `.ckptd.toml`). It sends the signal when the remaining time just suffices to save, if work would be lost."""
    hold: tuple[PartitionPattern, ...] = ()
    """Partitions where ckptd holds a job in a restart loop; its user is notified and can release it."""
    summary: tuple[PartitionPattern, ...] = ()
    """Partitions where ckptd writes a job's open flags to its AdminComment, unless the site uses that field."""
    resubmit: tuple[PartitionPattern, ...] = ()
    """Partitions where ckptd resubmits timed-out jobs, as their user and with their options, if `.ckptd.toml` sets
    `resubmit = true` and `max_resubmits`, as long as each attempt makes progress."""
    signal_margin: Duration = timedelta(seconds=60)
    """Time reserved for saving in addition to 1.5 times the measured save duration."""
    min_loss: Duration = timedelta(minutes=5)
    """ckptd sends no signal if less work than this would be lost at the time limit."""
    max_resubmits: int = Field(default=10, ge=0)
    """Maximum number of resubmissions of one run; users may set a lower number."""
    max_per_cycle: int = Field(default=20, ge=0)
    """Maximum number of actions in one cycle."""
    max_per_hour: int = Field(default=200, ge=0)
    """Maximum number of actions of each kind per hour; one user gets at most half of what the others left."""


class WebSection(Section):
    """Status page, JSON API and /metrics. Users see their own runs, operators all runs, unknown clients no jobs."""

    listen: str = "127.0.0.1:9478"
    """Address and port to listen on; "" disables all of them."""
    config_file: Path | None = None
    """File with TLS, client certificates and passwords, in the format of Prometheus's exporter-toolkit."""
    operators: tuple[str, ...] = ("root",)
    """Users who may see the runs of all users."""
    local_users: bool = True
    """Identify local clients, including those of ssh port forwarding, by the uid that the kernel reports for their
    connection."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses or networks of reverse proxies that are trusted to name the user."""
    proxy_account: str | None = None
    """Account of a reverse proxy on this host; without it, any local user could pretend to be the proxy."""
    user_header: str = Field(default="X-Remote-User", pattern=r"^[A-Za-z0-9-]+$")
    """Header in which the proxy names the user; the proxy must remove it from clients' requests."""

    @field_validator("listen")
    @classmethod
    def _listen_has_a_port(cls, listen: str) -> str:
        host, _, port = listen.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and int(port) < 2**16
        if listen and not (is_port and (not host or _is_host(host))):
            raise ValueError(f'{listen!r} is not of the form HOST:PORT; use for example "127.0.0.1:9478"')
        return listen

    @model_validator(mode="after")
    def _local_proxies_have_an_account(self) -> "WebSection":
        if self.proxy_account is None and any(network.is_loopback for network in self.trusted_proxies):
            raise ValueError(
                "trusted_proxies contains an address of this host: set proxy_account to the account of that proxy"
            )
        return self


class MetricsSection(Section):
    """Optional metrics in addition to the totals over all jobs."""

    flagged_jobs: int = Field(default=0, ge=0, le=300)
    """Maximum number of open flags exported as separate time series with job id and user; 0 disables them. Only
    operators see them, so Prometheus's account must be in `web.operators`. All users of Prometheus can then see the
    names of these users."""
