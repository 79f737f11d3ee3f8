"""What may be pruned, and the policies built from it."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field, model_validator

from ckptd.config.base import PATTERNS, Duration, Pattern, Section, Size
from ckptd.core import retention
from ckptd.core.model import Level, Role
from ckptd.core.text.formatting import nearest


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
    """Checkpoints in all; each counts once, however many files it has. The next two: of a user, of a file system."""
    user_count: int = Field(default=100, ge=1)
    filesystem_count: int = Field(default=250, ge=1)
    filesystem_share: float = Field(default=0.2, gt=0, le=1)
    """Of the checkpoints on one file system; one may always go."""
    user_files: int = Field(default=100_000, ge=1)
    """Member files of one user's checkpoints; one checkpoint may always go, however many files it has."""
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

    name: str = Field(min_length=1)
    """In errors, plans and the audit."""
    partition: Pattern = "*"
    account: str = "*"
    user: Pattern = "*"
    qos: str = "*"
    job_name: Pattern = "*"
    format: Pattern = "*"
    """Every checkpoint of the run must match."""
    roles: tuple[Literal["state", "weights"], ...] = ("state",)
    """What may go at all: "state", a resumable state; "weights", only in a series whose number follows a word
    such as `epoch` or `step`. Data never goes for its role."""
    formats: tuple[Pattern, ...] = ()
    """Of these formats alone, such as ["lightning", "torch*"]; by default of all."""
    prune_files: tuple[str, ...] = ()
    """Files that may go whatever their role, such as ["samples/*.npz", "**/*.tmp"]: patterns of the path below the
    run's directory or of the base name. Users add their own with prune_files in .ckptd.toml."""
    mode: retention.Mode | None = None
    """"off", "plan" or "enforce"; this and the next three by default as in [retention]."""
    min_age: Duration | None = None
    verify: Literal["structure", "full"] | None = None
    verify_age: Duration | None = None
    max_total_size: Size | None = None
    """Of one run, such as "500GiB": lets go of the oldest that only `within` or the calendar keeps."""
    last: Any = None
    """The newest so many of every series. All rules count in each series on its own."""
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
    verify_age: Duration = timedelta(days=1)
    """A check that is older counts for nothing: the newest complete checkpoint is read again first."""
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
        if self.no_room_hold is not None and self.no_room_hold > self.hold:
            raise ValueError(f"no_room_hold: {self.no_room_hold} is longer than hold, {self.hold}")
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
    """Return a sentence for each policy that no run could have, because one before it matches all that it does."""
    found = []
    for index, match in enumerate(matches):
        wider = next((other for other in matches[:index] if _covers(other, match)), None)
        if wider is not None:
            found.append(
                f"retention policy {match.policy.name!r}: it is for no run, because {wider.policy.name!r}, which is "
                "before it, matches all that it does: write it first"
            )
    return found


def _covers(wide: retention.PolicyMatch, narrow: retention.PolicyMatch) -> bool:
    return all(_is_wider(getattr(wide, key), getattr(narrow, key)) for key in PATTERNS)


def _is_wider(wide: str, narrow: str) -> bool:
    """Whether a shell pattern certainly matches whatever the other one does."""
    if wide in {narrow, "*"}:
        return True
    begin, star, end = wide.partition("*")
    if star and not end and not set("?[") & set(begin) and narrow.startswith(begin):
        return True
    return not set("*?[") & set(narrow) and fnmatchcase(narrow, wide)


def list_unknown_formats(section: RetentionSection, known: Collection[str]) -> list[str]:
    """Return a sentence, with its key, for each pattern of formats that matches none of the known ones."""
    written = [
        (f"retention.policy.{number}.{key}", pattern)
        for number, each in enumerate(section.policy)
        for key, patterns in (("format", (each.format,)), ("formats", each.formats))
        for pattern in patterns
    ]
    return [
        f"{key}: {pattern!r} matches no format that ckptd knows"
        + (nearest(pattern, known) or f"; there are {', '.join(sorted(known))}")
        for key, pattern in written
        if not any(fnmatchcase(name, pattern) for name in known)
    ]


def build_bounds(section: RetentionSection) -> retention.Bounds:
    """Return how far users' wishes go."""
    bounds = section.bounds
    return retention.Bounds(
        max_count=bounds.max_count,
        min_every=bounds.min_every,
        max_within=bounds.max_within,
        is_everything_allowed=bounds.allow_everything,
    )
