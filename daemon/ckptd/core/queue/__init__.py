"""What changed between two polls: which executions of which jobs began and ended.

What the queue cannot tell (how a job ended that is no longer shown, what happened between two looks) is left as a
question; `accounting_merge` answers it from accounting, and where nobody knows it says so.
"""

from ckptd.core.queue.comparison import apply, compare, is_suspect
from ckptd.core.queue.executions import (
    CAUSES,
    GUESSED_CAUSES,
    RestartClassifier,
    assign_kind,
    begin,
    end_unknown,
    is_guessed,
)
from ckptd.core.queue.job_records import JobChanges, MissedRestarts, TrackedJob, unlocated_run

__all__ = [
    "CAUSES",
    "GUESSED_CAUSES",
    "JobChanges",
    "MissedRestarts",
    "RestartClassifier",
    "TrackedJob",
    "apply",
    "assign_kind",
    "begin",
    "compare",
    "end_unknown",
    "is_guessed",
    "is_suspect",
    "unlocated_run",
]
