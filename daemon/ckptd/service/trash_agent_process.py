"""Runs an agent that only knows the operations on trashes: the program that `start_agent` starts for such commands.

It starts several times faster than the daemon's agent, because it has no format of checkpoints to import.
"""

import codecs
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ckptd.checkpoints.agent import process
from ckptd.checkpoints.agent.identities import read_identities
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.trash import trash_operations
from ckptd.config.raw_tables import find_file
from ckptd.config.trash_settings import read_trash_settings
from ckptd.errors import CkptdError
from ckptd.service.agent_options import DEFAULTS, PERSON
from ckptd.service.trusted_file import check_trusted

ENCODINGS = ("ascii", "latin-1", "utf-8")


def main() -> None:
    """Serve on the socket whose descriptor is the first argument; options and the configuration's path follow."""
    descriptor, *more = sys.argv[1:]
    path = next((Path(each) for each in more if each not in {PERSON, DEFAULTS}), None)
    read = partial(read_policy, path, dict(os.environ))
    if DEFAULTS in more:
        read = partial(RequestPolicy, is_person=True)
    for encoding in ENCODINGS:  # a child that became a user may be unable to read the modules of Python
        codecs.lookup(encoding)
    try:
        process.serve(int(descriptor), read, trash_operations.OPERATIONS)
    except CkptdError as error:
        sys.exit(f"agent: {error}")


def read_policy(path: Path | None, environment: Mapping[str, str]) -> RequestPolicy:
    """Return the policy for a person's command about the trash.

    Raises:
        ConfigError: the file cannot be read, is invalid, or somebody other than root may write it.

    """
    chosen = find_file(path)
    if chosen is not None and os.geteuid() == 0:
        check_trusted(chosen)
    settings = read_trash_settings(chosen, environment)
    return RequestPolicy(
        identities=read_identities(settings.uid_min, settings.deny_users, settings.deny_groups),
        allowed_roots=tuple(map(str, settings.allowed_roots)),
        is_person=True,
    )


if __name__ == "__main__":
    main()
