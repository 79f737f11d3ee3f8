"""Section for the health rules, and the rules built with the site's thresholds."""

import functools
import math
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from ckptd.config.base import NOT_A_DURATION, Duration, Pattern, Section, describe_problem, find_switch
from ckptd.core.forecast.limit_margins import FindMargins
from ckptd.core.health import RULES, Override, Rule, find_margins
from ckptd.core.text.quantities import parse_duration
from ckptd.core.text.similar_names import nearest

_ACCOUNTS = "service_uids"  # the threshold that holds accounts, by name or number


class HealthOverride(Section):
    """Different thresholds for jobs that match these shell patterns. The first match wins over [health.rules]."""

    partition: Pattern = "*"
    account: str = "*"
    user: Pattern = "*"
    rules: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _rules_are_in_their_table(cls, given: object) -> object:
        for name in given if isinstance(given, dict) else ():
            if name in RULES:
                raise ValueError(f"{name}: use the table [health.override.rules.{name}]")
        return given

    @field_validator("rules")
    @classmethod
    def _rules_are_known(cls, rules: dict[str, Any]) -> dict[str, Any]:
        build_rules(rules)
        return rules


class HealthSection(Section):
    """Health rules. Each rule has a table [health.rules.NAME] with `enabled` and its thresholds."""

    min_job_duration: Duration = timedelta(minutes=10)
    """The rules skip jobs with a shorter time limit."""
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
        ValueError: unknown rules or thresholds, or values of the wrong type; the text lists all errors.

    """
    errors = [f"{name}: unknown rule{nearest(name, RULES)}" for name in tables if name not in RULES]
    rules: list[Rule] = []
    for name, kind in RULES.items():
        table = tables.get(name, {})
        if not isinstance(table, Mapping):
            errors.append(f"{name}: {table!r} is not a table; use for example {name} = {{ enabled = false }}")
            continue
        given = dict(table)
        is_enabled = given.pop("enabled", True)
        if not isinstance(is_enabled, bool):
            errors.append(f"{name}.enabled: {is_enabled!r} is not a boolean; use true or false")
        known = list_thresholds(kind)
        errors += [f"{name}.{key}: unknown threshold{nearest(key, known)}" for key in given if key not in known]
        values = {key: parse_duration(value) for key, value in given.items() if key in known}
        misfits = [f"{name}.{problem}" for problem in _find_misfits(values, known)]
        if misfits:
            errors += misfits
            continue
        try:
            values |= {key: _find_uids(value) for key, value in values.items() if key == _ACCOUNTS}
            rule = _get_adapter(kind).validate_python(values)
            errors += [f"{name}.{problem}" for problem in _find_excesses(rule)]
        except ValidationError as error:
            errors += [f"{name}.{problem['loc'][0]}: {describe_problem(problem)}" for problem in error.errors()]
        except _UnknownAccountError as error:
            errors.append(f"{name}.{error}")
        else:
            rules += [rule] if is_enabled else []
    if errors:
        raise ValueError("; ".join(errors))
    return tuple(rules)


@functools.cache
def _get_adapter(kind: type[Rule]) -> TypeAdapter[Rule]:
    """Return what validates a rule's thresholds: to make it costs more than all else that a rule is built with."""
    return TypeAdapter(kind)


def _find_misfits(given: Mapping[str, object], known: Mapping[str, object]) -> Iterator[str]:
    """Yield an error for each value that the threshold's type would accept with an unintended meaning."""
    for key, value in given.items():
        if isinstance(known[key], timedelta) and isinstance(value, (int, float)):
            yield f"{key}: {value!r} {NOT_A_DURATION}"
        elif not isinstance(known[key], bool) and (problem := find_switch(value)):
            yield f"{key}: {problem}"


def _find_excesses(rule: Rule) -> Iterator[str]:
    """Yield an error for each threshold out of bounds; `bounded` documents the default bounds."""
    for field in fields(rule):
        value = getattr(rule, field.name)
        if isinstance(value, timedelta):
            if value < timedelta(0):
                yield f"{field.name}: a duration cannot be negative"
        elif isinstance(value, (int, float)):
            least, most = field.metadata.get("least"), field.metadata.get("most")
            if not math.isfinite(value):
                yield f"{field.name}: {value} is not a finite number"
            elif least is None and (value < 1 if isinstance(value, int) else value <= 0):
                yield f"{field.name}: must be {'at least 1' if isinstance(value, int) else 'above 0'}, not {value}"
            elif (least is not None and value < least) or (most is not None and value > most):
                wanted = f"at least {least}" if most is None else f"{least} to {most}"
                yield f"{field.name}: must be {wanted}, not {value}"


class _UnknownAccountError(ValueError):
    """A threshold names an account that this host does not know."""


def _find_uids(given: object) -> object:
    """Replace account names in a list by uids; uids need no account on this host."""
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
    """Build the rule sets for partitions, accounts and users with their own thresholds."""
    return tuple(
        Override(
            partition=each.partition,
            account=each.account,
            user=each.user,
            rules=build_rules(_laid_over(section.rules, each.rules)),
        )
        for each in section.override
    )


def build_find_margins(section: HealthSection) -> FindMargins:
    """Return what finds the margins that the rules of a run keep before a time limit."""
    return functools.partial(find_margins, rules=build_rules(section.rules), overrides=build_overrides(section))


def _laid_over(tables: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {**tables.get(name, {}), **others.get(name, {})} for name in {**tables, **others}}


def list_thresholds(kind: type[Rule]) -> dict[str, Any]:
    """Return the fields of a rule that a site may set, with their defaults."""
    return {field.name: field.default for field in fields(kind)}
