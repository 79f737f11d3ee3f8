"""Audit entries of operations on users' files: the intent before, the outcome after."""

import secrets
from collections.abc import Mapping
from datetime import datetime

from ckptd.checkpoints.agent import daemon_name
from ckptd.checkpoints.trash import TrashOutcome, TrashResult
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import Evidence, RunKey
from ckptd.core.model.records import AuditEntry

PRUNE = "prune"
RESTORE = "restore"
EMPTY = "empty"
PLAN = "plan"
RECOVER = "recover"
SWEEP = "sweep"  # deletes entries of a user's trash that are in no database: one row for many of them
ON_TRASH = frozenset({PRUNE, RESTORE, EMPTY})
UNRECORDED = "entries that are not on record"
LIMIT = 100_000  # unfinished entries that are completed at a time
PERSON = "uid "  # begins the name of an actor who is a person
_FAILURES = (TrashResult.REFUSED.value, TrashResult.FAILED.value)
# causes that users or a full disk bring about: not a sign that something is wrong
ORDINARY = frozenset(
    {
        FailureCause.LINKED,
        FailureCause.OPEN,
        FailureCause.FULL,
        FailureCause.FOREIGN,
        FailureCause.SPECIAL,
        FailureCause.GONE,
        FailureCause.BUSY,
        FailureCause.TOO_DEEP,
        FailureCause.IMMUTABLE,
    }
)
# failures of the daemon or of a file system, which no user can cause in their own directory
OF_THE_SITE = frozenset({FailureCause.READ_ONLY, FailureCause.BROKEN, FailureCause.CUT_OFF, FailureCause.OTHER, None})
# those that concern the trash, not one checkpoint
PASSING = frozenset({FailureCause.FULL, FailureCause.BUSY})


def new_act_id() -> str:
    """Return a new unique id for an entry of the trash."""
    return secrets.token_hex(12)


def intend(  # noqa: PLR0913 - an intent without any of these explains nothing
    action: str,
    run: RunKey,
    target: str,
    *,
    act_id: str,
    actor: str,
    now: datetime,
    plan_id: str | None = None,
    reasons: tuple[str, ...] = (),
    details: Mapping[str, Evidence] | None = None,
) -> AuditEntry:
    """Return the intent of an operation, to be committed before it starts."""
    return AuditEntry(
        cluster=run.cluster,
        actor=actor,
        action=action,
        target=target,
        run=run,
        plan_id=plan_id,
        reasons=reasons,
        details={"act_id": act_id, **(details or {})},
        begun_at=now,
    )


def name_mover(actor: str) -> str:
    """Return the actor for a manifest: a person, or this daemon by host and process id."""
    return actor if actor.startswith(PERSON) else daemon_name.name_daemon()


def format_outcome(outcome: TrashOutcome) -> str:
    """Format an outcome for the audit table: its word, then a colon and the reason."""
    return f"{outcome.result.value}: {outcome.reason}" if outcome.reason else outcome.result.value


def measure(outcome: TrashOutcome) -> dict[str, Evidence]:
    """Return the details of an outcome that are counted; without a size, the intent's stays."""
    size: dict[str, Evidence] = {"size_bytes": outcome.size_bytes} if outcome.size_bytes else {}
    return {"cause": outcome.cause.value if outcome.cause else None, **size}


def is_failure(entry: AuditEntry) -> bool:
    """Whether an operation failed by an error, or because the files differed from the plan."""
    return _has_failed(entry) and entry.details.get("cause") not in ORDINARY


def is_site_failure(entry: AuditEntry) -> bool:
    """Whether an operation failed for a reason that can affect every user; only these failures stop all removals."""
    return _result(entry) == TrashResult.FAILED.value and entry.details.get("cause") in OF_THE_SITE


def is_refusal(entry: AuditEntry) -> bool:
    """Whether an operation was refused because of how users use their own files; it is retried later."""
    return _has_failed(entry) and entry.details.get("cause") in ORDINARY - PASSING


def _has_failed(entry: AuditEntry) -> bool:
    return _result(entry) in _FAILURES


def _result(entry: AuditEntry) -> str:
    return (entry.outcome or "").partition(":")[0]
