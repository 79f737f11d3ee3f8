"""Finds the runs that a command is about."""

import os
import re

from ckptd.core.model import RunKey
from ckptd.errors import CkptdError
from ckptd.store.run_rows import RunReader

_JOB = re.compile("(?P<job>[0-9]{1,18})(_(?P<task>[0-9]{1,18})|[+][0-9]{1,4})?")  # 18 digits fit a database integer


class RetentionError(CkptdError):
    """The command cannot be carried out."""


def find_runs(runs: RunReader, name: str, cluster: str | None = None) -> tuple[RunKey, ...]:
    """Return the runs named by JOB|PATH: a job id, an array task (`12_3`) or a directory.

    A component of a heterogeneous job (`12+1`) names the whole job, because components are recorded together.
    """
    if found := _JOB.fullmatch(name):
        task = found["task"]
        return runs.find_of_job(int(found["job"]), cluster, None if task is None else int(task))
    return runs.find_at(os.path.realpath(name), cluster)
