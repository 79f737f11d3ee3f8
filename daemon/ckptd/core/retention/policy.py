"""Defines retention policies: what a site keeps, the errors in a policy, and the bounds of user settings."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from ckptd.core.model import Level, Role
from ckptd.core.retention import file_patterns
from ckptd.core.retention.rules import (
    KeepBest,
    KeepCalendar,
    KeepEvery,
    KeepEverything,
    KeepLast,
    KeepPinned,
    KeepRule,
    KeepWithin,
)
from ckptd.core.text.quantities import format_duration


class PolicyMode(StrEnum):
    """Mode of a policy: off, plan only, or enforce."""

    OFF = "off"
    PLAN = "plan"
    ENFORCE = "enforce"


@dataclass(frozen=True, kw_only=True, slots=True)
class Guards:
    """Conditions under which a whole run is skipped. Longer times are safer."""

    stale_after: timedelta = timedelta(hours=1)  # maximum age of the last poll and of the last scan
    restart_grace: timedelta = timedelta(minutes=15)  # an attempt that restarts is loading for so long
    last_minutes: timedelta = timedelta(minutes=10)  # time left below which a job may be saving for its successor
    save_grace: timedelta = timedelta(hours=1)  # an unfinished save is someone's work for so long
    clock_tolerance: timedelta = timedelta(minutes=5)  # by which hosts' and file servers' clocks may disagree


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What a policy keeps of each run that it applies to, in addition to the floor."""

    name: str
    rules: tuple[KeepRule, ...]
    user_rules: tuple[KeepRule, ...] = ()  # the user's own, beside the site's and outside its size limit
    max_total_size_bytes: int | None = None  # of one run
    min_age: timedelta = timedelta(hours=1)
    mode: PolicyMode = PolicyMode.PLAN
    verify: Level = Level.STRUCTURE  # how deeply the newest complete one must be checked before anything older goes
    verify_age: timedelta = timedelta(days=1)  # a verdict that is older counts for nothing
    roles: frozenset[Role] = frozenset({Role.STATE})  # what may go at all
    formats: tuple[str, ...] = ()  # shell patterns, one of which the format of every part matches; empty: all formats
    prune_files: tuple[str, ...] = ()  # patterns of files that may go whatever their role
    guards: Guards = field(default_factory=Guards)


def check_policy(policy: Policy) -> tuple[str, ...]:
    """Return a sentence, naming the policy, for everything that makes it empty or contradict itself."""
    return tuple(f"retention policy {policy.name!r}: {problem}" for problem in _problems(policy))


def _problems(policy: Policy) -> Iterator[str]:
    if not any(not isinstance(rule, KeepPinned) for rule in policy.rules):
        yield "it has no rule that keeps anything of every run; add for example last = 3"
    for rule in policy.rules:
        yield from rule.problems()
    for key, count in Counter(rule.key for rule in policy.rules).items():
        if count > 1:
            yield f"{key!r} is given {count} times; only one can be meant"
    yield from _time_problems(policy)
    yield from _size_problems(policy)
    if policy.verify is Level.LISTED:
        yield "verify = 'listed' checks nothing; use 'structure' or 'full'"
    for role in sorted(policy.roles & {Role.DATA, Role.PART}):
        yield f"roles: {role.value} is never pruned for its role; name its files with prune_files"
    yield from file_patterns.parse_patterns(policy.prune_files)[1]


def _time_problems(policy: Policy) -> Iterator[str]:
    if policy.min_age <= timedelta(0):
        yield f"min_age must be positive, not {format_duration(policy.min_age)}"
    if policy.verify_age <= timedelta(0):
        yield f"verify_age must be positive, not {format_duration(policy.verify_age)}"
    for rule in policy.rules:
        if isinstance(rule, KeepWithin) and timedelta(0) < rule.duration <= policy.min_age:
            within, min_age = format_duration(rule.duration), format_duration(policy.min_age)
            yield f"within {within} keeps nothing that min_age {min_age} does not keep already"
    for name, duration in asdict(policy.guards).items():
        if duration < timedelta(0):
            yield f"{name} must not be negative"


def _size_problems(policy: Policy) -> Iterator[str]:
    if policy.max_total_size_bytes is None:
        return
    if policy.max_total_size_bytes <= 0:
        yield f"max_total_size must be positive, not {policy.max_total_size_bytes}"
    if any(isinstance(rule, KeepEverything) for rule in policy.rules):
        yield "max_total_size contradicts keep = 'everything'"
    elif not any(rule.is_soft for rule in policy.rules):
        yield "max_total_size removes only what `within` or the calendar keeps, and the policy has neither"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """How much more than the site's policy a user may ask to keep in their own directories."""

    max_count: int = 100  # of `last`, `best` and each calendar rule
    min_every: int = 1  # the closest that `every` may be
    max_within: timedelta = timedelta(days=365)
    is_everything_allowed: bool = False


def apply_user_rules(
    policy: Policy, user_rules: tuple[KeepRule, ...], bounds: Bounds
) -> tuple[Policy, tuple[str, ...]]:
    """Return the policy with a user's rules added, and a sentence for each rule that was reduced or rejected.

    A rule beyond the bounds applies as far as they allow, because a user who asks for too much does not want nothing.
    Rules only add reasons to keep, so no user setting makes ckptd remove more. Checkpoints that only a user's rule
    keeps do not count towards the site's size limit and are not removed by it.
    """
    granted: list[KeepRule] = []
    applied: list[str] = []
    for rule in user_rules:
        if problems := tuple(rule.problems()):
            applied.extend(problems)
            continue
        allowed, reason = _limit(rule, bounds)
        if allowed not in granted:
            granted.append(allowed)
        if reason:
            applied.append(reason)
    return replace(policy, user_rules=(*policy.user_rules, *granted)), tuple(applied)


def _limit(rule: KeepRule, bounds: Bounds) -> tuple[KeepRule, str | None]:
    """Return a user's rule limited by the bounds, and why it was limited."""
    if isinstance(rule, KeepEverything) and not bounds.is_everything_allowed and not rule.because:
        reason = f"everything: this site allows no more than last = {bounds.max_count}"
        return KeepLast(bounds.max_count), reason
    if isinstance(rule, KeepWithin) and rule.duration > bounds.max_within:
        return KeepWithin(bounds.max_within), f"within: this site allows at most {bounds.max_within}"
    if isinstance(rule, KeepEvery) and rule.n < bounds.min_every:
        reason = f"{rule.key}: this site allows at closest every {bounds.min_every}, not {rule.n}"
        return replace(rule, n=bounds.min_every), reason
    if isinstance(rule, KeepLast | KeepBest | KeepCalendar) and rule.n > bounds.max_count:
        return replace(
            rule, n=bounds.max_count
        ), f"{rule.key}: this site allows at most {bounds.max_count}, not {rule.n}"
    return rule, None
