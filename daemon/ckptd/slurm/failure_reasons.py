"""Classifies why a query of Slurm failed, in a few stable words.

Slurm's programs report errors in English on stderr, sometimes with exit status 0. Only this module parses them.
"""

from enum import StrEnum

from ckptd.core.model import Unknown


class FailureReason(StrEnum):
    """First words of the reason of every Unknown from this package."""

    DOWN = "slurmctld does not answer"
    TIMED_OUT = "timed out"
    RATE_LIMITED = "rate limited"
    NOT_PERMITTED = "not permitted"
    GARBLED = "garbled output"
    MISSING = "program missing"
    FAILED = "failed"
    DEFERRED = "deferred"  # not asked yet: too many requests about single jobs


# The first match counts: errors of munge also contain the words of a failed connection.
_SIGNS = (
    (FailureReason.RATE_LIMITED, ("rate limit",)),
    (
        FailureReason.NOT_PERMITTED,
        ("munge", "authentication", "access/permission denied", "not authorized", "credential"),
    ),
    (FailureReason.TIMED_OUT, ("timed out", "timeout")),
    (
        FailureReason.DOWN,
        ("unable to contact slurm controller", "connection refused", "connect failure", "backup mode"),
    ),
    (FailureReason.GARBLED, ("invalid job format specification", "invalid field requested", "unrecognized option")),
)


def make_unknown(what: str, trouble: FailureReason, detail: str = "") -> Unknown:
    """Return an Unknown whose reason is the trouble's words, then the detail."""
    return Unknown(what=what, reason=f"{trouble}: {detail}" if detail else str(trouble))


def classify(what: str, returncode: int, stderr: str) -> Unknown:
    """Return why a program failed, from its exit status and stderr."""
    return make_unknown(what, find_reason(stderr), _last_line(stderr) or f"exit status {returncode}")


def is_deferred(answer: object) -> bool:
    """Whether Slurm was not asked yet."""
    return isinstance(answer, Unknown) and answer.reason.startswith(FailureReason.DEFERRED)


def asks_for_rest(answer: object) -> bool:
    """Whether slurmctld was too slow, or refused because it is asked too much."""
    return isinstance(answer, Unknown) and answer.reason.startswith(
        (FailureReason.TIMED_OUT, FailureReason.RATE_LIMITED)
    )


def find_reason(text: str) -> FailureReason:
    """Return what an error of Slurm is about; FAILED if its words are not known."""
    lowered = text.lower()
    found = (trouble for trouble, signs in _SIGNS if any(sign in lowered for sign in signs))
    return next(found, FailureReason.FAILED)


def has_error(stderr: str) -> bool:
    """Whether stderr contains an error, not only notes of site plugins."""
    lowered = stderr.lower()
    return "error:" in lowered or "fatal:" in lowered


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line.lower()] or lines
    return telling[-1][:300] if telling else ""
