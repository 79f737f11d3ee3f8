"""Does what `core.actions` plans: each act on record before it is done and after, and none a second time.

An act that is on record without an outcome was cut off; nobody knows whether it was done, and it is not done again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ckptd.checkpoints.agent_client import Batch
from ckptd.checkpoints.look import Agent
from ckptd.core import actions
from ckptd.core.actions import Act, ActKind, Finished, Permits
from ckptd.core.model import RunHistory, RunKey, Unknown
from ckptd.core.record import AuditEntry
from ckptd.slurm import actions as slurm_actions
from ckptd.slurm.programs import Programs
from ckptd.store.store import Store

ACTOR = "actions"
DONE = "done"
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
DEADLINE_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ActingParts:
    """What acting works with."""

    cluster: str
    store: Store
    agent: Agent
    programs: Programs
    permits: Permits


def act(
    parts: ActingParts, histories: Mapping[RunKey, RunHistory], finished: Mapping[RunKey, Finished], now: datetime
) -> tuple[tuple[Act, str], ...]:
    """Do what is due; return each act with its outcome."""
    due = actions.plan(histories.values(), finished, parts.permits, now)
    if not due:
        return ()
    done = parts.store.find_audited(parts.cluster, [each.name for each in due])
    recent_count = parts.store.count_audited(parts.cluster, ACTOR, now - timedelta(hours=1))
    chosen = actions.choose(due, done, recent_count, parts.permits)
    return tuple((each, _carry_out(parts, each, now)) for each in chosen)


def _carry_out(parts: ActingParts, act: Act, now: datetime) -> str:
    number = parts.store.append_audit(
        AuditEntry(
            cluster=parts.cluster,
            actor=ACTOR,
            action=act.kind.value,
            target=f"job {slurm_actions.name_job(act.job)}",
            run=act.run,
            plan_id=act.name,
            reasons=act.reasons,
            details={"user": act.job.user, "word": act.word},
            begun_at=now,
        )
    )
    answer = _do(parts, act)
    outcome = f"failed: {answer.reason}" if isinstance(answer, Unknown) else answer or DONE
    parts.store.finish_audit(number, outcome, now)
    return outcome


def _do(parts: ActingParts, act: Act) -> str | Unknown:
    job = act.job
    if act.kind is ActKind.SUMMARY:
        return slurm_actions.write_summary(parts.programs, job, act.word) or DONE
    item: dict[str, list[str]] = {}
    if act.kind is ActKind.SIGNAL:
        item["argv"] = slurm_actions.format_signal(job, act.word)
    elif act.kind is ActKind.HOLD:
        item["argv"] = slurm_actions.format_hold(job)
    else:
        item["script_argv"] = slurm_actions.format_script(job)
        item["argv"] = slurm_actions.format_submit(job)
    batch = Batch(uid=job.uid, operation="command", items=(item,), deadline_seconds=DEADLINE_SECONDS)
    ((answer,),) = parts.agent.run([batch])
    if isinstance(answer, Unknown):
        return answer
    return f"submitted job {answer['output']}" if act.kind is ActKind.RESUBMIT else DONE


def count_resubmits(parts: ActingParts, run: RunKey) -> int:
    """Return how often this run was submitted again, whatever came of it."""
    return parts.store.count_audited(parts.cluster, ACTOR, BEGINNING, action=ActKind.RESUBMIT.value, run=run)
