"""The sample jobs: one for each way of working with checkpoints that clusters teach, or see."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from demo.cluster import PrivateCluster
from demo.job_python import install_job_python
from demo.users import JobUser

JOBS = Path(__file__).parent / "jobs"
NAMES = (
    "requeue",
    "array",
    "manager",
    "never-saves",
    "starts-over",
    "saves-rarely",
    "shared-directory",
    "scratch",
)


class Samples:
    """Submits the sample jobs on one cluster, each from a directory in its user's home."""

    def __init__(self, cluster: PrivateCluster) -> None:
        self._cluster = cluster
        shared = Path(tempfile.mkdtemp(prefix="software-", dir=cluster.directory))
        shared.chmod(0o755)
        self.scratch = shared / "scratch"
        self._environment = {
            "TRAIN": str(shutil.copy(JOBS / "train.py", shared)),
            "TRAIN_PYTHON": str(install_job_python(shared / "python")),
            "LOCAL_SCRATCH": str(self.scratch),
            # many small processes share this host
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.scratch.mkdir()
        self.scratch.chmod(0o1777)

    def submit(self, user: JobUser, name: str, *options: str, environment: Mapping[str, str] | None = None) -> int:
        """Submit one sample; return its job id.

        Args:
            user: who submits it, from `~/NAME`
            name: one of NAMES
            options: for sbatch, in force over the script's own
            environment: of the job; EPOCH_SECONDS sets the pace of all of them

        """
        work_dir = self.work_dir(user, name)
        if not work_dir.exists():
            shutil.copytree(JOBS / name, work_dir)
            for path in (work_dir, *work_dir.iterdir()):
                os.chown(path, user.uid, user.gid)
        script = work_dir / "job.sbatch"
        settings = {**self._environment, **(environment or {})}
        return self._cluster.submit(user, script, *options, work_dir=work_dir, environment=settings)

    @staticmethod
    def work_dir(user: JobUser, name: str) -> Path:
        """Where a sample of this user works."""
        return user.home / name
