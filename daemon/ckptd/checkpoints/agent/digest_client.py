"""Asks the agent for the digests of a checkpoint's files, read as their owner."""

from datetime import timedelta

from ckptd.checkpoints.agent.batches import BatchRunner, decode_answer, run_items
from ckptd.core.model import Checkpoint, Unknown
from ckptd.core.verification.file_digests import Digests, decode_digests, list_wanted_files
from ckptd.core.verification.task_results import ResultError


def read_digests(agent: BatchRunner, uid: int, found: Checkpoint, deadline: timedelta) -> Digests | Unknown:
    """Read every byte of a checkpoint; Unknown: why not, or that it is not as the last scan found it."""
    wanted = list_wanted_files(found)
    item = {"directory": wanted.directory, "files": [list(each) for each in wanted.files]}
    (answer,) = run_items(agent, "digest", [(uid, item)], deadline)
    try:
        return decode_answer(answer, lambda data: decode_digests(data, found))
    except ResultError as error:
        return Unknown(what=str(found.path), reason=f"the child's answer is malformed: {error}")
