"""Checks the directories that the configuration declares to share with other clusters."""

import os
from collections.abc import Iterator
from datetime import timedelta

from ckptd.config import Config
from ckptd.config.local_cluster import read_local_cluster
from ckptd.core.runs import shared_files
from ckptd.core.runs.shared_files import SharedDirectory, ShareTrouble
from ckptd.errors import CkptdError
from ckptd.service.doctor.findings import CheckResult, error, ok, warning
from ckptd.service.password_file import read_password
from ckptd.store.light_reader import open_reader
from ckptd.store.shared_rows import read_clocks, read_declared


def check_shared(config: Config) -> Iterator[CheckResult]:
    """Check that shared directories exist here, and that the other clusters declare them, too."""
    if not config.shared:
        return
    cluster = config.slurm.cluster or read_local_cluster()
    if cluster is None:
        yield warning("[[shared]]: the name of this cluster is not known", "set slurm.cluster")
        return
    groups = [(each.clusters, each.directories) for each in config.shared]
    declared = shared_files.declare(cluster, groups)
    if not declared:
        yield ok(f"no entry of [[shared]] names the cluster {cluster!r}")
        return
    for directory in dict.fromkeys(each.directory for each in declared):
        if not _may_exist(directory):
            yield error(f"[[shared]]: there is no {directory} on this host", "mount it, or remove it from [[shared]]")
    try:
        recorded, clocks = _read_shares(config)
    except CkptdError as failure:
        yield warning(f"what other clusters share is not known: {failure}", "see the check of the database")
        return
    for each in declared:
        trouble = shared_files.find_trouble(each, recorded, clocks)
        if trouble is None:
            yield ok(f"{each.directory} is shared with the cluster {each.other_cluster!r}")
        elif trouble is ShareTrouble.CLOCKS:
            seconds = abs(clocks[cluster] - clocks[each.other_cluster]).total_seconds()
            yield warning(
                f"{each.directory} is not shared: the clocks of Slurm on {cluster!r} and {each.other_cluster!r} differ "
                f"by {seconds:.0f} s",
                "synchronise the clocks of both controllers: `timedatectl`, `chronyc tracking`",
            )
        else:
            yield warning(
                f"{each.directory} is not shared: the cluster {each.other_cluster!r} does not declare it",
                f"add the same [[shared]] to the configuration of {each.other_cluster}, and reload or start its daemon",
            )


def _may_exist(directory: str) -> bool:
    """Whether a directory exists; true if this account may not know."""
    try:
        os.stat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read_shares(config: Config) -> tuple[tuple[SharedDirectory, ...], dict[str, timedelta]]:
    """Return what all clusters declare, and how far their clocks are ahead of that of the database."""
    password = read_password(config.store.password_file) if config.store.password_file else None
    reader = open_reader(config.database_url, password)
    try:
        with reader.begin() as select:
            return read_declared(select), read_clocks(select)
    finally:
        reader.close()
