"""Notifies again of flags that stay open, once per `repeat_gap`."""

from datetime import datetime

from ckptd.core import notices
from ckptd.steps import plan_notices
from ckptd.steps.parts import Parts
from ckptd.steps.results import StepResult
from ckptd.steps.state import State


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Record the reminders that are due."""
    return StepResult(repeat_notices(parts, state, now) > 0)


def repeat_notices(parts: Parts, state: State, now: datetime) -> int:
    """Record reminders of flags that were notified a `repeat_gap` ago and are still open; return their number."""
    policy = parts.notice_policy
    with state.record_lock:
        old = [each for each in parts.store.flags.list_open(parts.cluster) if now - each.opened_at >= policy.repeat_gap]
        unasked = plan_notices.list_unasked(parts, state, old, now)
    plan_notices.ask_mail_users(parts, state, unasked, now)
    with state.record_lock:
        open_flags = parts.store.flags.list_open(parts.cluster)
        repeated = notices.plan_repeats(plan_notices.gather(parts, state, open_flags, open_flags), policy, now)
        parts.store.outbox.record(repeated)
        return len(repeated)
