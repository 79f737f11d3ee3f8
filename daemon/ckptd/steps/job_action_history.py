"""Reads which actions ckptd took, or did not take, on the jobs of runs."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.job_actions import action_policy, resubmit_policy, sbatch_command
from ckptd.core.job_actions.action_policy import ActionKind
from ckptd.core.model import Resubmission, ResubmitRefusal, RunKey, RunRecord, Unknown
from ckptd.steps import finished_runs
from ckptd.steps.parts import Parts
from ckptd.steps.state import State


class RunActions(NamedTuple):
    """The actions on one run's jobs, as RunContext has them."""

    signalled: Mapping[int, timedelta]
    standing: ResubmitRefusal | Unknown | None
    resubmitted: Mapping[int, Resubmission]


def read_actions(parts: Parts, state: State, records: Collection[RunRecord], now: datetime) -> dict[RunKey, RunActions]:
    """Return which jobs get a signal or were submitted by ckptd, and why runs are not resubmitted."""
    signalled = _read_signalled(parts, records, now)
    finished = finished_runs.list_finished(parts, state, {each.key: each for each in records}, now)
    marked = {each.key for each in records if any(sbatch_command.mark_of(job.comment) for job in each.jobs)}
    outcomes = parts.store.audit.read_outcomes(parts.cluster, ActionKind.RESUBMIT.value, marked) if marked else {}
    found: dict[RunKey, RunActions] = {}
    for each in records:
        standing: ResubmitRefusal | Unknown | None = None
        resubmitted: Mapping[int, Resubmission] = {}
        if each.key in marked or not each.jobs:
            standing = action_policy.find_standing(each, finished.get(each.key), parts.permits)
            resubmitted = resubmit_policy.list_resubmitted(each, outcomes.get(each.key, {}))
        found[each.key] = RunActions(signalled[each.key], standing, resubmitted)
    return found


def _read_signalled(
    parts: Parts, records: Collection[RunRecord], now: datetime
) -> dict[RunKey, Mapping[int, timedelta]]:
    """Return the jobs that will get a signal from ckptd, except those whose signal could not be sent."""
    planned = {each.key: action_policy.list_signalled(each, parts.permits) for each in records}
    due = {each.key for each in records if action_policy.is_signal_due(each, planned[each.key], now)}
    outcomes = parts.store.audit.read_outcomes(parts.cluster, ActionKind.SIGNAL.value, due) if due else {}
    return {
        each.key: action_policy.without_failed(each, planned[each.key], outcomes[each.key])
        if each.key in outcomes
        else planned[each.key]
        for each in records
    }
