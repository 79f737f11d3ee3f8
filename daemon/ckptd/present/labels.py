"""What the health rules and the numbers behind them are called when ckptd speaks to people."""

from ckptd.core.notices import HELD_BACK

TITLES = {
    "restarted-without-checkpoint": "Restarted without a checkpoint",
    "no-checkpoint-yet": "No checkpoint yet",
    "checkpoint-overdue": "The next checkpoint is overdue",
    "at-risk": "Work may be lost at the time limit",
    "damaged-checkpoint": "The newest checkpoint is damaged",
    "interrupted-save": "A save was interrupted",
    "not-resuming": "A restart did not resume",
    "restart-loop": "Restarts without progress",
    "job-held": "ckptd has held the job",
    "not-resubmitted": "The job is not submitted again",
    "resubmitted": "ckptd has submitted the job again",
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

LABELS = {
    "attempts": "attempts so far",
    "attempts_in_window": "attempts in that window",
    "asked_signal_seconds": "its script asks for a signal before the limit",
    "causes": "they ended by",
    "chance": "chance of it",
    "checkpoint_bytes": "a checkpoint takes",
    "checkpoints": "checkpoints there",
    "damaged_since_good": "damaged since the last good one",
    "earlier_run_time_seconds": "run time before this restart",
    "ended_job": "in place of job",
    "ended_with_attempt": "only ended with its attempt",
    "filesystem_type": "file system",
    "first_started_at": "the first of them began",
    "fits": "more that fit",
    "found": "checkpoints found",
    "free_bytes": "free on the file system",
    "full_at": "full at about",
    "goes_on_from": "newest checkpoint then",
    "held_bytes": "this run's checkpoints hold",
    "interval_seconds": "it saves about every",
    "is_declared": "its user named that goal",
    "is_still_there": "that one is still there",
    "kind": "restarted by",
    "leftover_count": "files left behind",
    "leftovers": "left behind",
    "mean_time_between_interruptions_seconds": "such a job is interrupted every",
    "missing_seconds": "time missing",
    "longest_save_seconds": "a save takes at most",
    "more_jobs": "more such jobs needed",
    "names": "it would call",
    "needs_seconds": "time needed",
    "newest_good": "newest good one",
    "newest_good_age_seconds": "age of that one",
    "newest_good_epoch": "its epoch",
    "newest_good_step": "its step",
    "next_checkpoint_in_seconds": "next checkpoint is complete in",
    "optimum_seconds": "best interval",
    "other_job_count": "how many there are",
    "other_jobs": "other jobs writing there",
    "other_users": "of users",
    "owner_uids": "owners (uid)",
    "job_uid": "the job's user (uid)",
    "path": "damaged",
    "paths": "checkpoints",
    "preemptions_of_run": "preemptions of this run so far",
    "quota_left_bytes": "left of the quota",
    "ran_seconds": "run time without progress",
    "reason": "what is wrong with it",
    "release_with": "let it go on with",
    "remark": "to be known",
    "restart_count": "restarts of this job",
    "resubmission_number": "resubmissions in a row",
    "room_bytes": "room for it",
    "save_seconds": "a save takes",
    "saved_at": "that one was saved",
    "saved_before": "saved before the restart",
    "saved_now": "saved since",
    "saves_that_fit": "saves that still fit",
    "share": "part of the time spent saving",
    "should_resume_from": "should have resumed from",
    "started_at": "this attempt began",
    "temporary_path": "temporary path of the site",
    "unit": "counted in",
    "unmet_names": "no directory at",
    "total_bytes": "size of the file system",
    "will_be_lost_seconds": "will be lost",
}
LABELS_OF_RULES = {
    ("checkpoint-overdue", "age_seconds"): "time since the newest checkpoint",
    ("checkpoint-overdue", "bound_seconds"): "late after",
    ("interrupted-save", "age_seconds"): "untouched for",
    ("interrupted-save", "size_bytes"): "their size",
    ("no-checkpoint-yet", "bound_seconds"): "one was expected after",
    ("not-requeueable", "checkpoints"): "checkpoints to go on from",
    ("not-resubmitted", "reason"): "why",
    ("restart-loop", "attempts"): "attempts without progress",
}
UNSHOWN = frozenset({"intervals_known", "interval_spread_seconds", "signal_seconds", "name_count"})


def title_of(rule: str) -> str:
    """Return a rule's title; a rule without one is called by its name."""
    return TITLES.get(rule) or rule.replace("-", " ").capitalize()


def label_of(rule: str, name: str) -> str | None:
    """Return what a number of a rule's evidence is called; None for one that says nothing to its reader."""
    if name in UNSHOWN:
        return None
    if label := LABELS_OF_RULES.get((rule, name)) or LABELS.get(name):
        return label
    for unit in ("_seconds", "_bytes"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")
