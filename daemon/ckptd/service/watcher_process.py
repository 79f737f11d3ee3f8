"""Runs the watcher of directories with the policy of the configuration: the program that `start_watcher` starts."""

import os
import sys
from functools import partial
from pathlib import Path

from ckptd.checkpoints.agent import watcher
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError
from ckptd.service.agent_options import DEFAULTS
from ckptd.service.policy_child import read_policy


def main() -> None:
    """Serve on the socket whose descriptor is the first argument; an option and the configuration's path follow."""
    descriptor, *more = sys.argv[1:]
    path = next((Path(each) for each in more if each != DEFAULTS), None)
    read = partial(read_policy, path, dict(os.environ), is_person=False)
    try:
        watcher.serve(int(descriptor), RequestPolicy if DEFAULTS in more else read)
    except CkptdError as error:
        sys.exit(f"watcher: {error}")


if __name__ == "__main__":
    main()
