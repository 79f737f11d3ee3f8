"""Titles of the health rules and labels of their evidence, as people read them."""

TITLES = {
    "restarted-without-checkpoint": "Restarted without a checkpoint",
    "no-checkpoint-yet": "No checkpoint yet",
    "checkpoint-overdue": "The next checkpoint is overdue",
    "at-risk": "Work may be lost at the time limit",
    "damaged-checkpoint": "The newest checkpoint is damaged",
    "interrupted-save": "A save was interrupted",
    "not-resuming": "The job did not resume from its checkpoint",
    "restart-loop": "Restarts without progress",
    "job-held": "ckptd held the job",
    "not-resubmitted": "The job was not resubmitted",
    "resubmitted": "ckptd resubmitted the job",
    "concurrent-writers": "Several jobs write to the same checkpoint directory",
    "too-frequent": "Checkpoints are too frequent",
    "too-sparse": "Checkpoints are too far apart",
    "volatile-path": "Checkpoints are on temporary storage only",
    "no-room": "Not enough free space for the next checkpoint",
    "will-not-finish": "The job will not reach its goal before the time limit",
    "not-requeueable": "The job will not be requeued after a preemption",
    "unsafe-pickle": "Loading a checkpoint would run code",
    "foreign-owner": "A checkpoint belongs to another user",
    "mail-held-back": "Mail to users is delayed by the rate limit",
    "test-message": "Test message",
}

LABELS = {
    "attempts": "attempts so far",
    "attempts_in_window": "attempts in that window",
    "asked_signal": "signal that the batch script requests",
    "asked_signal_seconds": "requested so long before the limit",
    "causes": "they ended by",
    "chance": "probability",
    "checkpoint_bytes": "size of a checkpoint",
    "checkpoints": "checkpoints in the directory",
    "damaged_since_good": "damaged since the last complete one",
    "earlier_run_time_seconds": "run time before this restart",
    "ended_job": "continues job",
    "ended_with_attempt": "ended with its attempt",
    "filesystem_type": "file system",
    "first_started_at": "the first of them started",
    "fits": "still possible before the limit",
    "found": "checkpoints found",
    "free_bytes": "free space on the file system",
    "full_at": "expected to be full at",
    "furthest_good": "complete checkpoint with the most progress",
    "goes_on_from": "newest checkpoint at that time",
    "held_by": "held by",
    "held_bytes": "size of this run's checkpoints",
    "interval_seconds": "checkpoint interval",
    "is_declared": "goal set by the user",
    "is_still_there": "that checkpoint still exists",
    "is_waited_for": "another job may continue it",
    "kind": "type of restart",
    "leftover_count": "leftover files",
    "leftovers": "left behind",
    "maintenance": "maintenance reservation",
    "maintenance_at": "maintenance starts",
    "mean_time_between_interruptions_seconds": "mean time between interruptions of such a job",
    "missing_seconds": "time missing",
    "longest_save_seconds": "longest save duration",
    "more_jobs": "further jobs needed",
    "names": "code that loading would call",
    "needs_seconds": "time needed",
    "newest_good": "newest complete checkpoint",
    "newest_good_age_seconds": "its age",
    "newest_good_epoch": "its epoch",
    "newest_good_step": "its step",
    "next_checkpoint_in_seconds": "next checkpoint expected in",
    "optimum_seconds": "best interval",
    "other_job_count": "number of other jobs",
    "other_jobs": "other jobs writing there",
    "other_users": "their users",
    "owner_uids": "owners (uid)",
    "job_uid": "the job's user (uid)",
    "path": "damaged checkpoint",
    "paths": "checkpoints",
    "preemptions_of_run": "preemptions of this run so far",
    "quota_left_bytes": "remaining quota",
    "ran_seconds": "run time without progress",
    "reason": "damage",
    "release_with": "to release it",
    "remark": "note",
    "restart_count": "restarts of this job",
    "resubmission_number": "resubmissions in a row",
    "room_bytes": "space for checkpoints",
    "save_seconds": "save duration",
    "saved_at": "it was saved",
    "saved_before": "saved before the restart",
    "saved_now": "saved since the restart",
    "saves_that_fit": "checkpoints expected before the limit",
    "share": "share of run time spent saving",
    "should_resume_from": "should have resumed from",
    "started_at": "this attempt started",
    "temporary_path": "temporary path of the site",
    "unit": "counted in",
    "unmet_names": "named directories that do not exist",
    "total_bytes": "size of the file system",
    "will_be_lost_seconds": "work lost at the limit",
}
LABELS_OF_RULES = {
    ("at-risk", "missing_seconds"): "more time needed for one more checkpoint",
    ("checkpoint-overdue", "age_seconds"): "time since the newest checkpoint",
    ("checkpoint-overdue", "bound_seconds"): "overdue after",
    ("interrupted-save", "age_seconds"): "unchanged for",
    ("interrupted-save", "size_bytes"): "their size",
    ("no-checkpoint-yet", "bound_seconds"): "first checkpoint expected within",
    ("not-requeueable", "checkpoints"): "checkpoints to resume from",
    ("not-resubmitted", "reason"): "reason",
    ("restart-loop", "attempts"): "attempts without progress",
}
UNSHOWN = frozenset(
    {
        "array_job_id",
        "interval_spread_seconds",
        "intervals_known",
        "is_held_partial",
        "job_id",
        "located_by",
        "name_count",
        "signal_seconds",
        "slurm_job",
    }
)


def title_of(rule: str) -> str:
    """Return a rule's title; fall back to the rule's name."""
    return TITLES.get(rule) or rule.replace("-", " ").capitalize()


def label_of(rule: str, name: str) -> str | None:
    """Return the label of an evidence field; None if the field is not shown to people."""
    if name in UNSHOWN:
        return None
    if label := LABELS_OF_RULES.get((rule, name)) or LABELS.get(name):
        return label
    for unit in ("_seconds", "_bytes"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")
