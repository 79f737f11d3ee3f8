"""Cases of the text about the site's own cleaning."""

from present.flag_cases.case import DIRECTORY, Case

PURGED = {
    "newest_good": f"{DIRECTORY}/epoch_9.pt",
    "newest_good_step": 1500000,
    "newest_good_epoch": 9,
    "goes_at": "2026-04-26T12:00:00+00:00",
    "workspace": None,
    "purged_path": "/scratch",
    "purged_by": "atime",
    "purged_after_days": 56,
    "counted_from_at": "2026-03-01T12:00:00+00:00",
    "is_earliest": True,
    "slurm_job": "1",
}
EXPIRES = {
    "newest_good": "/lustre/ws/alice-train/epoch_9.pt",
    "newest_good_step": None,
    "newest_good_epoch": 9,
    "goes_at": "2026-04-26T12:00:00+00:00",
    "workspace": "train",
    "workspace_directory": "/lustre/ws/alice-train",
    "workspace_filesystem": "lustre",
    "is_own_workspace": True,
    "is_expired": False,
    "extension_count": 2,
    "slurm_job": "1",
}
CASES = {
    "purged by access time": Case(
        "will-be-purged",
        PURGED,
        "The site deletes files below /scratch that were not accessed for 56 days. The newest complete checkpoint of this run is /scratch/alice/run/epoch_9.pt (epoch 9). Its age counts from 2026-03-01 12:00 UTC, so it may be deleted from 2026-04-26 12:00 UTC on. The site may keep it longer, because ckptd does not record when files were accessed.",
        "Copy this checkpoint before then to storage that the site does not clean, or continue the run so that it saves a new one. Many sites forbid `touch` and similar ways to make files look younger.",
    ),
    "purged by modification time": Case(
        "will-be-purged",
        PURGED | {"purged_by": "mtime", "purged_after_days": 1, "is_earliest": False, "newest_good_epoch": None},
        "The site deletes files below /scratch that were not modified for 1 day. The newest complete checkpoint of this run is /scratch/alice/run/epoch_9.pt (step 1500000). Its age counts from 2026-03-01 12:00 UTC, so it may be deleted from 2026-04-26 12:00 UTC on.",
        "Copy this checkpoint before then to storage that the site does not clean, or continue the run so that it saves a new one. Many sites forbid `touch` and similar ways to make files look younger.",
    ),
    "purged by change time, of which a bound is known": Case(
        "will-be-purged",
        PURGED | {"purged_by": "ctime", "newest_good_epoch": None, "newest_good_step": None},
        "The site deletes files below /scratch that were not changed for 56 days. The newest complete checkpoint of this run is /scratch/alice/run/epoch_9.pt. Its age counts from 2026-03-01 12:00 UTC, so it may be deleted from 2026-04-26 12:00 UTC on. The site may keep it longer if it was changed since.",
        "Copy this checkpoint before then to storage that the site does not clean, or continue the run so that it saves a new one. Many sites forbid `touch` and similar ways to make files look younger.",
    ),
    "a workspace expires": Case(
        "will-be-purged",
        EXPIRES,
        "The workspace train (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. After that, the site removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean, or extend the workspace (2 extensions left):",
        "ws_extend -F lustre train 30",
    ),
    "a workspace expired, without a known file system": Case(
        "will-be-purged",
        EXPIRES | {"is_expired": True, "workspace_filesystem": None, "extension_count": None},
        "The workspace train (/lustre/ws/alice-train) expired at 2026-04-26 12:00 UTC. The site may remove all files in it at any time, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint now to storage that the site does not clean, or extend the workspace:",
        "ws_extend train 30",
    ),
    "a workspace expires that cannot be extended": Case(
        "will-be-purged",
        EXPIRES | {"extension_count": 0},
        "The workspace train (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. After that, the site removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean: the workspace has no extensions left.",
    ),
    "another user's workspace expires": Case(
        "will-be-purged",
        EXPIRES | {"workspace": "bob-train", "is_own_workspace": False},
        "The workspace bob-train (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. After that, the site removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean, or ask the owner of the workspace to extend it.",
    ),
    "a workspace with a name that a shell would read": Case(
        "will-be-purged",
        EXPIRES | {"workspace": "x;rm"},
        "The workspace x;rm (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. After that, the site removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean, or extend the workspace (2 extensions left) with `ws_extend`.",
    ),
}
