"""When runs are judged, and the rules built with the site's thresholds."""

import pwd
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from ckptd.config.base import Duration, Section, nearest
from ckptd.core.health import RULES, Override, Rule
from ckptd.core.quantities import parse_duration

_ACCOUNTS = "service_uids"  # the threshold that holds accounts, by name or number


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


def build_rules(tables: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Build the enabled health rules with the site's thresholds.

    Raises:
        ValueError: rules or thresholds that do not exist, or values of the wrong type; the text names them all.

    """
    errors = [f"{name}: there is no such rule{nearest(name, RULES)}" for name in tables if name not in RULES]
    rules: list[Rule] = []
    for name, kind in RULES.items():
        given = dict(tables.get(name, {}))
        is_enabled = given.pop("enabled", True)
        known = list_thresholds(kind)
        errors += [
            f"{name}.{key}: there is no such threshold{nearest(key, known)}" for key in given if key not in known
        ]
        values = {key: parse_duration(value) for key, value in given.items() if key in known}
        try:
            values |= {key: _find_uids(value) for key, value in values.items() if key == _ACCOUNTS}
            rule = TypeAdapter(kind).validate_python(values)
        except ValidationError as error:
            errors += [f"{name}.{problem['loc'][0]}: {problem['msg']}" for problem in error.errors()]
        except _UnknownAccountError as error:
            errors.append(f"{name}.{error}")
        else:
            rules += [rule] if is_enabled else []
    if errors:
        raise ValueError("; ".join(errors))
    return tuple(rules)


class _UnknownAccountError(ValueError):
    """A threshold names an account that this host does not know."""


def _find_uids(given: object) -> object:
    """Return a list with the numbers of the accounts that are named in it; numbers need no account on this host."""
    if not isinstance(given, (list, tuple)):
        return given
    return [_find_uid(each) if isinstance(each, str) else each for each in given]


def _find_uid(name: str) -> int:
    if re.fullmatch("[0-9]+", name):
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError) as error:
        raise _UnknownAccountError(f"{_ACCOUNTS}: there is no account {name!r} on this host") from error


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


def list_thresholds(kind: type[Rule]) -> dict[str, Any]:
    """Return the fields of a rule that a site may set, with their defaults."""
    return {field.name: field.default for field in fields(kind)}
