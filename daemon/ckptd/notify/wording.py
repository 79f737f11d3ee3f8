"""What the health rules are called when ckptd speaks to people."""

from ckptd.core.notices import HELD_BACK

TITLES = {
    "restarted-without-checkpoint": "Restarted without a checkpoint",
    "no-checkpoint-yet": "No checkpoint yet",
    "checkpoint-overdue": "The next checkpoint is overdue",
    "at-risk": "Work will be lost at the time limit",
    "damaged-checkpoint": "The newest checkpoint is damaged",
    "interrupted-save": "A save was interrupted",
    "not-resuming": "A restart did not resume",
    "restart-loop": "Restarts without progress",
    "concurrent-writers": "Two jobs write to one checkpoint directory",
    "too-frequent": "Checkpoints cost much of the run time",
    "too-sparse": "Checkpoints are further apart than is good",
    "volatile-path": "Checkpoints only on temporary storage",
    "no-room": "Too little room for the next checkpoint",
    "will-not-finish": "The goal does not fit in the time left",
    "not-requeueable": "The job is not requeued when it is preempted",
    "unsafe-pickle": "A checkpoint names code that loading would run",
    "foreign-owner": "A file in the directory belongs to somebody else",
    HELD_BACK: "Mail to users is held back",
}


def title_of(rule: str) -> str:
    """Return a rule's title; a rule without one is called by its name."""
    return TITLES.get(rule) or rule.replace("-", " ").capitalize()
