"""What histories say of the acts that ckptd does, or does not do, to their jobs."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ckptd.core.job_actions import action_policy, resubmit_policy, sbatch_command
from ckptd.core.job_actions.action_policy import ActKind
from ckptd.core.model import RunHistory
from ckptd.steps import finished_runs
from ckptd.steps.parts import Parts
from ckptd.steps.state import State


def add_acts(parts: Parts, state: State, histories: Collection[RunHistory], now: datetime) -> list[RunHistory]:
    """Return histories that say which jobs get a signal or were submitted by ckptd, and why runs stand still."""
    return _add_resubmissions(parts, state, _add_signals(parts, histories, now), now)


def _add_signals(parts: Parts, histories: Collection[RunHistory], now: datetime) -> list[RunHistory]:
    told = [
        replace(each, signalled=signalled) if (signalled := action_policy.list_signalled(each, parts.permits)) else each
        for each in histories
    ]
    due = {each.key for each in told if action_policy.is_signal_due(each, now)}
    outcomes = parts.store.audit.read_outcomes(parts.cluster, ActKind.SIGNAL.value, due) if due else {}
    return [
        replace(each, signalled=action_policy.without_failed(each, outcomes[each.key]))
        if each.key in outcomes
        else each
        for each in told
    ]


def _add_resubmissions(
    parts: Parts, state: State, histories: Collection[RunHistory], now: datetime
) -> list[RunHistory]:
    finished = finished_runs.list_finished(parts, state, {each.key: each for each in histories}, now)
    marked = {each.key for each in histories if any(sbatch_command.mark_of(job.comment) for job in each.jobs)}
    outcomes = parts.store.audit.read_outcomes(parts.cluster, ActKind.RESUBMIT.value, marked) if marked else {}
    return [
        replace(
            each,
            standing=action_policy.find_standing(each, finished.get(each.key), parts.permits),
            resubmitted=resubmit_policy.list_resubmitted(each, outcomes.get(each.key, {})),
        )
        if each.key in marked or not each.jobs
        else each
        for each in histories
    ]
