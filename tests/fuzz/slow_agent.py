"""The agent on a file system whose renames take a moment, as over a network: so that a kill comes between two."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "daemon"))

from ckptd.checkpoints.trash.descriptors import FileOperations
from ckptd.service import agent_process

SECONDS = 0.004


quick = FileOperations.rename


def rename(self, name, at, new_name, new_at):
    time.sleep(SECONDS)
    quick(self, name, at, new_name, new_at)


FileOperations.rename = rename
agent_process.main()
