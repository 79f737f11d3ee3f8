"""When runs are judged, and the rules built with the site's thresholds."""

import math
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from ckptd.config.base import A_DURATION, Duration, Pattern, Section, find_switch, word_problem
from ckptd.core.health import RULES, Override, Rule
from ckptd.core.text.formatting import nearest
from ckptd.core.text.quantities import parse_duration

_ACCOUNTS = "service_uids"  # the threshold that holds accounts, by name or number


class HealthOverride(Section):
    """Other thresholds for the jobs that match; shell patterns. The first that matches wins, over [health.rules]."""

    partition: Pattern = "*"
    account: str = "*"
    user: Pattern = "*"
    rules: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _rules_are_in_their_table(cls, given: object) -> object:
        for name in given if isinstance(given, dict) else ():
            if name in RULES:
                raise ValueError(f"{name}: write [health.override.rules.{name}]")
        return given

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
        table = tables.get(name, {})
        if not isinstance(table, Mapping):
            errors.append(f"{name}: a rule is a table, such as {name} = {{ enabled = false }}, not {table!r}")
            continue
        given = dict(table)
        is_enabled = given.pop("enabled", True)
        if not isinstance(is_enabled, bool):
            errors.append(f"{name}.enabled: true or false, not {is_enabled!r}")
        known = list_thresholds(kind)
        errors += [
            f"{name}.{key}: there is no such threshold{nearest(key, known)}" for key in given if key not in known
        ]
        values = {key: parse_duration(value) for key, value in given.items() if key in known}
        misfits = [f"{name}.{problem}" for problem in _find_misfits(values, known)]
        if misfits:
            errors += misfits
            continue
        try:
            values |= {key: _find_uids(value) for key, value in values.items() if key == _ACCOUNTS}
            rule = TypeAdapter(kind).validate_python(values)
            errors += [f"{name}.{problem}" for problem in _find_excesses(rule)]
        except ValidationError as error:
            errors += [f"{name}.{problem['loc'][0]}: {word_problem(problem)}" for problem in error.errors()]
        except _UnknownAccountError as error:
            errors.append(f"{name}.{error}")
        else:
            rules += [rule] if is_enabled else []
    if errors:
        raise ValueError("; ".join(errors))
    return tuple(rules)


def _find_misfits(given: Mapping[str, object], known: Mapping[str, object]) -> Iterator[str]:
    """Say which values the type of their threshold would take for something that nobody meant."""
    for key, value in given.items():
        if isinstance(known[key], timedelta) and isinstance(value, (int, float)):
            yield f"{key}: {A_DURATION}, not {value!r}"
        elif not isinstance(known[key], bool) and (problem := find_switch(value)):
            yield f"{key}: {problem}"


def _find_excesses(rule: Rule) -> Iterator[str]:
    """Say which thresholds are out of bounds; see `bounded` for those that name none."""
    for field in fields(rule):
        value = getattr(rule, field.name)
        if isinstance(value, timedelta):
            if value < timedelta(0):
                yield f"{field.name}: a duration cannot be negative"
        elif isinstance(value, (int, float)):
            least, most = field.metadata.get("least"), field.metadata.get("most")
            if not math.isfinite(value):
                yield f"{field.name}: {value} is no number to compare with"
            elif least is None and (value < 1 if isinstance(value, int) else value <= 0):
                yield f"{field.name}: must be {'at least 1' if isinstance(value, int) else 'above 0'}, not {value}"
            elif (least is not None and value < least) or (most is not None and value > most):
                wanted = f"at least {least}" if most is None else f"{least} to {most}"
                yield f"{field.name}: must be {wanted}, not {value}"


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
