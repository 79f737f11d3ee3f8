"""What histories say of ends that ckptd was asked to make up for by submitting the job again."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ckptd.core import actions, going_on, resubmission
from ckptd.core.actions import ActKind
from ckptd.core.model import RunHistory
from ckptd.cycle import queue
from ckptd.cycle.state import Parts, State


def add_resubmissions(parts: Parts, state: State, histories: Collection[RunHistory], now: datetime) -> list[RunHistory]:
    """Return histories that say why their runs stand still, or which of their jobs ckptd has submitted."""
    finished = queue.list_finished(parts, state, {each.key: each for each in histories}, now)
    marked = {each.key for each in histories if any(resubmission.mark_of(job.comment) for job in each.jobs)}
    outcomes = parts.store.read_outcomes(parts.cluster, ActKind.RESUBMIT.value, marked) if marked else {}
    return [
        replace(
            each,
            standing=actions.find_standing(each, finished.get(each.key), parts.permits),
            resubmitted=going_on.list_resubmitted(each, outcomes.get(each.key, {})) if each.key in marked else {},
        )
        for each in histories
    ]
