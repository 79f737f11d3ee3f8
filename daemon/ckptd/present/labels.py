"""Titles of the health rules and labels of their evidence, as people read them."""

TITLES = {
    "restarted-without-checkpoint": "Restarted without a checkpoint",
    "checkpoints-not-located": "The job's checkpoints are not known",
    "no-checkpoint-yet": "No checkpoint yet",
    "checkpoint-overdue": "The next checkpoint is overdue",
    "at-risk": "Work may be lost at the time limit",
    "damaged-checkpoint": "The newest checkpoint is damaged",
    "copy-behind": "Copies of the checkpoints are behind",
    "copy-differs": "A copy differs from its checkpoint",
    "interrupted-save": "A save was interrupted",
    "not-resuming": "Probably not resumed from the newest checkpoint",
    "restart-loop": "Restarts without progress",
    "job-held": "Held by ckptd",
    "not-resubmitted": "Not resubmitted after the time limit",
    "resubmitted": "Resubmitted by ckptd",
    "concurrent-writers": "Several jobs write to the same checkpoint directory",
    "too-frequent": "Checkpoints are too frequent",
    "too-sparse": "Checkpoints are too far apart",
    "volatile-path": "Checkpoints are on temporary storage",
    "will-be-purged": "The site will delete the newest checkpoint",
    "no-room": "Not enough free space for the next checkpoint",
    "will-not-finish": "The goal will probably not be reached before the time limit",
    "not-requeueable": "Not requeued if preempted",
    "unsafe-pickle": "Loading a checkpoint would run code",
    "reported-damage": "A verification job found a checkpoint damaged",
    "foreign-owner": "A checkpoint belongs to another user",
    "mail-held-back": "Mail to users is delayed by the rate limit",
    "test-message": "Test message",
}

LABELS = {
    "asked_signal": "signal that the batch script requests",
    "asked_signal_seconds": "time from that signal to the limit",
    "attempts": "attempts so far (including this one)",
    "attempts_in_window": "recent attempts without progress",
    "behind_seconds": "copies are behind by",
    "causes": "how the attempts ended",
    "chance": "probability of the loss",
    "checkpoint_bytes": "size of a checkpoint",
    "checkpoint_count": "number of checkpoints",
    "checkpoints": "checkpoints in the directory",
    "compared_at": "content compared",
    "copies": "copies that differ",
    "copy": "copy that differs",
    "copy_count": "number of copies that differ",
    "counted_from_at": "age of that checkpoint counts from",
    "damaged_since_good": "damaged checkpoints since the newest complete one",
    "deleted_count": "complete checkpoints deleted before the restart",
    "differing_file": "first file that differs",
    "directory": "directory",
    "earlier_run_time_seconds": "run time before this restart",
    "ended_job": "continues job",
    "ended_with_attempt": "ended with its attempt",
    "extension_count": "extensions left",
    "filesystem_type": "file system",
    "first_started_at": "first attempt without progress started",
    "fits": "progress still possible before the limit",
    "found": "checkpoints found",
    "free_bytes": "free space on the file system",
    "full_at": "expected to be full at",
    "furthest_good": "complete checkpoint with the most progress",
    "goal": "goal",
    "goes_at": "the site may delete it from",
    "goes_on_from": "newest checkpoint to resume from",
    "has_submit_line": "accounting has the submit line of the job before it",
    "held_by": "held by",
    "held_bytes": "size of this run's checkpoints",
    "interrupted_attempts": "attempts cut short before a save",
    "interruptions_counted": "interruptions counted for that",
    "interval_seconds": "checkpoint interval",
    "is_by_owner": "compared by a job of the owner",
    "is_declared": "goal set by the user",
    "is_interrupted": "mostly ended by causes outside the job",
    "is_signalled_later": "signal before the time limit is still to come",
    "is_still_there": "checkpoint to resume from still exists",
    "is_waited_for": "another job may continue this one",
    "job_uid": "the job's user (uid)",
    "kind": "type of restart",
    "leftover_count": "number of leftovers",
    "leftovers": "leftovers",
    "longest_save_seconds": "longest save duration",
    "longest_seconds": "longest of these attempts",
    "maintenance": "maintenance reservation",
    "maintenance_at": "maintenance starts",
    "mean_time_between_interruptions_seconds": "mean time between interruptions of a job of this size",
    "missing_seconds": "further time needed after the limit",
    "more_jobs": "further jobs of this length needed",
    "names": "code that loading would call",
    "needs_seconds": "time needed to reach the goal",
    "newest_checkpoint_at": "newest checkpoint written",
    "newest_copy": "newest complete copy",
    "newest_good": "newest complete checkpoint",
    "newest_good_age_seconds": "age of the newest complete checkpoint",
    "newest_good_epoch": "epoch of the newest complete checkpoint",
    "newest_good_step": "step of the newest complete checkpoint",
    "next_checkpoint_in_seconds": "next checkpoint expected in",
    "nodes": "nodes",
    "optimum_seconds": "recommended interval",
    "original": "original checkpoint",
    "other_directories": "other directories with copies that are behind",
    "other_job_count": "number of other jobs",
    "other_jobs": "ids of the other jobs",
    "other_tasks": "other tasks of its array",
    "other_users": "users of the other jobs",
    "owner_uids": "owners of the files (uid)",
    "partition": "partition",
    "path": "damaged checkpoint",
    "paths": "checkpoints",
    "preemptions_of_run": "preemptions of this run so far",
    "purged_after_days": "deleted after (days)",
    "purged_by": "the site measures age by",
    "purged_path": "path that the site cleans",
    "quota_left_bytes": "remaining quota",
    "ran_seconds": "run time without progress",
    "reached": "progress so far",
    "reason": "damage",
    "release_with": "command to release the job",
    "restart_count": "restarts of this job",
    "resubmission_number": "resubmissions in a row",
    "resume_certainty": "certainty of what it resumed from",
    "resumed_from": "resumed from",
    "room_bytes": "usable space (free space or remaining quota)",
    "run_time_seconds": "run time",
    "save_seconds": "save duration",
    "saved_at": "checkpoint to resume from was saved",
    "saved_before": "progress saved before the restart",
    "saved_now": "progress saved since the restart",
    "saves_that_fit": "checkpoints expected before the limit",
    "searched": "directory that ckptd searched",
    "share": "observed share of run time spent saving",
    "should_resume_from": "checkpoint to resume from",
    "started_at": "this attempt started",
    "temporary_path": "path configured as temporary storage",
    "time_left_seconds": "time left",
    "total_bytes": "size of the file system",
    "unit": "unit of progress",
    "unmet_names": "named directories that do not exist",
    "unrecognised": "newest file of no known format",
    "unrecognised_at": "that file was written",
    "unrecognised_bytes": "size of that file",
    "usual_seconds": "usual delay of copies",
    "will_be_lost_seconds": "work lost at the limit",
    "workspace": "workspace",
    "workspace_directory": "directory of the workspace",
    "workspace_filesystem": "file system of the workspace",
}
LABELS_OF_RULES = {
    ("at-risk", "missing_seconds"): "more time needed for one more checkpoint",
    ("checkpoint-overdue", "age_seconds"): "time since the newest checkpoint",
    ("checkpoint-overdue", "bound_seconds"): "counted as overdue after",
    ("checkpoints-not-located", "reason"): "why they are not known",
    ("damaged-checkpoint", "role"): "role of the damaged checkpoint",
    ("damaged-checkpoint", "members"): "number of files of the damaged checkpoint",
    ("damaged-checkpoint", "format"): "format of the damaged checkpoint",
    ("damaged-checkpoint", "written_at"): "damaged checkpoint was written",
    ("interrupted-save", "age_seconds"): "leftovers unchanged for",
    ("interrupted-save", "size_bytes"): "size of the leftovers",
    ("no-checkpoint-yet", "bound_seconds"): "first checkpoint counted as late after",
    ("not-requeueable", "checkpoints"): "checkpoints to resume from",
    ("restart-loop", "attempts"): "attempts without progress",
    ("restart-loop", "window_seconds"): "time window of recent attempts",
    ("mail-held-back", "mails_in_an_hour"): "limit of mails per hour",
    ("mail-held-back", "most_of_them"): "waiting notices by rule",
    ("mail-held-back", "notices_waiting"): "notices waiting",
    ("mail-held-back", "people_waiting"): "users waiting for mail",
}
LOCATORS = {
    "comment": "the job's comment",
    "admin-comment": "the job's AdminComment",
    "user-file": ".ckptd.toml",
    "watch": "a [[watch]] rule of the site",
    "batch-script": "the batch script",
    "discovery": "a search of the working directory",
    "copy": "a run of which it is a further location",
    "trash": "the trash in it",
}
FATES = {"writing": "being written", "unknown": "unreadable", "deleted": "deleted or replaced"}
UNSHOWN = frozenset(
    {
        "array_job_id",
        "interval_spread_seconds",
        "intent",
        "is_certain",
        "is_earliest",
        "is_expired",
        "is_own_workspace",
        "has_overwritten",
        "intervals_known",
        "job_id",
        "located_by",
        "name_count",
        "other_tasks",
        "saves_on_improvement",
        "signal_seconds",
        "slurm_job",
    }
)
UNSHOWN_OF_RULES = frozenset(  # the text has them
    {("job-held", "release_with"), ("not-resubmitted", "reason"), ("restarted-without-checkpoint", "found")}
)


def name_run(directory: str, job: object = None, job_name: str = "") -> str:
    """Return a run's name: its directory, or its job while the directory is unknown."""
    if directory.startswith("/"):
        return directory
    number = job or directory.removeprefix("job:").partition("@")[0]
    return f"Job {number}{f' ({job_name})' if job_name else ''}, directory unknown"


def locator_of(name: str) -> str:
    """Return what named or found a checkpoint directory; fall back to its name."""
    return LOCATORS.get(name, name)


def fate_of(name: str) -> str:
    """Return what happened to a checkpoint; fall back to the name of the fate."""
    return FATES.get(name, name)


def title_of(rule: str) -> str:
    """Return a rule's title; fall back to the rule's name."""
    return TITLES.get(rule) or rule.replace("-", " ").capitalize()


def label_of(rule: str, name: str) -> str | None:
    """Return the label of an evidence field; None if the field is not shown to people."""
    if name in UNSHOWN or (rule, name) in UNSHOWN_OF_RULES:
        return None
    if label := LABELS_OF_RULES.get((rule, name)) or LABELS.get(name):
        return label
    for unit in ("_seconds", "_bytes"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")
