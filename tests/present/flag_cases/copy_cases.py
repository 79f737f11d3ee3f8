"""Cases of the texts about copies that fall behind, and that differ."""

from present.flag_cases.case import DIRECTORY, Case

BEHIND = {
    "directory": "/archive/alice/run",
    "other_directories": [],
    "newest_good": f"{DIRECTORY}/step-90.pt",
    "newest_copy": "/archive/alice/run/step-10.pt",
    "behind_seconds": 4800,
    "usual_seconds": 600,
    "slurm_job": "1",
}
DIFFERS = {
    "copy": "/archive/alice/run/step-90.pt",
    "original": f"{DIRECTORY}/step-90.pt",
    "differing_file": "step-90.pt",
    "compared_at": "2026-03-01T12:00:00+00:00",
    "is_by_owner": False,
    "copies": ["/archive/alice/run/step-90.pt"],
    "copy_count": 1,
    "slurm_job": "1",
}
CASES = {
    "copies are behind": Case(
        "copy-behind",
        BEHIND,
        "The copies in /archive/alice/run are 1 h 20 min behind; usually, they are 10 min behind. The newest complete checkpoint is /scratch/alice/run/step-90.pt; the newest complete copy is /archive/alice/run/step-10.pt.",
        "Check that the command that copies the checkpoints still runs, and that the quota of this directory is not used up. If you no longer copy them there, remove the directory from the job's comment or .ckptd.toml.",
    ),
    "copies are behind, and nobody knows how far is usual": Case(
        "copy-behind",
        BEHIND | {"usual_seconds": None, "behind_seconds": 90_000, "other_directories": ["/project/run"]},
        "The copies in /archive/alice/run are 1 d 1 h behind. The newest complete checkpoint is /scratch/alice/run/step-90.pt; the newest complete copy is /archive/alice/run/step-10.pt. Also behind: /project/run.",
        "Check that the command that copies the checkpoints still runs, and that the quota of this directory is not used up. If you no longer copy them there, remove the directory from the job's comment or .ckptd.toml.",
    ),
    "no copy": Case(
        "copy-behind",
        BEHIND | {"newest_copy": None, "usual_seconds": None},
        "/archive/alice/run should hold copies of this job's checkpoints, but contains no complete copy. The newest complete checkpoint is /scratch/alice/run/step-90.pt.",
        "Check that the command that copies the checkpoints still runs, and that the quota of this directory is not used up. If you no longer copy them there, remove the directory from the job's comment or .ckptd.toml.",
    ),
    "a copy differs": Case(
        "copy-differs",
        DIFFERS,
        "/archive/alice/run/step-90.pt has the names and sizes of /scratch/alice/run/step-90.pt, but not its content. ckptd compared both on 2026-03-01 12:00 UTC; the first file that differs is step-90.pt.",
        "Do not rely on this copy: it was damaged, or is a copy of another checkpoint. Copy the checkpoint again. Until then, ckptd does not count it as a copy.",
    ),
    "several copies differ, as a job of the owner says": Case(
        "copy-differs",
        DIFFERS | {"is_by_owner": True, "copy_count": 3},
        "/archive/alice/run/step-90.pt has the names and sizes of /scratch/alice/run/step-90.pt, but not its content. A verification job compared both on 2026-03-01 12:00 UTC; the first file that differs is step-90.pt. 2 more copies differ, too.",
        "Do not rely on this copy: it was damaged, or is a copy of another checkpoint. Copy the checkpoint again. Until then, ckptd does not count it as a copy.",
    ),
}
