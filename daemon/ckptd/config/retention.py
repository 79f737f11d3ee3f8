"""Section for retention, and the policies built from it."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field, model_validator

from ckptd.config.base import PATTERNS, Duration, Pattern, Section, Size
from ckptd.core import retention
from ckptd.core.model import Level, Role
from ckptd.core.text.quantities import format_duration
from ckptd.core.text.similar_names import nearest


class RetentionGuards(Section):
    """Conditions under which pruning skips a whole run. Longer times are safer."""

    stale_after: Duration = timedelta(hours=1)
    """Skip runs unless the queue was polled and the directory scanned within this time."""
    restart_grace: Duration = timedelta(minutes=15)
    """Skip runs whose attempt restarted within this time: it may be loading any checkpoint."""
    last_minutes: Duration = timedelta(minutes=10)
    """Skip runs with a job that has less time left: it may be saving for its successor."""
    save_grace: Duration = timedelta(hours=1)
    """Skip runs whose last save is unfinished and younger than this."""
    clock_tolerance: Duration = timedelta(minutes=5)
    """Maximum difference between the clocks of hosts and file servers."""


class RetentionCaps(Section):
    """Maximum removals in one cycle, and the circuit breaker that stops after failures."""

    cycle_count: int = Field(default=500, ge=1)
    """Checkpoints in total; each counts once, regardless of its number of files."""
    user_count: int = Field(default=100, ge=1)
    """Checkpoints of one user."""
    filesystem_count: int = Field(default=250, ge=1)
    """Checkpoints on one file system."""
    filesystem_share: float = Field(default=0.2, gt=0, le=1)
    """Share of the checkpoints on one file system; at least one may always be removed."""
    user_files: int = Field(default=100_000, ge=1)
    """Files of one user's checkpoints; one checkpoint may always be removed, regardless of its number of files."""
    error_count: int = Field(default=3, ge=1)
    """Stop a user's removals after this many failed ones; stop all removals if they fail for this many users."""
    error_window: Duration = timedelta(hours=6)
    """Resume removals when the failures are older than this."""


class RetentionBounds(Section):
    """How much more than the site's policy users may keep with .ckptd.toml in their working directory."""

    max_count: int = Field(default=100, ge=1)
    """Maximum N of the rules `last` and `best` and of each calendar rule."""
    min_every: int = Field(default=1, ge=1)
    """Minimum N of the rule `every`."""
    max_within: Duration = timedelta(days=365)
    """Maximum duration of the rule `within`."""
    allow_everything: bool = False
    """Whether users may set keep = "everything"."""


class RetentionPolicy(Section):
    """Which checkpoints to keep, besides the floor (docs/retention.md). The first policy that matches a run applies.

    Each rule is a reason to keep a checkpoint; checkpoints that no rule keeps are removed.
    """

    name: str = Field(min_length=1)
    """Name shown in errors, plans and the audit log."""
    partition: Pattern = "*"
    account: str = "*"
    user: Pattern = "*"
    qos: str = "*"
    job_name: Pattern = "*"
    format: Pattern = "*"
    """Every checkpoint of the run must match."""
    roles: tuple[Literal["state", "weights"], ...] = ("state",)
    """Roles that may be removed: "state" is a resumable state; "weights" only in a series whose number follows a word
    such as `epoch` or `step`. Data is never removed because of its role."""
    formats: tuple[Pattern, ...] = ()
    """Formats that may be removed, such as ["lightning", "torch*"]; by default all."""
    prune_files: tuple[str, ...] = ()
    """Files that may be removed regardless of their role, such as ["samples/*.npz", "**/*.tmp"]: patterns of the path
    below the run's directory or of the base name. Users can add more with prune_files in .ckptd.toml."""
    mode: retention.PolicyMode | None = None
    """"off", "plan" or "enforce". The defaults of this and the next three settings are those of [retention]."""
    min_age: Duration | None = None
    verify: Literal["structure", "full"] | None = None
    verify_age: Duration | None = None
    max_total_size: Size | None = None
    """Maximum size of one run, such as "500GiB": above it, ckptd removes the oldest checkpoints that only `within` or
    the calendar keeps."""
    last: Any = None
    """Keep the newest N of every series, such as 3. All rules count in each series separately."""
    best: Any = None
    """Keep the best N by the framework's mark, such as 1; or by a metric, such as
    { count = 2, metric = "val_loss", mode = "min" }; or a list of these."""
    every: Any = None
    """Keep the first of every N epochs or steps: { epochs = 10 } or { steps = 5000 }"""
    within: Any = None
    """Keep checkpoints saved within this time, such as "2d"."""
    hourly: Any = None
    """Keep the newest of each of the last N hours that have one; daily, weekly and monthly work likewise."""
    daily: Any = None
    weekly: Any = None
    monthly: Any = None
    pinned: Any = None
    """Pinned checkpoints are always kept, with or without pinned = true."""


class RetentionSection(Section):
    """Pruning of old checkpoints. Without a [[retention.policy]] of mode "enforce", ckptd removes nothing."""

    mode: retention.PolicyMode = retention.PolicyMode.PLAN
    """"plan" only shows what would be removed; "enforce" moves it to the trash and deletes it after the hold; "off"
    does neither."""
    hold: Duration = timedelta(days=7)
    """How long checkpoints in the trash can be restored before ckptd deletes them."""
    no_room_hold: Duration | None = None
    """The hold on a file system without free space for two more checkpoints; by default the same as hold."""
    min_age: Duration = timedelta(hours=1)
    """Never remove checkpoints younger than this."""
    verify: Literal["structure", "full"] = "structure"
    """How thoroughly to verify the newest complete checkpoint before removing older ones."""
    verify_age: Duration = timedelta(days=1)
    """Verify the newest complete checkpoint again if its last verification is older than this."""
    verify_deadline: Duration = timedelta(minutes=30)
    """Maximum time to read every byte of one checkpoint."""
    interval: Duration = timedelta(minutes=5)
    """Time between pruning steps."""
    guards: RetentionGuards = RetentionGuards()
    caps: RetentionCaps = RetentionCaps()
    bounds: RetentionBounds = RetentionBounds()
    policy: tuple[RetentionPolicy, ...] = ()

    @model_validator(mode="after")
    def _policies_mean_something(self) -> "RetentionSection":
        if self.no_room_hold is not None and self.no_room_hold > self.hold:
            raise ValueError(
                f"no_room_hold: {format_duration(self.no_room_hold)} is longer than hold, {format_duration(self.hold)}"
            )
        build_policies(self)
        return self


RETENTION_TABLES: dict[str, type[Section]] = {
    "guards": RetentionGuards,
    "caps": RetentionCaps,
    "bounds": RetentionBounds,
    "policy": RetentionPolicy,
}


def build_policies(section: RetentionSection) -> tuple[retention.PolicyMatch, ...]:
    """Build the site's policies, in their order.

    Raises:
        ValueError: some are empty or contradictory; the text lists all errors.

    """
    errors = [
        f"retention policy {name!r}: {count} policies have this name"
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
            verify_age=each.verify_age or section.verify_age,
            roles=frozenset(map(Role, each.roles)),
            formats=each.formats,
            prune_files=each.prune_files,
            guards=retention.Guards(**section.guards.model_dump()),
        )
        errors += [f"retention policy {each.name!r}: {problem}" for problem in problems]
        errors += [] if problems else retention.check_policy(policy)
        patterns = {key: getattr(each, key) for key in PATTERNS}
        matches.append(retention.PolicyMatch(policy=policy, **patterns))
    if errors := errors or _list_shadowed(matches):
        raise ValueError("; ".join(errors))
    return tuple(matches)


def _list_shadowed(matches: Sequence[retention.PolicyMatch]) -> list[str]:
    """Return an error for each policy that can never apply because an earlier one matches all of its runs."""
    found = []
    for index, match in enumerate(matches):
        wider = next((other for other in matches[:index] if _covers(other, match)), None)
        if wider is not None:
            found.append(
                f"retention policy {match.policy.name!r} never applies, because the earlier policy "
                f"{wider.policy.name!r} matches all of its runs; move it before that one"
            )
    return found


def _covers(wide: retention.PolicyMatch, narrow: retention.PolicyMatch) -> bool:
    return all(_is_wider(getattr(wide, key), getattr(narrow, key)) for key in PATTERNS)


def _is_wider(wide: str, narrow: str) -> bool:
    """Return whether a shell pattern certainly matches everything that the other one matches."""
    if wide in {narrow, "*"}:
        return True
    begin, star, end = wide.partition("*")
    if star and not end and not set("?[") & set(begin) and narrow.startswith(begin):
        return True
    return not set("*?[") & set(narrow) and fnmatchcase(narrow, wide)


def list_unknown_formats(section: RetentionSection, known: Collection[str]) -> list[str]:
    """Return an error, with its key, for each format pattern that matches no known format."""
    written = [
        (f"retention.policy.{number}.{key}", pattern)
        for number, each in enumerate(section.policy)
        for key, patterns in (("format", (each.format,)), ("formats", each.formats))
        for pattern in patterns
    ]
    return [
        f"{key}: {pattern!r} matches no known format"
        + (nearest(pattern, known) or f"; known are {', '.join(sorted(known))}")
        for key, pattern in written
        if not any(fnmatchcase(name, pattern) for name in known)
    ]


def build_bounds(section: RetentionSection) -> retention.Bounds:
    """Build the bounds of user settings."""
    bounds = section.bounds
    return retention.Bounds(
        max_count=bounds.max_count,
        min_every=bounds.min_every,
        max_within=bounds.max_within,
        is_everything_allowed=bounds.allow_everything,
    )
