"""A run of two attempts whose checkpoints tell what the second one resumed from."""

from ckptd.core.model import Certainty, ResumeReason, Role
from ckptd.core.runs.resumed_from import find_resume
from core.histories import attempt, saved
from support.resume_facts import list_states

STATE = {"role": Role.STATE}
FIRST = attempt(0, 10)
SECOND = attempt(11, restart_count=1)
OVERWRITTEN = 99  # a minute after all others


def every(minutes, unit="epoch", *, count, start=0.0, first=1, by=1, name=None, **changes):
    """Checkpoints at regular progress, one each so many minutes."""
    return [
        saved(
            start + minutes * (n + 1),
            name=name or f"{unit}_{first + n * by}.pt",
            **{unit: first + n * by},
            **STATE,
            **changes,
        )
        for n in range(count)
    ]


def resume(*records, attempts=(FIRST, SECOND), **changes):
    return find_resume(attempts[-1], attempts, list_states(records), **changes)


def name_of(found):
    return found.path and found.path.rpartition("/")[2]


def said(found):
    return found.certainty, found.reason, name_of(found)


PROGRESS = (Certainty.INFERRED, ResumeReason.PROGRESS)
EPOCHS = every(2, count=5)  # epoch 1 to 5 in the first ten minutes


def again(epoch, minute=2, **changes):
    return saved(11 + minute, name=f"epoch_{epoch}.pt", epoch=epoch, **STATE, **changes)
