"""Reads `.ckptd.toml`, a user's own file in a working directory: runs in the agent's child as the job's user.

The file is hostile input: one that is too large, is nested too deep or belongs to somebody else is not used.
"""

import json
import os
import tomllib
from collections.abc import Iterable
from typing import Any

from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, is_allowed, open_allowed
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.core.text.nesting import is_nested_deeper
from ckptd.errors import CkptdError

USER_FILE = ".ckptd.toml"
MAX_USER_FILE_BYTES = 16_384  # the time to read one grows with the square of its longest key
MAX_USER_FILE_DEPTH = 20  # containers inside one another: the settings of ckptd need 4


def read_user_file(work_dir: str | None, problems: list[str], roots: Iterable[str]) -> dict[str, Any]:
    """Return what the user's own file in a working directory says; why it cannot be read is added to `problems`.

    Outside the allowed roots there is no such file.
    """
    if work_dir is None or not is_allowed(real := os.path.realpath(work_dir), roots):
        return {}
    try:
        with open_allowed(real, roots) as descriptor, Reader(descriptor) as reader:
            try:
                text = _read_own(reader, USER_FILE)
            except FileNotFoundError:
                return {}
        user_settings = _parse(text)
    except OutsideRootsError:
        return {}
    except (OSError, ValueError, RecursionError, CkptdError) as error:
        problems.append(f"{work_dir}/{USER_FILE}: {error}")
        return {"problem": str(error)}
    return user_settings


def _parse(text: str) -> dict[str, Any]:
    document = tomllib.loads(text)
    if is_nested_deeper(document, MAX_USER_FILE_DEPTH):
        raise ValueError(f"it has more than {MAX_USER_FILE_DEPTH} tables or lists inside one another")
    found: dict[str, Any] = json.loads(json.dumps(document, default=str))  # dates become text
    return found


def _read_own(reader: Reader, path: str) -> str:
    """Return a file of this process's user or of root: others may write into a directory where many people work."""
    with reader.open_descriptor(path) as file:
        owner = os.fstat(file.fileno()).st_uid
        if owner not in {os.geteuid(), 0}:
            raise ValueError(f"it belongs to uid {owner}, and not to the job's user: it counts for nothing")
        data = file.read(MAX_USER_FILE_BYTES + 1)
    if len(data) > MAX_USER_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_USER_FILE_BYTES} bytes")
    return data.decode()
