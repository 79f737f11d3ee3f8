"""Opens the configured job source: squeue, pyslurm, slurmrestd or recordings."""

from pathlib import Path

from ckptd.core.model import Unknown
from ckptd.errors import CkptdError
from ckptd.slurm.interface import JobSource
from ckptd.slurm.programs import Programs
from ckptd.slurm.pyslurm_source import PyslurmSource
from ckptd.slurm.replay import ReplaySource
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.slurmrestd import SlurmrestdSource
from ckptd.slurm.squeue import SqueueSource

SOURCES = {"squeue": SqueueSource, "pyslurm": PyslurmSource, "slurmrestd": SlurmrestdSource, "replay": ReplaySource}


class SourceError(CkptdError):
    """The configured job source cannot be used."""


def open_source(
    name: str = "auto",
    *,
    cluster: str | None = None,
    timeout_seconds: float = 30.0,
    only_user: str | None = None,
    replay_from: Path | None = None,
    rest: RestClient | None = None,
) -> JobSource:
    """Open a source by its name; `auto` is pyslurm if it is installed and works, otherwise squeue.

    With `only_user`, the source reads only that user's jobs, and an empty answer is an empty queue.

    Raises:
        SourceError: the name is unknown, or a replay has no directory, or slurmrestd no address.

    """
    programs = Programs(timeout_seconds=timeout_seconds)
    if name == "replay":
        if replay_from is None or not replay_from.is_dir():
            raise SourceError(f'source = "replay" needs a directory of recorded snapshots, not {replay_from}')
        return ReplaySource(replay_from, cluster=cluster)
    if name == "slurmrestd":
        if rest is None:
            raise SourceError('source = "slurmrestd" needs rest_url')
        return SlurmrestdSource(rest, cluster=cluster, programs=programs, only_user=only_user)
    if name == "squeue":
        return SqueueSource(cluster=cluster, programs=programs, only_user=only_user)
    if name not in {"auto", "pyslurm"}:
        raise SourceError(f"source = {name!r} is none of auto, {', '.join(sorted(SOURCES))}")
    pyslurm = PyslurmSource(cluster=cluster, programs=programs, only_user=only_user)
    if name == "pyslurm" or not isinstance(pyslurm.read_version(), Unknown):
        return pyslurm
    return SqueueSource(cluster=cluster, programs=programs, only_user=only_user)
