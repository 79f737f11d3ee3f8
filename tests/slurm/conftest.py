import os

import pytest

from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource
from slurm import stand_in


@pytest.fixture
def programs_in(monkeypatch, tmp_path):
    """Put stand-ins for Slurm's programs first on PATH; returns (directory, make source)."""
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def make(*, timeout_seconds=20.0, only_user=None, cluster=None, **plan):
        stand_in.make_programs(directory, **plan)
        return SqueueSource(cluster=cluster, programs=Programs(timeout_seconds=timeout_seconds), only_user=only_user)

    return directory, make
