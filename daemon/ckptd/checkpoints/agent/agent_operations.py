"""The agent's operations by name; each takes and returns JSON types."""

import codecs
import hashlib
import importlib

from ckptd.checkpoints.agent.request_child import Operation
from ckptd.checkpoints.scanning.digest_operation import digest
from ckptd.checkpoints.scanning.locate import locate, read_mutes
from ckptd.checkpoints.scanning.pointers import look_up_paths
from ckptd.checkpoints.scanning.scan_operation import scan_in_tables
from ckptd.checkpoints.scanning.verification import verify
from ckptd.checkpoints.scanning.workspaces import find_workspaces
from ckptd.checkpoints.trash import trash_operations
from ckptd.core.verification.file_digests import DIGEST

OPERATIONS: dict[str, Operation] = {
    "locate": locate,
    "read_mutes": read_mutes,
    "scan": scan_in_tables,
    "verify": verify,
    "digest": digest,
    **trash_operations.OPERATIONS,
    "look_up_paths": look_up_paths,
    "find_workspaces": find_workspaces,
}

_LIBRARIES = ("bz2", "gzip", "lzma", "zlib", "h5py", "msgpack", "numpy", "zstandard")
_ENCODINGS = ("ascii", "latin-1", "utf-8", "utf-16", "raw-unicode-escape", "idna")


def preload() -> None:
    """Import what the operations need before any fork: a child that became a user may be unable to read the files."""
    for library in _LIBRARIES:
        importlib.import_module(library)
    for encoding in _ENCODINGS:
        codecs.lookup(encoding)
    hashlib.new(DIGEST)
