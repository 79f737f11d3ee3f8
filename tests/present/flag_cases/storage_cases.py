"""Cases of the texts about what is on disk."""

from present.flag_cases.case import DIRECTORY, Case

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
INTERRUPTED = {
    "leftovers": [f"{DIRECTORY}/a.tmp", f"{DIRECTORY}/b.tmp"],
    "leftover_count": 2,
    "size_bytes": 200,
    "age_seconds": 1200,
    "newest_good": f"{DIRECTORY}/step-10.pt",
    "signal_seconds": 600,
    "slurm_job": "1",
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
PICKLE = {
    "names": ["posix.system"],
    "name_count": 1,
    "paths": [f"{DIRECTORY}/step-10.pt"],
    "checkpoint_count": 1,
    "owner_uids": ["1000"],
    "slurm_job": "1",
}
FOREIGN = {"owner_uids": ["0"], "job_uid": 1000, "paths": [], "checkpoint_count": 2, "slurm_job": "1"}
CASES = {
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
    "reported damage": Case(
        "reported-damage",
        {
            "path": f"{DIRECTORY}/epoch_9.pt",
            "reason": "data/3: the checksum differs",
            "paths": [f"{DIRECTORY}/epoch_9.pt"],
            "checkpoint_count": 1,
            "slurm_job": "1",
        },
        "A verification job found /scratch/alice/run/epoch_9.pt damaged: data/3: the checksum differs.",
        "Resume from another checkpoint. ckptd removes nothing from this run until it has read the checkpoint itself: `ckptd verify --here 1` does so now.",
    ),
    "reported damage of several": Case(
        "reported-damage",
        {
            "path": f"{DIRECTORY}/epoch_9.pt",
            "reason": "truncated",
            "paths": [f"{DIRECTORY}/epoch_8.pt", f"{DIRECTORY}/epoch_9.pt"],
            "checkpoint_count": 2,
            "slurm_job": "1",
        },
        "A verification job found /scratch/alice/run/epoch_9.pt and 1 other of this run damaged: truncated.",
        "Resume from another checkpoint. ckptd removes nothing from this run until it has read the checkpoint itself: `ckptd verify --here 1` does so now.",
    ),
    "foreign owner": Case(
        "foreign-owner",
        FOREIGN,
        "2 checkpoints of this run have files that belong to another user (uid 0), and the job may load them.",
        "Find out who wrote these files before the job loads them. If their owner is a service account of the site, add its name or uid to service_uids in [health.rules.foreign-owner] of ckptd's configuration.",
    ),
}
