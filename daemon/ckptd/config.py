"""Reads the configuration into one frozen value; a wrong file is refused whole, with every error at once."""

import difflib
import inspect
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from ckptd.core import retention
from ckptd.core.health import RULES, Override, Rule
from ckptd.core.model import Level
from ckptd.core.notices import parse_address
from ckptd.core.quantities import DURATION_UNITS, parse_duration, parse_size
from ckptd.errors import CkptdError

TEMPLATE_VARIABLES = dict.fromkeys(
    [
        "work_dir",
        "user",
        "home",
        "account",
        "partition",
        "cluster",
        "job_name",
        "job_id",
        "array_job_id",
        "array_task_id",
    ]
)
_PATTERNS = ("partition", "account", "user", "qos", "job_name", "format")
DEFAULT_PATH = Path("/etc/ckptd/config.toml")
ENVIRONMENT_PREFIX = "CKPTD_"


class ConfigError(CkptdError):
    """The configuration cannot be used; the text lists every error in it."""


Duration = Annotated[timedelta, BeforeValidator(parse_duration), Field(gt=timedelta(0), le=timedelta(days=36_500))]
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


class Section(BaseModel):
    """One table of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class SlurmSection(Section):
    """How ckptd sees the cluster's jobs."""

    source: Literal["auto", "pyslurm", "squeue", "replay"] = "auto"
    """Who is asked: `auto` takes pyslurm where it works, else the `squeue` on PATH."""
    cluster: str | None = None
    """The cluster's name; by default slurm.conf's ClusterName."""
    poll_interval: Duration = timedelta(seconds=60)
    """The queue is read once in this time, with one query."""
    timeout: Duration = timedelta(seconds=30)
    """An answer that takes longer counts as none."""
    replay_path: Path | None = None
    """For `source = "replay"`: a directory of recorded snapshots."""
    read_batch_scripts: bool = False
    """Whether batch scripts may be read, once a job, to find its checkpoint directory."""

    @model_validator(mode="after")
    def _replay_needs_a_path(self) -> "SlurmSection":
        if self.source == "replay" and self.replay_path is None:
            raise ValueError('source = "replay" needs replay_path')
        return self


class StoreSection(Section):
    """Where the record is kept."""

    url: str | None = None
    """An SQLAlchemy address such as postgresql+psycopg://ckptd@db.example.org/ckptd; by default SQLite."""
    password_file: Path | None = None
    """A file that holds the database password, so that it stands in no address."""
    upgrade: Literal["on-start", "refuse"] = "on-start"
    """What the daemon does with a database of an older version."""


class ScanSection(Section):
    """How checkpoint directories are looked at."""

    interval: Duration = timedelta(minutes=5)
    """Each directory of a running job is scanned once in this time; sooner where inotify tells of a change."""
    settle_time: Duration = timedelta(seconds=60)
    """A broken file that changed within this time is taken for one that is still being written."""
    deadline: Duration = timedelta(seconds=60)
    """A directory that takes longer is given up as unknown and tried again later."""
    max_depth: int = Field(default=6, ge=1, le=32)
    """How many levels below the checkpoint directory are read."""
    max_entries: int = Field(default=200_000, ge=1)
    """How many entries of one checkpoint directory are read."""
    discovery_depth: int = Field(default=3, ge=0, le=8)
    """How many levels below the working directory are searched where nobody says where the checkpoints are."""
    discovery_entries: int = Field(default=20_000, ge=1)
    """How many entries such a search reads."""
    allowed_roots: tuple[PurePosixPath, ...] = (PurePosixPath("/"),)
    """Nothing outside these directories is ever looked at, whatever links lead there."""
    inotify: bool = True
    """Whether changes on local file systems are seen as they happen."""


class WatchRule(Section):
    """Where the checkpoints of the jobs that match are; shell patterns. The first directory that exists wins."""

    directory: str
    """May hold {work_dir} {user} {home} {account} {partition} {cluster} {job_name} {job_id} {array_job_id}
    {array_task_id}."""
    partition: str = "*"
    account: str = "*"
    user: str = "*"
    qos: str = "*"
    job_name: str = "*"

    @field_validator("directory")
    @classmethod
    def _variables_are_known(cls, directory: str) -> str:
        for variable in re.findall(r"\{([^{}]*)\}", directory):
            if variable not in TEMPLATE_VARIABLES:
                raise ValueError(f"{{{variable}}} is no variable{_nearest(variable, TEMPLATE_VARIABLES)}")
        return directory


class HealthOverride(Section):
    """Other thresholds for the jobs that match; shell patterns. The first that matches wins, over [health.rules]."""

    partition: str = "*"
    account: str = "*"
    user: str = "*"
    rules: dict[str, Any] = Field(default_factory=dict)

    @field_validator("rules")
    @classmethod
    def _rules_are_known(cls, rules: dict[str, Any]) -> dict[str, Any]:
        build_rules(rules)
        return rules


class HealthSection(Section):
    """When jobs are judged. Each rule has a table [health.rules.NAME] with `enabled` and its thresholds."""

    min_job_duration: Duration = timedelta(minutes=10)
    """Jobs with a shorter time limit are not judged."""
    rules: dict[str, Any] = Field(default_factory=dict)
    override: tuple[HealthOverride, ...] = ()

    @field_validator("rules")
    @classmethod
    def _rules_are_known(cls, rules: dict[str, Any]) -> dict[str, Any]:
        build_rules(rules)
        return rules


class RetentionGuards(Section):
    """When a whole run is left alone. Longer times guard more."""

    stale_after: Duration = timedelta(hours=1)
    """The queue and the directory must have been looked at within this time."""
    restart_grace: Duration = timedelta(minutes=15)
    """An attempt that restarts may load any checkpoint for so long."""
    last_minutes: Duration = timedelta(minutes=10)
    """A job with less time left may be saving for its successor."""
    save_grace: Duration = timedelta(hours=1)
    """A save that was begun and not finished is waited for so long."""
    clock_tolerance: Duration = timedelta(minutes=5)
    """By so much the clocks of hosts and file servers may disagree."""


class RetentionCaps(Section):
    """How much one cycle moves aside, and how many failures it takes to stop."""

    cycle_count: int = Field(default=500, ge=1)
    user_count: int = Field(default=100, ge=1)
    filesystem_count: int = Field(default=250, ge=1)
    filesystem_share: float = Field(default=0.2, gt=0, le=1)
    """Of the checkpoints on one file system; one whole save may always go."""
    error_count: int = Field(default=3, ge=1)
    """So many failed removals of one user stop that user's; of so many users, all."""
    error_window: Duration = timedelta(hours=6)
    """They are stopped until the failures are so long past."""


class RetentionBounds(Section):
    """How much more than the site's policy users may ask to keep, in .ckptd.toml in their working directory."""

    max_count: int = Field(default=100, ge=1)
    """Of last, best and each calendar rule."""
    min_every: int = Field(default=1, ge=1)
    max_within: Duration = timedelta(days=365)
    allow_everything: bool = False
    """Whether keep = "everything" is granted."""


class RetentionPolicy(Section):
    """What is kept of the runs that match, beside the floor; the first policy that matches a run is its policy.

    Each rule is a reason to keep; what none keeps may go.
    """

    name: str
    """In errors, plans and the audit."""
    partition: str = "*"
    account: str = "*"
    user: str = "*"
    qos: str = "*"
    job_name: str = "*"
    format: str = "*"
    """Every checkpoint of the run must match."""
    mode: retention.Mode | None = None
    """"off", "plan" or "enforce"; this and the next two by default as in [retention]."""
    min_age: Duration | None = None
    verify: Literal["structure", "full"] | None = None
    max_total_size: Size | None = None
    """Of one run, such as "500GiB": lets go of the oldest that only `within` or the calendar keeps."""
    last: Any = None
    """The newest so many."""
    best: Any = None
    """So many by the format's own marker, such as 1; or by a metric, such as
    { count = 2, metric = "val_loss", mode = "min" }; or a list of these."""
    every: Any = None
    """The first of every so many: { epochs = 10 } or { steps = 5000 }"""
    within: Any = None
    """What was saved in the last so much time, such as "2d"."""
    hourly: Any = None
    """The newest of each of the last so many hours that have one; so, too, daily, weekly, monthly."""
    daily: Any = None
    weekly: Any = None
    monthly: Any = None
    pinned: Any = None
    """true: what `ckptd pin` was given; it is always kept, this only says so."""


class RetentionSection(Section):
    """What may go. Nothing does without a [[retention.policy]], and then nothing is moved until its mode is enforce."""

    mode: retention.Mode = retention.Mode.PLAN
    """"plan" only shows; "enforce" moves aside and, after the hold, deletes; "off" does neither."""
    hold: Duration = timedelta(days=7)
    """What was moved aside can be brought back for so long."""
    no_room_hold: Duration | None = None
    """The hold where a file system has no room for two more checkpoints; by default the same."""
    min_age: Duration = timedelta(hours=1)
    """Nothing younger ever goes."""
    verify: Literal["structure", "full"] = "structure"
    """How deeply the newest complete checkpoint is checked before anything older goes."""
    verify_deadline: Duration = timedelta(minutes=30)
    """Reading every byte of one checkpoint may take so long."""
    interval: Duration = timedelta(minutes=5)
    """Once in this time it is planned and done."""
    guards: RetentionGuards = RetentionGuards()
    caps: RetentionCaps = RetentionCaps()
    bounds: RetentionBounds = RetentionBounds()
    policy: tuple[RetentionPolicy, ...] = ()

    @model_validator(mode="after")
    def _policies_mean_something(self) -> "RetentionSection":
        build_policies(self)
        return self


def build_policies(section: RetentionSection) -> tuple[retention.PolicyMatch, ...]:
    """Build the site's policies, in their order.

    Raises:
        ValueError: some are empty or contradict themselves; the text names them all.

    """
    errors = [
        f"retention policy {name!r}: there are {count} of this name"
        for name, count in Counter(each.name for each in section.policy).items()
        if count > 1
    ]
    matches: list[retention.PolicyMatch] = []
    for each in section.policy:
        written = {key: value for key in retention.RULE_KEYS if (value := getattr(each, key)) is not None}
        rules, problems = retention.parse_rules(written)
        policy = retention.Policy(
            name=each.name,
            rules=rules,
            max_total_size_bytes=each.max_total_size,
            min_age=each.min_age or section.min_age,
            mode=each.mode or section.mode,
            verify=Level(each.verify or section.verify),
            guards=retention.Guards(**section.guards.model_dump()),
        )
        errors += [f"retention policy {each.name!r}: {problem}" for problem in problems]
        errors += [] if problems else retention.check_policy(policy)
        patterns = {key: getattr(each, key) for key in _PATTERNS}
        matches.append(retention.PolicyMatch(policy=policy, **patterns))
    if errors:
        raise ValueError("; ".join(errors))
    return tuple(matches)


def build_bounds(section: RetentionSection) -> retention.Bounds:
    """Return how far users' wishes go."""
    bounds = section.bounds
    return retention.Bounds(
        max_count=bounds.max_count,
        min_every=bounds.min_every,
        max_within=bounds.max_within,
        is_everything_allowed=bounds.allow_everything,
    )


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
        if self.recipient is None or parse_address(self.recipient.replace("{user}", "user")) is None:
            raise ValueError(f'mode = "{self.mode}" needs recipient, such as "{{user}}@example.org"')
        if self.mode == "admin" and not self.admins:
            raise ValueError('mode = "admin" needs admins')
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
            if not re.fullmatch(r"[^\s:@/]+:[0-9]{1,5}", relay):
                raise ValueError(f"{relay!r} is not of the form HOST:PORT")
        return relays


class AppriseSection(Section):
    """Chat rooms and webhooks, through Apprise (pip install ckptd[apprise]); independent of mail's mode."""

    urls_file: Path | None = None
    """A file of lines `NAME URL`, because such addresses hold secrets."""
    tells: tuple[Literal["user", "admin"], ...] = ("admin",)
    """Which flags the rooms are told of: those for users, those for administrators."""


class ActionsSection(Section):
    """What ckptd may do to jobs before work is lost: nothing, until partitions (shell patterns) are named here."""

    signal: tuple[str, ...] = ()
    """Partitions where a job that declares a signal (`ckpt-signal=B:USR1` in its comment, `signal` in `.ckptd.toml`)
    is sent it once its time is just enough to save, where its limit would take work."""
    hold: tuple[str, ...] = ()
    """Partitions where a job in a restart loop is held; its user can release it."""
    summary: tuple[str, ...] = ()
    """Partitions where a job's open flags are written into its AdminComment, unless the site has written there."""
    resubmit: tuple[str, ...] = ()
    """Partitions where a job that its time limit ended is submitted again, as its user, where `.ckptd.toml` says
    `resubmit = true` and `max_resubmits`, as long as each attempt moves the run on."""
    signal_margin: Duration = timedelta(seconds=60)
    """Time that a save is given beside one and a half times what saves took so far."""
    min_loss: Duration = timedelta(minutes=5)
    """Where the limit would take less than this, no signal is sent."""
    max_resubmits: int = Field(default=10, ge=0)
    """A user may ask for fewer."""
    max_per_cycle: int = Field(default=20, ge=0)
    """Acts in one cycle."""
    max_per_hour: int = Field(default=200, ge=0)
    """Acts within an hour."""


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
    """So many flags are shown with their job's id and user, each as a time series; 0 shows none."""


class ServiceSection(Section):
    """The daemon itself."""

    user: str | None = None
    """Started as root, the main process becomes this user and only the agent keeps the right to become others."""
    state_directory: Path | None = None
    """By default what systemd gives, /var/lib/ckptd for root, ~/.local/state/ckptd for others."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Config(Section):
    slurm: SlurmSection = SlurmSection()
    store: StoreSection = StoreSection()
    scan: ScanSection = ScanSection()
    watch: tuple[WatchRule, ...] = ()
    health: HealthSection = HealthSection()
    retention: RetentionSection = RetentionSection()
    mail: MailSection = MailSection()
    apprise: AppriseSection = AppriseSection()
    actions: ActionsSection = ActionsSection()
    web: WebSection = WebSection()
    metrics: MetricsSection = MetricsSection()
    service: ServiceSection = ServiceSection()

    @property
    def state_directory(self) -> Path:
        """Where SQLite and the heartbeat live: as configured, by systemd, or the user's own."""
        if self.service.state_directory:
            return self.service.state_directory
        if given := os.environ.get("STATE_DIRECTORY"):
            return Path(given.split(":")[0])
        if os.geteuid() == 0:
            return Path("/var/lib/ckptd")
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
        return Path(base) / "ckptd"

    @property
    def database_url(self) -> str:
        return self.store.url or f"sqlite:///{self.state_directory / 'ckptd.sqlite3'}"


def build_rules(tables: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Build the enabled health rules with the site's thresholds.

    Raises:
        ValueError: rules or thresholds that do not exist, or values of the wrong type; the text names them all.

    """
    errors = [f"{name}: there is no such rule{_nearest(name, RULES)}" for name in tables if name not in RULES]
    rules: list[Rule] = []
    for name, kind in RULES.items():
        given = dict(tables.get(name, {}))
        is_enabled = given.pop("enabled", True)
        known = _thresholds(kind)
        errors += [
            f"{name}.{key}: there is no such threshold{_nearest(key, known)}" for key in given if key not in known
        ]
        values = {key: parse_duration(value) for key, value in given.items() if key in known}
        try:
            rule = TypeAdapter(kind).validate_python(values)
        except ValidationError as error:
            errors += [f"{name}.{problem['loc'][0]}: {problem['msg']}" for problem in error.errors()]
        else:
            rules += [rule] if is_enabled else []
    if errors:
        raise ValueError("; ".join(errors))
    return tuple(rules)


def build_overrides(section: HealthSection) -> tuple[Override, ...]:
    """Build the sets of rules for the partitions, accounts and users that have thresholds of their own."""
    return tuple(
        Override(
            partition=each.partition,
            account=each.account,
            user=each.user,
            rules=build_rules(_laid_over(section.rules, each.rules)),
        )
        for each in section.override
    )


def _laid_over(tables: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {**tables.get(name, {}), **others.get(name, {})} for name in {**tables, **others}}


def _thresholds(kind: type[Rule]) -> dict[str, Any]:
    """Return the fields of a rule that a site may set, with their defaults."""
    return {field.name: field.default for field in fields(kind)}


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a configuration came from, for its errors."""

    path: Path | None

    def __str__(self) -> str:
        return str(self.path) if self.path else "the environment"


def read_config(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read the file, then lay the environment's `CKPTD_SECTION__KEY` settings over it.

    With no path the default file is read where there is one; without it the defaults hold.

    Raises:
        ConfigError: the file cannot be read or has errors; the text lists them all.

    """
    chosen = path or (DEFAULT_PATH if DEFAULT_PATH.exists() else None)
    data: dict[str, Any] = {}
    if chosen:
        try:
            data = tomllib.loads(chosen.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{chosen}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{chosen}: {error}") from error
    _overlay(data, environment)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        lines = [f"{_Source(chosen)}: {_describe(problem)}" for problem in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _overlay(data: dict[str, Any], environment: Mapping[str, str]) -> None:
    for variable, value in environment.items():
        section, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not variable.startswith(ENVIRONMENT_PREFIX) or not separator:
            continue
        table = data.setdefault(section, {})
        if isinstance(table, dict):
            table[key] = _value(value)


def _value(text: str) -> object:
    """Read a value as TOML where it is a TOML list, else as the text that it is."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
    return text


def _describe(problem: ErrorDetails) -> str:
    location = problem["loc"]
    key = ".".join(str(part) for part in location)
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such setting{_nearest(str(location[-1]), _known_keys(location[:-1]))}"
    return f"{key}: {message}" if key else message


_RETENTION_TABLES: dict[str, type[Section]] = {
    "guards": RetentionGuards,
    "caps": RetentionCaps,
    "bounds": RetentionBounds,
    "policy": RetentionPolicy,
}


def _known_keys(location: tuple[Any, ...]) -> Mapping[str, object]:
    sections: dict[str, type[Section]] = {
        name: field.annotation
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }
    if not location:
        return Config.model_fields
    if location[:2] == ("health", "override"):
        return HealthOverride.model_fields
    if location[0] == "retention" and len(location) > 1:
        return _RETENTION_TABLES[str(location[1])].model_fields
    kind = WatchRule if location[0] == "watch" else sections.get(str(location[0]))
    return kind.model_fields if kind else {}


def _nearest(name: str, known: Mapping[str, object]) -> str:
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""


def format_example() -> str:
    """Return a configuration file that says of every setting what it means and what holds without it."""
    blocks = ["# ckptd's configuration. Every setting is optional; what is shown behind # is in force without it.\n"]
    for name, field in Config.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            blocks.append(f"# {kind.__doc__}\n[{name}]\n" + "".join(_example_lines(kind)))
    blocks.append(f"# {WatchRule.__doc__}\n# [[watch]]\n" + "".join(_example_lines(WatchRule)))
    blocks.append(f"# {HealthOverride.__doc__}\n# [[health.override]]\n" + "".join(_example_lines(HealthOverride)))
    for key, table in _RETENTION_TABLES.items():
        heading = f"[[retention.{key}]]" if key == "policy" else f"[retention.{key}]"
        told = "".join(f"# {line}\n" for line in inspect.cleandoc(table.__doc__ or "").splitlines() if line)
        blocks.append(f"{told}# {heading}\n" + "".join(_example_lines(table)))
    for name, rule in RULES.items():
        lines = [f"# {key} = {_toml(default)}\n" for key, default in _thresholds(rule).items()]
        blocks.append(f"# {(rule.__doc__ or '').splitlines()[0]}\n# [health.rules.{name}]\n" + "".join(lines))
    return "\n".join(blocks)


_SHOWN = {"directory": '"/scratch/{user}/{job_name}/checkpoints"', "name": '"training"', "last": "3"}  # for no default


def _example_lines(kind: type[Section]) -> list[str]:
    lines: list[str] = []
    for key, field in kind.model_fields.items():
        if field.description:
            lines.extend(f"# {line}\n" for line in field.description.splitlines())
        if key in {"rules", "override"} or (kind is RetentionSection and key in _RETENTION_TABLES):
            continue
        default = (
            _SHOWN[key] if key in _SHOWN and (field.is_required() or field.default is None) else _toml(field.default)
        )
        lines.append(f"# {key} = {default}\n")
    return lines


def _toml(value: object) -> str:
    if value is None:
        return "(unset)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return f'"{_format_duration(value)}"'
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return f'"{value}"'


def _format_duration(value: timedelta) -> str:
    seconds = value.total_seconds()
    for unit, size in reversed(DURATION_UNITS.items()):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
