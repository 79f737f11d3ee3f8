"""Parses the keep rules of sites and users. Users' input is hostile; everything that cannot be parsed is reported."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from ckptd.core.retention import file_patterns
from ckptd.core.retention.rules import (
    CALENDAR_PERIODS,
    KeepBest,
    KeepCalendar,
    KeepEvery,
    KeepEverything,
    KeepLast,
    KeepPinned,
    KeepRule,
    KeepWithin,
)
from ckptd.core.text.quantities import parse_duration

RULE_KEYS = ("last", "best", "every", "within", *CALENDAR_PERIODS, "pinned")
KEYS_ABOUT_KEEPING = frozenset({"keep", "retention", file_patterns.KEY, *RULE_KEYS})
MAX_FILES = 20  # of one run that are heard
_MANY = "/*"  # stands for all further ones
_LONGEST = timedelta(days=36_500)  # an instant so long ago can still be represented
_UNITS = ("epochs", "steps")


class _WordingError(ValueError):
    """The text is not a rule; the message shows a valid one."""


def parse_rules(table: Mapping[str, Any]) -> tuple[tuple[KeepRule, ...], tuple[str, ...]]:
    """Return the keep rules of a table with RULE_KEYS, and a sentence for each invalid one."""
    rules: list[KeepRule] = []
    problems: list[str] = []
    for key, value in table.items():
        try:
            rules += _parse(key, value)
        except _WordingError as error:
            problems.append(str(error))
    return tuple(rules), tuple(problems)


def sort_retention_settings(recorded: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return recorded user settings by the directory of their file; old records have no directory."""
    return recorded if all(where.startswith("/") for where in recorded) else {"": recorded}


UNREADABLE = "its owner's .ckptd.toml could not be read, so everything is kept"


def join_retention_settings(
    known: Mapping[str, Mapping[str, Any]], written_in: str, document: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return a run's user settings about keeping, by the directory of the file, updated from one file.

    A file replaces only its own settings: jobs of one run may have several working directories, and a file in one of
    them must not cancel the settings of another. If there are more than MAX_FILES, everything is kept.
    """
    said = known.get(written_in, {}) if "problem" in document else {}
    joined = {where: settings for where, settings in known.items() if where.startswith("/") and where != written_in}
    if now := {**said, **_select_retention_settings(document)}:
        joined[written_in if written_in in known or len(joined) < MAX_FILES else _MANY] = now
    if _MANY in joined:
        joined[_MANY] = {"problem": f"the run's jobs have it in more than {MAX_FILES} directories"}
    return joined


def _select_retention_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a user's file that are about keeping, valid or not."""
    return {key: value for key, value in document.items() if key == "problem" or key.casefold() in KEYS_ABOUT_KEEPING}


def parse_all_retention_settings(
    documents: Mapping[str, Mapping[str, Any]],
) -> tuple[tuple[KeepRule, ...], tuple[str, ...]]:
    """Return the combined keep rules of a user's files, and what in them cannot be parsed."""
    parsed = {where: parse_retention_settings(documents[where]) for where in sorted(documents)}
    problems = [
        f"{where}: {problem}" if len(parsed) > 1 else problem
        for where, (_, found) in parsed.items()
        for problem in found
    ]
    rules = [rule for found, _ in parsed.values() for rule in found]
    rules.sort(key=lambda rule: not (isinstance(rule, KeepEverything) and rule.because))  # of equal ones, the first
    return tuple(dict.fromkeys(rules)), tuple(problems)


def parse_retention_settings(document: Mapping[str, Any]) -> tuple[tuple[KeepRule, ...], tuple[str, ...]]:
    """Return the keep rules of a user's file, and a sentence for everything in it that cannot be parsed.

    An entry that cannot be parsed counts as `keep = "everything"`, in addition to the valid ones: a misspelt word must
    not cost a checkpoint. The site's bounds apply to it as to every user setting. If the file cannot be read,
    everything stays.
    """
    rules, problems = _parse_keep(document.get("keep"))
    if "problem" in document:
        problems = (*problems, f"it cannot be read: {document['problem']}")
        rules = (*(rule for rule in rules if rule != KeepEverything()), KeepEverything(because=UNREADABLE))
    strays = sorted(
        key for key in _select_retention_settings(document) if key not in {"keep", "problem", file_patterns.KEY}
    )
    problems = (*problems, *(f"{key}: write keep = {{ last = 5 }} or the like" for key in strays))
    return ((*rules, KeepEverything()) if problems and KeepEverything() not in rules else rules), problems


def parse_consent(documents: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the `prune_files` patterns of a user's files, and what in them cannot be parsed.

    A file that cannot be read now allows nothing, regardless of its earlier content.
    """
    patterns: list[str] = []
    problems: list[str] = []
    for where in sorted(documents):
        if "problem" in documents[where]:
            continue
        allowed, found = file_patterns.parse_patterns(documents[where].get(file_patterns.KEY))
        patterns += allowed
        problems += (f"{where}: {problem}" if len(documents) > 1 else problem for problem in found)
    return tuple(dict.fromkeys(patterns)), tuple(problems)


def _parse_keep(keep: Any) -> tuple[tuple[KeepRule, ...], tuple[str, ...]]:
    if keep is None:
        return (), ()
    if keep == "everything":
        return (KeepEverything(),), ()
    if not isinstance(keep, Mapping):
        return (), (f'keep: write "everything" or a table such as {{ last = 5 }}, not {keep!r}',)
    rules, problems = parse_rules(keep)
    return rules, tuple(f"keep: {problem}" for problem in problems)


def _parse(key: str, value: Any) -> Iterator[KeepRule]:
    if key == "last":
        yield KeepLast(_whole(key, value))
    elif key == "best":
        for each in value if isinstance(value, list | tuple) else (value,):
            yield _parse_best(each)
    elif key == "every":
        yield from _parse_every(value)
    elif key == "within":
        yield KeepWithin(_duration(key, value))
    elif key in CALENDAR_PERIODS:
        yield KeepCalendar(key, _whole(key, value))
    elif key == "pinned":
        if value is not True:
            raise _WordingError("pinned: what is pinned is always kept; write pinned = true or nothing")
        yield KeepPinned()
    else:
        raise _WordingError(f"{key!r} is no rule; there are {', '.join(RULE_KEYS)}")


def _parse_best(value: Any) -> KeepRule:
    if not isinstance(value, Mapping):
        return KeepBest(_whole("best", value))
    if unknown := value.keys() - {"count", "metric", "mode"}:
        raise _WordingError(f"best: {min(unknown, key=str)!r} is unknown; there are count, metric and mode")
    metric, mode = value.get("metric"), value.get("mode")
    if not all(each is None or isinstance(each, str) for each in (metric, mode)):
        raise _WordingError(f"best: metric and mode are words, not {metric!r} and {mode!r}")
    return KeepBest(_whole("best.count", value.get("count", 1)), metric, mode)


def _parse_every(value: Any) -> Iterator[KeepRule]:
    if not isinstance(value, Mapping) or not value or value.keys() - set(_UNITS):
        raise _WordingError(f"every: write {{ epochs = 10 }} or {{ steps = 5000 }}, not {value!r}")
    for unit, count in value.items():
        yield KeepEvery(_whole(f"every.{unit}", count), unit)


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise _WordingError(f"{key}: the number to keep must be at least 1, not {value!r}")
    return value


def _duration(key: str, value: Any) -> timedelta:
    parsed = parse_duration(value)
    if not isinstance(parsed, timedelta) or not timedelta(0) < parsed <= _LONGEST:
        raise _WordingError(f'{key}: write a duration such as "2d" or "12h", not {value!r}')
    return parsed
