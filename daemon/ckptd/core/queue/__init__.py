"""What changed between two polls: which executions of which jobs began and ended.

Some facts are not in the queue: how a job ended that it no longer shows, and what happened between two polls. They are
left open; `accounting_merge` adds them from accounting, or records that they are unknown.
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
