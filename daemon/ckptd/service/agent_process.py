"""Runs the privileged agent with the policy of the configuration: the program that `start_agent` starts.

The arguments come from the process that started it, which still had all its privileges then.
"""

import os
import sys
from functools import partial
from pathlib import Path

from ckptd.checkpoints.agent import agent_operations, process
from ckptd.checkpoints.agent.job_commands import run_command
from ckptd.checkpoints.agent.lease_memory import LeaseView
from ckptd.checkpoints.agent.request_child import Operation
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError
from ckptd.service import node_scan_operations, verify_job_operations
from ckptd.service.agent_options import DEFAULTS, LEASE, PERSON
from ckptd.service.policy_child import read_policy
from ckptd.slurm import owner_actions

OPERATIONS: dict[str, Operation] = {
    **agent_operations.OPERATIONS,
    "reach": lambda item: owner_actions.reach(item, run_command),
    "read_submission": lambda item: owner_actions.read_submission(item, run_command, os.geteuid()),
    "signal_job": lambda item: owner_actions.signal_job(item, run_command, os.geteuid()),
    "hold_job": lambda item: owner_actions.hold_job(item, run_command, os.geteuid()),
    "resubmit_job": lambda item: owner_actions.resubmit_job(item, run_command, os.geteuid()),
    "scan_on_node": node_scan_operations.scan_on_node,
    "submit_verification": verify_job_operations.submit,
    "submit_digests": verify_job_operations.submit_digests,
    "submit_scan": verify_job_operations.submit_scan,
    "follow_verification": verify_job_operations.follow,
    "collect_verification": verify_job_operations.collect,
    "collect_digests": verify_job_operations.collect_digests,
    "cancel_verification": verify_job_operations.cancel,
}


def main() -> None:
    """Serve on the socket whose descriptor is the first argument; options and the configuration's path follow."""
    descriptor, *more = sys.argv[1:]
    lease = next((LeaseView(int(each.removeprefix(LEASE))) for each in more if each.startswith(LEASE)), None)
    more = [each for each in more if not each.startswith(LEASE)]
    is_person = PERSON in more
    path = next((Path(each) for each in more if each not in {PERSON, DEFAULTS}), None)
    read = partial(read_policy, path, dict(os.environ), is_person=is_person)
    if DEFAULTS in more:
        read = partial(RequestPolicy, is_person=is_person)
    agent_operations.preload()
    try:
        process.serve(int(descriptor), read, OPERATIONS, lease)
    except CkptdError as error:
        sys.exit(f"agent: {error}")


if __name__ == "__main__":
    main()
