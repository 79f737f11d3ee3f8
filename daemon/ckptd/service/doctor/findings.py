"""What one check found."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from ckptd.config import Config


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class CheckResult(NamedTuple):
    """One line of the report. `advice` says what to do; it is empty if nothing is wrong."""

    verdict: Verdict
    text: str
    advice: str = ""


class Account(StrEnum):
    """From which account a check runs."""

    SERVICE = "service"  # the account of the main process
    AGENT = "agent"  # the account that starts ckptd: root, whose agent becomes the owner of each directory


class Check(NamedTuple):
    """One group of checks that share what they ask."""

    topic: str
    account: Account
    run: Callable[[Config], Iterator[CheckResult]]


def ok(text: str) -> CheckResult:
    return CheckResult(Verdict.OK, text)


def warning(text: str, advice: str) -> CheckResult:
    return CheckResult(Verdict.WARNING, text, advice)


def error(text: str, advice: str) -> CheckResult:
    return CheckResult(Verdict.ERROR, text, advice)
