"""Cases of the text about copies that fall behind."""

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
}
