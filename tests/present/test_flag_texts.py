"""The exact text of every rule, for evidence as the rules record it."""

import json
from dataclasses import replace
from datetime import timedelta, timezone
from typing import NamedTuple

import pytest

from ckptd.core.health import RULES
from ckptd.core.model import Finding, Severity
from ckptd.core.notices import HELD_BACK, SAMPLE
from ckptd.present import flag_texts
from ckptd.present.labels import TITLES
from core.histories import RUN


class Case(NamedTuple):
    rule: str
    evidence: dict
    statement: str
    advice: str
    command: str | None = None


DIRECTORY = "/scratch/alice/run"
AT_RISK = {
    "time_left_seconds": 2100,
    "next_checkpoint_in_seconds": 2400,
    "saves_that_fit": 0,
    "interval_seconds": 3600,
    "interval_spread_seconds": 0,
    "intervals_known": 3,
    "save_seconds": 120,
    "will_be_lost_seconds": 3300,
    "signal_seconds": 300,
    "chance": 0.95,
    "is_certain": False,
    "asked_signal": None,
    "asked_signal_seconds": None,
    "missing_seconds": 360,
    "maintenance": None,
    "maintenance_at": None,
    "slurm_job": "7_3",
}
RESTARTED = {
    "found": "none",
    "restart_count": 1,
    "kind": "requeue",
    "attempts": 2,
    "started_at": "2026-03-01T13:02:00+00:00",
    "earlier_run_time_seconds": 2040,
    "directory": DIRECTORY,
    "located_by": "discovery",
    "unmet_names": [],
    "searched": None,
    "signal_seconds": 600,
    "slurm_job": "1",
}
NO_CHECKPOINT = {
    "run_time_seconds": 3660,
    "bound_seconds": 3600,
    "time_left_seconds": 82_740,
    "directory": DIRECTORY,
    "unmet_names": [],
    "other_tasks": 0,
    "is_signalled_later": False,
    "slurm_job": "1",
}
DAMAGED = {
    "path": f"{DIRECTORY}/step-20.pt",
    "reason": "the file ends early",
    "role": "state",
    "format": "torch",
    "members": 1,
    "written_at": "2026-03-01T13:40:00+00:00",
    "damaged_since_good": 1,
    "newest_good": f"{DIRECTORY}/step-10.pt",
    "newest_good_epoch": None,
    "newest_good_step": 10,
    "newest_good_age_seconds": 1200,
    "slurm_job": "1",
}
BEHIND = {
    "directory": "/archive/alice/run",
    "other_directories": [],
    "newest_good": f"{DIRECTORY}/step-90.pt",
    "newest_copy": "/archive/alice/run/step-10.pt",
    "behind_seconds": 4800,
    "usual_seconds": 600,
    "slurm_job": "1",
}
INTERRUPTED = {
    "leftovers": [f"{DIRECTORY}/a.tmp", f"{DIRECTORY}/b.tmp"],
    "leftover_count": 2,
    "size_bytes": 200,
    "age_seconds": 1200,
    "newest_good": f"{DIRECTORY}/step-10.pt",
    "signal_seconds": 600,
    "slurm_job": "1",
}
NOT_RESUMING = {
    "deleted_count": 0,
    "intent": None,
    "unit": "step",
    "saved_before": 4000.0,
    "saved_now": 250.0,
    "restart_count": 1,
    "should_resume_from": f"{DIRECTORY}/step-4000.pt",
    "is_still_there": True,
    "saved_at": "2026-03-01T12:50:00+00:00",
    "slurm_job": "1",
}
LOOP = {
    "attempts": 3,
    "attempts_in_window": 1,
    "window_seconds": 1800,
    "first_started_at": "2026-03-01T12:00:00+00:00",
    "ran_seconds": 3240,
    "restart_count": 3,
    "causes": ["requeue"],
    "newest_good": None,
    "held_by": None,
    "array_job_id": None,
    "slurm_job": "1",
}
PREEMPTED = LOOP | {
    "longest_seconds": 1200,
    "is_interrupted": True,
    "causes": ["node-failure", "preemption"],
    "newest_good": f"{DIRECTORY}/a.pt",
    "directory": DIRECTORY,
    "located_by": "discovery",
    "signal_seconds": 600,
}
NOT_RESUBMITTED = {
    "reason": "the job saved no checkpoint with more progress than earlier attempts",
    "is_waited_for": False,
    "newest_good": None,
    "newest_good_step": None,
    "newest_good_epoch": None,
    "slurm_job": "1",
}
RESUBMITTED = {
    "ended_job": 71_234,
    "resubmission_number": 2,
    "goes_on_from": "step 5",
    "newest_good": f"{DIRECTORY}/step-5.pt",
    "remark": None,
    "slurm_job": "71250",
}
WRITERS = {
    "has_overwritten": False,
    "directory": DIRECTORY,
    "other_jobs": ["2"],
    "other_job_count": 1,
    "other_users": ["alice"],
    "slurm_job": "1",
}
ROOM = {
    "room_bytes": 150 * 2**20,
    "free_bytes": 10**9,
    "quota_left_bytes": 150 * 2**20,
    "total_bytes": 10**10,
    "checkpoint_bytes": 100 * 2**20,
    "held_bytes": 200 * 2**20,
    "newest_good": f"{DIRECTORY}/epoch_4.pt",
    "furthest_good": f"{DIRECTORY}/epoch_195.pt",
    "full_at": None,
    "slurm_job": "1",
}
GOAL = {
    "unit": "epoch",
    "goal": 90.0,
    "reached": 40.0,
    "fits": 12,
    "time_left_seconds": 43_200,
    "needs_seconds": 180_000,
    "missing_seconds": 136_861,
    "is_declared": True,
    "more_jobs": 4,
    "slurm_job": "1",
}
PICKLE = {
    "names": ["posix.system"],
    "name_count": 1,
    "paths": [f"{DIRECTORY}/step-10.pt"],
    "checkpoint_count": 1,
    "owner_uids": ["1000"],
    "slurm_job": "1",
}
FOREIGN = {"owner_uids": ["0"], "job_uid": 1000, "paths": [], "checkpoint_count": 2, "slurm_job": "1"}

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
    "at-risk": Case(
        "at-risk",
        AT_RISK,
        "About 55 min of work may be lost at the time limit. This is very likely (probability 95 %): no further checkpoint is expected before then.",
        "To save a checkpoint just before the limit, submit the next job with --signal=B:USR1@300, and trap USR1 in the batch script so that the program saves (without a trap, USR1 ends the job). Or save more often. To let this job save once more, ask an administrator to extend its time limit by 6 min:",
        "scontrol update JobId=7_3 TimeLimit=+6",
    ),
    "at-risk, certain": Case(
        "at-risk",
        AT_RISK | {"is_certain": True, "chance": 1.0},
        "If the job runs until its time limit, about 55 min of work will be lost: no further checkpoint is expected before then.",
        "To save a checkpoint just before the limit, submit the next job with --signal=B:USR1@300, and trap USR1 in the batch script so that the program saves (without a trap, USR1 ends the job). Or save more often. To let this job save once more, ask an administrator to extend its time limit by 6 min:",
        "scontrol update JobId=7_3 TimeLimit=+6",
    ),
    "at-risk, unlikely": Case(
        "at-risk",
        AT_RISK | {"chance": 0.24, "saves_that_fit": 1},
        "About 55 min of work may be lost at the time limit. This is unlikely (probability 24 %): only 1 more checkpoint is expected before then.",
        "To save a checkpoint just before the limit, submit the next job with --signal=B:USR1@300, and trap USR1 in the batch script so that the program saves (without a trap, USR1 ends the job). Or save more often. To let this job save once more, ask an administrator to extend its time limit by 6 min:",
        "scontrol update JobId=7_3 TimeLimit=+6",
    ),
    "at-risk, one fits": Case(
        "at-risk",
        AT_RISK | {"saves_that_fit": 1},
        "About 55 min of work may be lost at the time limit. This is very likely (probability 95 %): only 1 more checkpoint is expected before then.",
        "To save a checkpoint just before the limit, submit the next job with --signal=B:USR1@300, and trap USR1 in the batch script so that the program saves (without a trap, USR1 ends the job). Or save more often. To let this job save once more, ask an administrator to extend its time limit by 6 min:",
        "scontrol update JobId=7_3 TimeLimit=+6",
    ),
    "at-risk, the signal comes too late": Case(
        "at-risk",
        AT_RISK | {"asked_signal": "TERM", "asked_signal_seconds": 60},
        "About 55 min of work may be lost at the time limit. This is very likely (probability 95 %): no further checkpoint is expected before then.",
        "The batch script requests TERM 60 s before the limit, which is too late to save a checkpoint. Request it earlier with #SBATCH --signal=TERM@300. Or save more often. To let this job save once more, ask an administrator to extend its time limit by 6 min:",
        "scontrol update JobId=7_3 TimeLimit=+6",
    ),
    "at-risk, the signal was not followed": Case(
        "at-risk",
        AT_RISK | {"asked_signal": "B:USR1", "asked_signal_seconds": 300},
        "About 55 min of work may be lost at the time limit. This is very likely (probability 95 %): no further checkpoint is expected before then.",
        "The batch script requests B:USR1 300 s before the limit, but ckptd has not yet seen a checkpoint follow this signal. Check that it reaches the program (with B:, Slurm signals only the batch shell) and that the program then saves. Or save more often. To let this job save once more, ask an administrator to extend its time limit by 6 min:",
        "scontrol update JobId=7_3 TimeLimit=+6",
    ),
    "at-risk, maintenance": Case(
        "at-risk",
        AT_RISK | {"maintenance": "maint", "maintenance_at": "2026-03-01T15:45:00+00:00"},
        "About 55 min of work may be lost: the nodes of this job are reserved for maintenance (maint) from 2026-03-01 15:45 UTC, before its time limit.",
        "Slurm lets the job run on, but its nodes may be taken down. Save a checkpoint before then, or ask an administrator whether the job may continue.",
    ),
    "restarted, none found": Case(
        "restarted-without-checkpoint",
        RESTARTED,
        "This job seems to have restarted without a checkpoint: /scratch/alice/run, probably its checkpoint directory, contained no complete checkpoint when it started. If the job saves nowhere else, 34 min of earlier work is lost.",
        "Save a first checkpoint within a few minutes of the start. If the job saves checkpoints elsewhere, name their directory: submit with --comment=ckpt=PATH, or add `directory` to .ckptd.toml in the job's working directory.",
    ),
    "restarted, preempted again and again before the first save": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"interrupted_attempts": 5, "longest_seconds": 720, "located_by": "comment"},
        "This job restarted without a checkpoint: /scratch/alice/run contained no complete checkpoint when it started, so 34 min of earlier work is lost. The last 5 attempts were requeued, preempted or ended by a node failure before ckptd saw a checkpoint of theirs; the longest ran for 12 min.",
        "Save a first checkpoint within a few minutes of the start, and check that it is written to /scratch/alice/run. If Slurm grants a grace time before it preempts the job, also trap TERM in the batch script so that the program saves then:",
        "#SBATCH --signal=B:TERM@600",
    ),
    "restarted, nobody knows where it saves": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"directory": None, "located_by": None, "searched": "/home/alice"},
        "This job may have restarted without a checkpoint: ckptd found none in /home/alice. If the job saves nowhere else, up to 34 min of earlier work is lost.",
        "Save a first checkpoint within a few minutes of the start. If the job saves checkpoints elsewhere, name their directory: submit with --comment=ckpt=PATH, or add `directory` to .ckptd.toml in the job's working directory.",
    ),
    "restarted, what it names does not exist": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"directory": None, "located_by": None, "unmet_names": ["/scratch/alice/ck"]},
        "This job restarted without a checkpoint: /scratch/alice/ck, named as its checkpoint directory, does not exist, so 34 min of earlier work is lost.",
        "Check the path, and whether the job creates the directory and saves a first checkpoint there within a few minutes of the start.",
    ),
    "a copy cannot be read": Case(
        "checkpoints-not-located",
        {
            "reason": "/archive/alice/run",
            "directory": DIRECTORY,
            "restart_count": 1,
            "kind": "requeue",
            "started_at": "2026-03-01T13:02:00+00:00",
            "searched": None,
            "slurm_job": "1",
        },
        "This job restarted, and ckptd cannot tell whether it resumed: /scratch/alice/run had no complete checkpoint, and /archive/alice/run could not be read.",
        "`ckptd show JOB` says why that location could not be read. If you do not keep checkpoints there, remove it from the job's comment or .ckptd.toml.",
    ),
    "not located": Case(
        "checkpoints-not-located",
        {
            "reason": "the batch script names $RUNS/ck, which has a value that ckptd does not know",
            "restart_count": 1,
            "kind": "requeue",
            "started_at": "2026-03-01T13:02:00+00:00",
            "searched": "/home/alice",
            "slurm_job": "1",
        },
        "This job restarted, and ckptd does not know where its checkpoints are, so it cannot tell whether the job resumed: the batch script names $RUNS/ck, which has a value that ckptd does not know.",
        "If the job saves checkpoints, name their directory: submit with --comment=ckpt=PATH, or add `directory` to .ckptd.toml in the job's working directory.",
    ),
    "restarted, the named directory is empty": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"located_by": "comment"},
        "This job restarted without a checkpoint: /scratch/alice/run contained no complete checkpoint when it started, so 34 min of earlier work is lost.",
        "Save a first checkpoint within a few minutes of the start, and check that it is written to /scratch/alice/run.",
    ),
    "restarted, only downloads are there": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"found": "inputs"},
        "This job may have restarted without a checkpoint: ckptd found only weights in /scratch/alice/run, written when the job started and never again, as a download is. If the job saves nowhere else, up to 34 min of earlier work is lost.",
        "Save a first checkpoint within a few minutes of the start. If the job saves checkpoints elsewhere, name their directory: submit with --comment=ckpt=PATH, or add `directory` to .ckptd.toml in the job's working directory.",
    ),
    "restarted, damaged": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"found": "damaged"},
        "This job restarted without a checkpoint: its checkpoints were damaged or incomplete, so 34 min of earlier work is lost.",
        "Keep at least the newest two checkpoints, and write each under a temporary name before you rename it.",
    ),
    "restarted, deleted before": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"found": "deleted", "deleted_count": 3, "restart_count": 0, "kind": "resubmit"},
        "This job restarted without a checkpoint: 3 complete checkpoints had been deleted from /scratch/alice/run, and none was left, so 34 min of earlier work is lost.",
        "If you deleted the earlier checkpoints to start over, you need not do anything. Otherwise, check whether the batch script, the program or a clean-up job empties the directory.",
    ),
    "restarted, unreadable": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"found": "unreadable"},
        "This job may have restarted without a checkpoint: ckptd could not read the checkpoints in /scratch/alice/run.",
        "Check the permissions of /scratch/alice/run and of the files in it.",
    ),
    "restarted, unfinished": Case(
        "restarted-without-checkpoint",
        RESTARTED | {"found": "unfinished", "earlier_run_time_seconds": None},
        "This job restarted without a checkpoint: its only checkpoint was still being written when the earlier attempt ended, so its earlier work is lost.",
        "Save the first checkpoint earlier. If the time limit ended the earlier attempt, also let Slurm send a signal earlier, and trap it in the batch script so that the program saves a checkpoint:",
        "#SBATCH --signal=B:TERM@600",
    ),
    "nothing saved in its directory": Case(
        "no-checkpoint-yet",
        NO_CHECKPOINT,
        "No checkpoint has been saved in /scratch/alice/run since the job started. If the job ends early, all of its work so far is lost.",
        "If the job saves elsewhere, name that directory for the next job: --comment=ckpt=PATH or `directory` in .ckptd.toml. If the job has no checkpoints by design, tell ckptd: scontrol update JobId=1 Comment=ckpt=none (this replaces the job's comment), and --comment=ckpt=none for later jobs.",
    ),
    "nothing saved, and a signal is still to come": Case(
        "no-checkpoint-yet",
        NO_CHECKPOINT | {"is_signalled_later": True},
        "No checkpoint has been saved in /scratch/alice/run since the job started. If the job ends early, all of its work so far is lost. It is signalled before its time limit, and may save only then.",
        "If the job saves elsewhere, name that directory for the next job: --comment=ckpt=PATH or `directory` in .ckptd.toml. If the job has no checkpoints by design, tell ckptd: scontrol update JobId=1 Comment=ckpt=none (this replaces the job's comment), and --comment=ckpt=none for later jobs.",
    ),
    "nothing saved, no directory known": Case(
        "no-checkpoint-yet",
        NO_CHECKPOINT | {"directory": None, "slurm_job": "7_3"},
        "No checkpoint of this job has been found since it started. If the job ends early, all of its work so far is lost.",
        "If the job has no checkpoints by design, tell ckptd: scontrol update JobId=7_3 Comment=ckpt=none (this replaces the job's comment), and --comment=ckpt=none for later jobs. If it saves checkpoints, name their directory for later jobs (--comment=ckpt=PATH or `directory` in .ckptd.toml) and for this one (this replaces the job's comment):",
        "scontrol update JobId=7_3 Comment=ckpt=PATH",
    ),
    "nothing saved, the name is wrong": Case(
        "no-checkpoint-yet",
        NO_CHECKPOINT | {"unmet_names": ["/scartch/x"]},
        "No checkpoint has been saved since the job started, and a directory that the job's comment or .ckptd.toml names does not exist: /scartch/x.",
        "Check the path, and whether the job creates the directory; a relative path starts at the job's working directory. If the job ends early, all of its work so far is lost.",
    ),
    "overdue": Case(
        "checkpoint-overdue",
        {
            "age_seconds": 5400,
            "bound_seconds": 1800,
            "interval_seconds": 600,
            "intervals_known": 4,
            "newest_checkpoint_at": "2026-03-01T12:40:00+00:00",
            "job_id": 12,
            "directory": "/scratch/alice/run",
            "located_by": "comment",
            "saves_on_improvement": False,
            "slurm_job": "7_3",
        },
        "No checkpoint has been saved in /scratch/alice/run for 1 h 30 min; the job usually saves one every 10 min.",
        "Read the job's output, and check whether the disk or quota is full. If the job hangs, cancel it (scancel 7_3) and resume from the newest checkpoint. To check whether it still computes:",
        "srun --jobid=12 --overlap --pty top",
    ),
    "overdue where a search found checkpoints": Case(
        "checkpoint-overdue",
        {
            "age_seconds": 5400,
            "bound_seconds": 1800,
            "interval_seconds": 600,
            "intervals_known": 4,
            "newest_checkpoint_at": None,
            "job_id": 12,
            "directory": "/scratch/alice/run",
            "located_by": "discovery",
            "saves_on_improvement": False,
            "slurm_job": "7_3",
        },
        "No checkpoint has been saved in /scratch/alice/run for 1 h 30 min; the job usually saves one every 10 min.",
        "If the job saves elsewhere now, name that directory for later jobs: --comment=ckpt=PATH or `directory` in .ckptd.toml. Otherwise, read the job's output, and check whether the disk or quota is full. If the job hangs, cancel it (scancel 7_3) and resume from the newest checkpoint. To check whether it still computes:",
        "srun --jobid=12 --overlap --pty top",
    ),
    "overdue, of a job that saves what is better": Case(
        "checkpoint-overdue",
        {
            "age_seconds": 5400,
            "bound_seconds": 1800,
            "interval_seconds": 600,
            "intervals_known": 4,
            "newest_checkpoint_at": None,
            "job_id": 12,
            "directory": "/scratch/alice/run",
            "located_by": "comment",
            "slurm_job": "7_3",
            "saves_on_improvement": True,
        },
        "No checkpoint has been saved in /scratch/alice/run for 1 h 30 min. The job seems to save only when a measured value improves; then no interval can be expected, and a longer time without one is normal.",
        "Save at regular intervals, too, so that a restart loses little. Read the job's output, and check whether the disk or quota is full. If the job hangs, cancel it (scancel 7_3) and resume from the newest checkpoint. To check whether it still computes:",
        "srun --jobid=12 --overlap --pty top",
    ),
    "damaged": Case(
        "damaged-checkpoint",
        DAMAGED,
        "The newest checkpoint, /scratch/alice/run/step-20.pt, is damaged. The newest complete checkpoint is /scratch/alice/run/step-10.pt.",
        "Resume from the complete checkpoint. If the program always loads the newest one, move the damaged one aside first. To avoid damage, write each checkpoint under a temporary name, then rename it.",
    ),
    "damaged, none is left": Case(
        "damaged-checkpoint",
        DAMAGED | {"newest_good": None},
        "The newest checkpoint, /scratch/alice/run/step-20.pt, is damaged, and no complete checkpoint is left.",
        "Make the program save a new checkpoint soon. Write each checkpoint under a temporary name, rename it when it is complete, and keep at least the newest two.",
    ),
    "interrupted": Case(
        "interrupted-save",
        INTERRUPTED,
        "A save was interrupted and left /scratch/alice/run/b.tmp behind (2 leftovers in total).",
        "Resume from /scratch/alice/run/step-10.pt, then delete the leftovers. If the time limit interrupted the save, let Slurm send a signal early enough, and trap it in the batch script so that the program saves a checkpoint:",
        "#SBATCH --signal=B:USR1@600",
    ),
    "interrupted, none is left": Case(
        "interrupted-save",
        INTERRUPTED | {"newest_good": None},
        "A save was interrupted and left /scratch/alice/run/b.tmp behind (2 leftovers in total). There is no complete checkpoint.",
        "If the time limit interrupted the save, let Slurm send a signal early enough, and trap it in the batch script so that the program saves a checkpoint:",
        "#SBATCH --signal=B:USR1@600",
    ),
    "not resuming": Case(
        "not-resuming",
        NOT_RESUMING,
        "After the restart, the job saved step 250, although step 4000 had been saved before it. So it has probably not resumed from that checkpoint.",
        "Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "started over, probably": Case(
        "not-resuming",
        NOT_RESUMING | {"saved_now": 4000.0, "resume_certainty": "inferred", "resumed_from": None},
        "After the restart, the job saved step 4000, although step 4000 had been saved before it. It probably started from the beginning.",
        "Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "resumed from an older one, as it says": Case(
        "not-resuming",
        NOT_RESUMING | {"resume_certainty": "declared", "resumed_from": f"{DIRECTORY}/step-200.pt"},
        "After the restart, the job saved step 250, although step 4000 had been saved before it. It resumed from /scratch/alice/run/step-200.pt.",
        "Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "started over, as the program's record shows": Case(
        "not-resuming",
        NOT_RESUMING
        | {"unit": None, "saved_before": None, "saved_now": None, "resume_certainty": "proven", "resumed_from": None},
        "After the restart, the job does not continue /scratch/alice/run/step-4000.pt, as the program's own record shows. It started from the beginning.",
        "Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "not resuming, after many steps": Case(
        "not-resuming",
        NOT_RESUMING | {"saved_before": 12_345_678.0},
        "After the restart, the job saved step 250, although step 12345678 had been saved before it. So it has probably not resumed from that checkpoint.",
        "Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "not resuming, replaced": Case(
        "not-resuming",
        NOT_RESUMING | {"is_still_there": False},
        "After the restart, the job saved step 250, although step 4000 had been saved before it. So it has probably not resumed from that checkpoint.",
        "/scratch/alice/run/step-4000.pt has since been replaced or deleted. Make the program load its newest checkpoint when it starts, and save each checkpoint under a name of its own.",
    ),
    "not resuming, by a program that may count anew": Case(
        "not-resuming",
        NOT_RESUMING | {"intent": "counted-anew"},
        "After the restart, the job saved step 250, although step 4000 had been saved before it. NAMD counts from 0 again if firsttimestep is not set, also after it has loaded a checkpoint.",
        "If the job did load its restart files, set firsttimestep to the step of the last save in the next one's input. Otherwise: Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "not resuming, under other names": Case(
        "not-resuming",
        NOT_RESUMING | {"intent": "other-names"},
        "After the restart, the job saved step 250, although step 4000 had been saved before it. It saves under names that no earlier checkpoint has. So it has probably not resumed from that checkpoint.",
        "If you meant the job to start over or to do other work, ignore this message. Otherwise: Make the program load /scratch/alice/run/step-4000.pt when it starts, and do not let it overwrite that checkpoint.",
    ),
    "not resuming, after everything was deleted": Case(
        "not-resuming",
        NOT_RESUMING | {"is_still_there": False, "deleted_count": 3},
        "After the restart, the job saved step 250, although step 4000 had been saved before it. So it has probably not resumed from that checkpoint.",
        "If you deleted the earlier checkpoints to start over, you need not do anything. Otherwise, check whether the batch script, the program or a clean-up job empties the directory.",
    ),
    "a new job is not resuming, and the checkpoints were deleted": Case(
        "not-resuming",
        NOT_RESUMING | {"is_still_there": False, "restart_count": 0},
        "After the restart, the job saved step 250, although step 4000 had been saved before it. So it has probably not resumed from that checkpoint.",
        "/scratch/alice/run/step-4000.pt has since been replaced or deleted. Make the program load its newest checkpoint when it starts, and save each checkpoint under a name of its own. If you deleted the earlier checkpoints to start over, you need not do anything.",
    ),
    "loop of requeues": Case(
        "restart-loop",
        LOOP,
        "3 attempts in a row saved no further progress, in 54 min of run time altogether. There is no checkpoint to resume from.",
        "Requeue and hold the job, then find in its output why it ends without a new checkpoint, and fix that. To requeue and hold it:",
        "scontrol requeuehold 1",
    ),
    "loop, held by ckptd": Case(
        "restart-loop",
        LOOP | {"held_by": "ckptd", "newest_good": f"{DIRECTORY}/a.pt"},
        "3 attempts in a row saved no further progress, in 54 min of run time altogether. The job should resume from /scratch/alice/run/a.pt.",
        "ckptd held the job: find in its output why it ends without a new checkpoint, and fix that; then release it:",
        "scontrol release 1",
    ),
    "loop, held by somebody else": Case(
        "restart-loop",
        LOOP | {"held_by": "somebody else"},
        "3 attempts in a row saved no further progress, in 54 min of run time altogether. There is no checkpoint to resume from.",
        "The job is held: find in its output why it ends without a new checkpoint, and fix that; then release it:",
        "scontrol release 1",
    ),
    "loop of an array": Case(
        "restart-loop",
        LOOP | {"restart_count": 0, "array_job_id": 7, "slurm_job": "7_3"},
        "3 attempts in a row saved no further progress, in 54 min of run time altogether. There is no checkpoint to resume from.",
        "Hold the pending tasks of the array, then find in the output of the failed tasks why they end without a new checkpoint, and fix that. To hold them:",
        "scontrol hold 7",
    ),
    "loop of submissions": Case(
        "restart-loop",
        LOOP | {"restart_count": 0},
        "3 attempts in a row saved no further progress, in 54 min of run time altogether. There is no checkpoint to resume from.",
        "Cancel the job, find in its output why it ends without a new checkpoint, and fix that; then submit it again. To cancel it:",
        "scancel 1",
    ),
    "loop of preemptions": Case(
        "restart-loop",
        PREEMPTED | {"located_by": "comment"},
        "3 attempts in a row were ended by a node failure or preemption before they saved a checkpoint; 54 min of run time is lost. The job should resume from /scratch/alice/run/a.pt.",
        "Save checkpoints more often than the job is interrupted, and the first one soon after each start: the longest of these attempts ran for 20 min. If Slurm grants a grace time before it preempts the job, also trap TERM in the batch script so that the program saves then:",
        "#SBATCH --signal=B:TERM@600",
    ),
    "loop of preemptions in a directory that nobody named": Case(
        "restart-loop",
        PREEMPTED | {"causes": ["preemption"]},
        "3 attempts in a row were ended by preemption before they saved a checkpoint; if the job saves nowhere else than in /scratch/alice/run, 54 min of run time is lost. The job should resume from /scratch/alice/run/a.pt.",
        "Save checkpoints more often than the job is interrupted, and the first one soon after each start: the longest of these attempts ran for 20 min. If Slurm grants a grace time before it preempts the job, also trap TERM in the batch script so that the program saves then:",
        "#SBATCH --signal=B:TERM@600",
    ),
    "held": Case(
        "job-held",
        {"restart_count": 3, "release_with": "scontrol release 1", "slurm_job": "1"},
        "ckptd held this job because it was requeued repeatedly without saving further progress. It will not start until you release it.",
        "Find in its output why it ends without a new checkpoint, and fix that, or cancel it (scancel 1). To release it:",
        "scontrol release 1",
    ),
    "not resubmitted": Case(
        "not-resubmitted",
        NOT_RESUBMITTED,
        "This job reached its time limit, and ckptd did not resubmit it: the job saved no checkpoint with more progress than earlier attempts.",
        "To continue, resubmit the job yourself and let it resume from its newest checkpoint.",
    ),
    "not resubmitted, another may continue": Case(
        "not-resubmitted",
        NOT_RESUBMITTED | {"is_waited_for": True},
        "This job reached its time limit. ckptd does not resubmit it because another job of yours, pending or just started in the same working directory, may continue its work, and both would then write to the same directory.",
        "If that job does not continue this one, resubmit this one yourself.",
    ),
    "resubmitted": Case(
        "resubmitted",
        RESUBMITTED,
        "ckptd submitted this job because job 71234 reached its time limit and .ckptd.toml sets `resubmit`. At that time, the newest checkpoint to resume from was step 5.",
        "To end the resubmissions, remove `resubmit` from .ckptd.toml and cancel the job:",
        "scancel 71250",
    ),
    "resubmitted with fewer options": Case(
        "resubmitted",
        RESUBMITTED | {"goes_on_from": None, "remark": "accounting has no command line of it"},
        "ckptd submitted this job because job 71234 reached its time limit and .ckptd.toml sets `resubmit`.",
        "Check that the job has all options that it needs: accounting has no command line of it. To end the resubmissions, remove `resubmit` from .ckptd.toml and cancel the job:",
        "scancel 71250",
    ),
    "two writers": Case(
        "concurrent-writers",
        WRITERS,
        "This job and 1 other running job have the same checkpoint directory, /scratch/alice/run. If they use the same file names, they overwrite each other's checkpoints.",
        "If each of them uses file names of its own, you need not do anything. Otherwise, cancel all but one. Give each job a directory of its own, for example with $SLURM_JOB_ID or $SLURM_ARRAY_TASK_ID in the path: in a shared one, ckptd cannot tell which job wrote which checkpoint.",
    ),
    "writers that collide": Case(
        "concurrent-writers",
        WRITERS | {"has_overwritten": True},
        "This job and 1 other running job overwrite each other's checkpoints in /scratch/alice/run: a checkpoint was followed by one with less or the same progress.",
        "Cancel all but one of these jobs. Give each job a directory of its own, for example with $SLURM_JOB_ID or $SLURM_ARRAY_TASK_ID in the path: in a shared one, ckptd cannot tell which job wrote which checkpoint.",
    ),
    "writers of other users": Case(
        "concurrent-writers",
        WRITERS | {"other_job_count": 2, "other_users": ["alice", "bob", "eve"]},
        "This job and 2 other running jobs have the same checkpoint directory, /scratch/alice/run. If they use the same file names, they overwrite each other's checkpoints.",
        "If each of them uses file names of its own, you need not do anything. Otherwise, cancel all but one. Give each job a directory of its own, for example with $SLURM_JOB_ID or $SLURM_ARRAY_TASK_ID in the path: in a shared one, ckptd cannot tell which job wrote which checkpoint. Other users involved: bob, eve; they are notified as well.",
    ),
    "too frequent": Case(
        "too-frequent",
        {
            "interval_seconds": 60,
            "save_seconds": 20,
            "share": 0.333,
            "optimum_seconds": 2400,
            "mean_time_between_interruptions_seconds": 144_000,
            "slurm_job": "1",
        },
        "Saving checkpoints takes at least 33% of the run time.",
        "Save less often: an interval of about 40 min minimises the time lost to saving and to interruptions on this cluster. Also save once shortly before the time limit.",
    ),
    "too frequent, the share is not known": Case(
        "too-frequent",
        {
            "interval_seconds": 60,
            "save_seconds": 20,
            "share": 0.0,
            "optimum_seconds": 2400,
            "mean_time_between_interruptions_seconds": 144_000,
            "slurm_job": "1",
        },
        "Saving checkpoints takes a large share of the run time.",
        "Save less often: an interval of about 40 min minimises the time lost to saving and to interruptions on this cluster. Also save once shortly before the time limit.",
    ),
    "too sparse": Case(
        "too-sparse",
        {
            "interval_seconds": 14_400,
            "optimum_seconds": 2400,
            "save_seconds": 20,
            "longest_save_seconds": 40,
            "mean_time_between_interruptions_seconds": 144_000,
            "interruptions_counted": 3,
            "nodes": 4,
            "slurm_job": "1",
        },
        "The job saves a checkpoint only every 4 h, although saving takes 20 s. An interruption loses all work since the last checkpoint.",
        "Save more often: an interval of about 40 min minimises the time lost to saving and to interruptions such as node failures and preemptions.",
    ),
    "volatile": Case(
        "volatile-path",
        {
            "directory": "/tmp/run",
            "temporary_path": "/tmp",
            "filesystem_type": None,
            "checkpoints": 2,
            "slurm_job": "1",
        },
        "Checkpoints in /tmp/run are on temporary storage: they are lost if the node fails, and the site may delete them when the job ends.",
        "Save to permanent storage such as the parallel file system, or copy each checkpoint there as soon as it is complete, not only at the end of the job.",
    ),
    "no room in the quota": Case(
        "no-room",
        ROOM,
        "The next checkpoint may not fit: 150.0 MiB is left of the quota, and a checkpoint takes 100.0 MiB.",
        "Before the next save, ask for more space or delete older checkpoints (this job's checkpoints take 200.0 MiB in total). Do not delete /scratch/alice/run/epoch_4.pt or /scratch/alice/run/epoch_195.pt.",
    ),
    "no room on the disk": Case(
        "no-room",
        ROOM | {"quota_left_bytes": None, "furthest_good": ROOM["newest_good"]},
        "The next checkpoint may not fit: 150.0 MiB is free, and a checkpoint takes 100.0 MiB.",
        "Before the next save, ask for more space or delete older checkpoints (this job's checkpoints take 200.0 MiB in total). Do not delete /scratch/alice/run/epoch_4.pt.",
    ),
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
        "The workspace train (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. The site then removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean, or extend the workspace (2 extensions left):",
        "ws_extend -F lustre train 30",
    ),
    "a workspace expired, without a known file system": Case(
        "will-be-purged",
        EXPIRES | {"is_expired": True, "workspace_filesystem": None, "extension_count": None},
        "The workspace train (/lustre/ws/alice-train) expired at 2026-04-26 12:00 UTC. The site then removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint now to storage that the site does not clean, or extend the workspace:",
        "ws_extend train 30",
    ),
    "a workspace expires that cannot be extended": Case(
        "will-be-purged",
        EXPIRES | {"extension_count": 0},
        "The workspace train (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. The site then removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean: the workspace has no extensions left.",
    ),
    "another user's workspace expires": Case(
        "will-be-purged",
        EXPIRES | {"workspace": "bob-train", "is_own_workspace": False},
        "The workspace bob-train (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. The site then removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean, or ask the owner of the workspace to extend it.",
    ),
    "a workspace with a name that a shell would read": Case(
        "will-be-purged",
        EXPIRES | {"workspace": "x;rm"},
        "The workspace x;rm (/lustre/ws/alice-train) expires at 2026-04-26 12:00 UTC. The site then removes all files in it, including the newest complete checkpoint of this run, /lustre/ws/alice-train/epoch_9.pt (epoch 9).",
        "Copy this checkpoint before then to storage that the site does not clean, or extend the workspace (2 extensions left) with `ws_extend`.",
    ),
    "copies are behind": Case(
        "copy-behind",
        BEHIND,
        "The copies in /archive/alice/run are 1 h 20 min behind; usual is 10 min. The newest complete checkpoint is /scratch/alice/run/step-90.pt; the newest complete copy is /archive/alice/run/step-10.pt.",
        "Check that the command which copies the checkpoints still runs, and that the quota there is not used up. If you do not copy them there any more, remove the directory from the job's comment or .ckptd.toml.",
    ),
    "copies are behind, and nobody knows how far is usual": Case(
        "copy-behind",
        BEHIND | {"usual_seconds": None, "behind_seconds": 90_000, "other_directories": ["/project/run"]},
        "The copies in /archive/alice/run are 1 d 1 h behind. The newest complete checkpoint is /scratch/alice/run/step-90.pt; the newest complete copy is /archive/alice/run/step-10.pt. Also behind: /project/run.",
        "Check that the command which copies the checkpoints still runs, and that the quota there is not used up. If you do not copy them there any more, remove the directory from the job's comment or .ckptd.toml.",
    ),
    "no copy": Case(
        "copy-behind",
        BEHIND | {"newest_copy": None, "usual_seconds": None},
        "/archive/alice/run is named for copies of this job's checkpoints, but contains no complete copy. The newest complete checkpoint is /scratch/alice/run/step-90.pt.",
        "Check that the command which copies the checkpoints still runs, and that the quota there is not used up. If you do not copy them there any more, remove the directory from the job's comment or .ckptd.toml.",
    ),
    "will not finish": Case(
        "will-not-finish",
        GOAL,
        "At its current pace, this job will not reach its goal before the time limit: 12 more epochs fit, up to epoch 52 of 90.",
        "Submit a job that continues this one (--dependency=afterany:1), or ask an administrator to extend its time limit by 1 d 14 h:",
        "scontrol update JobId=1 TimeLimit=+2282",
    ),
    "will not finish, one fits": Case(
        "will-not-finish",
        GOAL | {"fits": 1, "missing_seconds": -30},
        "At its current pace, this job will not reach its goal before the time limit: 1 more epoch fits, up to epoch 41 of 90.",
        "Submit a job that continues this one (--dependency=afterany:1), or ask an administrator to extend its time limit by 1 min:",
        "scontrol update JobId=1 TimeLimit=+1",
    ),
    "not requeueable": Case(
        "not-requeueable",
        {"partition": "gpu", "preemptions_of_run": 0, "checkpoints": 3, "slurm_job": "7_3"},
        "Slurm may preempt jobs in partition gpu, and this job would then not be requeued.",
        "Make sure that the job resumes from its newest checkpoint when it starts, and submit later jobs with #SBATCH --requeue. To let Slurm requeue this job:",
        "scontrol update JobId=7_3 Requeue=1",
    ),
    "unsafe pickle": Case(
        "unsafe-pickle",
        PICKLE,
        "Loading a checkpoint of this run would call code that is not known to be safe: posix.system.",
        "Before anyone loads the checkpoint, ask the owner of its files which program wrote it. torch.load(..., weights_only=True) and safetensors load data without running such code.",
    ),
    "unsafe pickles": Case(
        "unsafe-pickle",
        PICKLE | {"names": ["a.b", "c.d", "e.f", "g.h"], "name_count": 14, "checkpoint_count": 2000},
        "Loading 2,000 checkpoints of this run would call code that is not known to be safe: a.b, c.d, e.f and 11 more.",
        "Before anyone loads the checkpoint, ask the owner of its files which program wrote it. torch.load(..., weights_only=True) and safetensors load data without running such code.",
    ),
    "foreign owner": Case(
        "foreign-owner",
        FOREIGN,
        "2 checkpoints of this run have files that belong to another user (uid 0), and the job may load them.",
        "Find out who wrote these files before the job loads them. If their owner is a service account of the site, add its name or uid to service_uids in [health.rules.foreign-owner] of ckptd's configuration.",
    ),
    "mail is held back": Case(
        HELD_BACK,
        {"mails_in_an_hour": 50, "people_waiting": 40, "notices_waiting": 1300, "most_of_them": ["no-room: 1,200"]},
        "More mail is due than [mail] max_per_hour (50) allows: 1,300 notices to 40 users wait. ckptd sends the waiting mail at the allowed rate, starting with critical flags.",
        'First find the cause that affects many users at once, and fix it. To send the mail faster, raise [mail] max_per_hour; to send mail only to administrators, set [mail] mode = "admin". To list all flags:',
        "ckptd flags",
    ),
    "test message": Case(
        SAMPLE,
        {},
        "This is a test message. It shows that notifications are delivered.",
        "Nothing: the job named in this message does not exist.",
    ),
}


def finding(rule, evidence, recorded_advice=""):
    return Finding(
        rule=rule,
        severity=Severity.WARNING,
        run=RUN,
        job_id=1,
        user="alice",
        evidence=evidence,
        recorded_advice=recorded_advice,
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_rule_is_worded_from_its_evidence(case):
    recorded = json.loads(json.dumps(case.evidence))
    text = flag_texts.make_text(case.rule, recorded, user="alice")
    assert (text.statement, text.advice, text.command) == (case.statement, case.advice, case.command)
    assert text.title == TITLES[case.rule]
    assert text.advice.endswith(":") == (text.command is not None)


def test_every_rule_has_a_text_a_title_and_a_case():
    assert set(flag_texts.TEXTS) == set(TITLES) == {case.rule for case in CASES.values()}
    assert set(flag_texts.TEXTS) == {*RULES, HELD_BACK, SAMPLE}


def test_the_parts_of_a_text_join_to_one_paragraph():
    text = flag_texts.make_text("job-held", CASES["held"].evidence, user="alice")
    assert text.full_advice == f"{text.advice} scontrol release 1."
    assert text.paragraph == f"{text.statement} {text.advice} scontrol release 1."
    text = flag_texts.make_text("too-sparse", CASES["too sparse"].evidence, user="alice")
    assert text.paragraph == f"{text.statement} {text.advice}"


def try_word(rule, evidence):
    try:
        return flag_texts.make_text(rule, evidence, user="alice")
    except flag_texts.EvidenceError as error:
        return str(error)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_evidence_that_lacks_a_value_is_an_error_and_never_a_gap_in_a_sentence(case):
    whole = flag_texts.make_text(case.rule, case.evidence, user="alice")
    for name in case.evidence:
        less = {key: value for key, value in case.evidence.items() if key != name}
        assert try_word(case.rule, less) in (whole, f"{name} is missing")


def test_a_flag_that_an_earlier_version_recorded_keeps_its_text():
    text = flag_texts.make_recorded_text(finding("at-risk", {"time_left_seconds": 60}, "Only 1 more save fits."))
    assert (text.title, text.paragraph, text.command) == (TITLES["at-risk"], "Only 1 more save fits.", None)


def test_a_flag_of_a_rule_that_is_no_more_refers_to_its_evidence():
    for unknown in (finding("a-former-rule", {"n": 1}), finding("at-risk", {"time_left_seconds": 60})):
        text = flag_texts.make_recorded_text(unknown)
        assert "no text for this flag" in text.statement
        assert "ckptd show JOB" in text.advice
    assert flag_texts.make_recorded_text(finding("a-former-rule", {})).title == "A former rule"


def test_what_users_name_stays_on_one_line():
    evidence = CASES["not resubmitted"].evidence | {"reason": "sbatch said:\nno"}
    assert flag_texts.make_text("not-resubmitted", evidence, user="alice").statement.endswith("it: sbatch said:\\nno.")


def test_instants_are_in_the_zone_of_the_reader():
    shown = finding("at-risk", CASES["at-risk, maintenance"].evidence)
    text = flag_texts.make_recorded_text(shown, timezone(timedelta(hours=2), "CEST"))
    assert "from 2026-03-01 17:45 CEST, before" in text.statement
    assert "from 2026-03-01 15:45 UTC, before" in flag_texts.make_recorded_text(replace(shown, user="bob")).statement
