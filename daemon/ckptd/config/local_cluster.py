"""Finds the name of the cluster that this host belongs to, in Slurm's own configuration file, without asking Slurm."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

# where Slurm's programs look without SLURM_CONF: Debian, the default prefix, and the cache of configless nodes
PLACES = (Path("/etc/slurm/slurm.conf"), Path("/run/slurm/conf/slurm.conf"), Path("/usr/local/etc/slurm.conf"))
LARGEST_BYTES = 4 << 20
_NAME = re.compile(r"^\s*ClusterName\s*=\s*\"?([^\s\"#]+)", re.IGNORECASE | re.MULTILINE)


def read_local_cluster(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return ClusterName of slurm.conf in lower case, as Slurm uses it; None if no file here has it.

    Files that slurm.conf includes are not read.
    """
    chosen = environment.get("SLURM_CONF")
    for path in (Path(chosen),) if chosen else PLACES:
        try:
            with path.open("rb") as file:
                text = file.read(LARGEST_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        if names := _NAME.findall(text):
            return str(names[-1]).lower()
    return None
