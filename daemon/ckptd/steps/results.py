"""The result of a step: the caller writes its log lines and counts it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

Fields = Mapping[str, object]  # what a line is about: run, job, user, rule
NO_FIELDS: Fields = MappingProxyType({})


class LogLine(NamedTuple):
    """One line of the log."""

    level: int
    text: str
    error: Exception | None = None
    fields: Fields = NO_FIELDS


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one run of a step."""

    found_work: bool = True  # False: there was nothing to do, and no duration is counted
    lines: tuple[LogLine, ...] = ()
    has_failed: bool = False  # a part of it failed, which is counted; the rest was done
    is_unfinished: bool = False  # it has more to do, and let other steps go first


IDLE = StepResult(found_work=False)


def info(text: str) -> LogLine:
    return LogLine(logging.INFO, text)


def warning(text: str, **fields: object) -> LogLine:
    return LogLine(logging.WARNING, text, fields=fields)


def error(text: str, cause: Exception | None = None, **fields: object) -> LogLine:
    return LogLine(logging.ERROR, text, cause, fields)
