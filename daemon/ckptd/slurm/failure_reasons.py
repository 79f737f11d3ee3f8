"""Why a cluster could not be looked at, in a few stable words.

Slurm's programs say it in English on stderr, sometimes with exit status 0; this is the one place that reads it.
"""

from enum import StrEnum

from ckptd.core.model import Unknown


class Trouble(StrEnum):
    """How the reason of an Unknown from this package begins."""

    DOWN = "slurmctld does not answer"
    TIMED_OUT = "timed out"
    NOT_PERMITTED = "not permitted"
    GARBLED = "garbled output"
    MISSING = "program missing"
    FAILED = "failed"


# In order: munge's own failure mentions sockets too.
_SIGNS = (
    (Trouble.NOT_PERMITTED, ("munge", "authentication", "access/permission denied", "not authorized", "credential")),
    (Trouble.TIMED_OUT, ("timed out", "timeout")),
    (Trouble.DOWN, ("unable to contact slurm controller", "connection refused", "connect failure", "backup mode")),
    (Trouble.GARBLED, ("invalid job format specification", "invalid field requested", "unrecognized option")),
)


def say(what: str, trouble: Trouble, detail: str = "") -> Unknown:
    """Return the Unknown whose reason begins with the trouble's words."""
    return Unknown(what=what, reason=f"{trouble}: {detail}" if detail else str(trouble))


def classify(what: str, returncode: int, stderr: str) -> Unknown:
    """Say what a program's exit status and stderr mean."""
    detail = _last_line(stderr) or f"exit status {returncode}"
    lowered = stderr.lower()
    for trouble, signs in _SIGNS:
        if any(sign in lowered for sign in signs):
            return say(what, trouble, detail)
    return say(what, Trouble.FAILED, detail)


def has_error(stderr: str) -> bool:
    """Whether stderr reports an error, as opposed to remarks of site plugins."""
    lowered = stderr.lower()
    return "error:" in lowered or "fatal:" in lowered


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line.lower()] or lines
    return telling[-1][:300] if telling else ""
