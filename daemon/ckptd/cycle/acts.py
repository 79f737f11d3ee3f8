"""What histories say of the acts that ckptd does, or does not do, to their jobs."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ckptd.core import actions, going_on, resubmission
from ckptd.core.actions import ActKind
from ckptd.core.model import RunHistory
from ckptd.cycle import queue
from ckptd.cycle.state import Parts, State


def add_acts(parts: Parts, state: State, histories: Collection[RunHistory], now: datetime) -> list[RunHistory]:
    """Return histories that say which jobs get a signal or were submitted by ckptd, and why runs stand still."""
    return _add_resubmissions(parts, state, _add_signals(parts, histories, now), now)


def _add_signals(parts: Parts, histories: Collection[RunHistory], now: datetime) -> list[RunHistory]:
    told = [
        replace(each, signalled=signalled) if (signalled := actions.list_signalled(each, parts.permits)) else each
        for each in histories
    ]
    due = {each.key for each in told if actions.is_signal_due(each, now)}
    outcomes = parts.store.read_outcomes(parts.cluster, ActKind.SIGNAL.value, due) if due else {}
    return [
        replace(each, signalled=actions.without_failed(each, outcomes[each.key])) if each.key in outcomes else each
        for each in told
    ]


def _add_resubmissions(
    parts: Parts, state: State, histories: Collection[RunHistory], now: datetime
) -> list[RunHistory]:
    finished = queue.list_finished(parts, state, {each.key: each for each in histories}, now)
    marked = {each.key for each in histories if any(resubmission.mark_of(job.comment) for job in each.jobs)}
    outcomes = parts.store.read_outcomes(parts.cluster, ActKind.RESUBMIT.value, marked) if marked else {}
    return [
        replace(
            each,
            standing=actions.find_standing(each, finished.get(each.key), parts.permits),
            resubmitted=going_on.list_resubmitted(each, outcomes.get(each.key, {})),
        )
        if each.key in marked or not each.jobs
        else each
        for each in histories
    ]
