"""Finds a job's checkpoint directory: as declared by the job, its user or the site, in that order, otherwise by search.

`plan_candidates` runs in the main process and touches no file; `locate` runs in the agent's child as the job's user.
All values come from users: paths are only opened as the user and only below the site's allowed roots.
"""

import ctypes
import errno
import json
import os
import pwd
import re
import stat
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.agent.limited_child import Limits
from ckptd.checkpoints.formats.names import parse_name
from ckptd.checkpoints.scanning.claiming import claim_in_child
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.discovery.declared import is_declared_without, stated_path
from ckptd.core.model import Job
from ckptd.core.notices import EVERY_RULE
from ckptd.core.text.job_patterns import JobPatterns
from ckptd.errors import CkptdError

USER_FILE = ".ckptd.toml"
MAX_USER_FILE_BYTES = 16_384  # the time to read one grows with the square of its longest key
# containers of any kind of data: taken for checkpoints in a look around only where their names say so
DATA_FORMATS = frozenset({"numpy", "pickle", "hdf5", "matlab", "r", "octave", "sqlite", "generic"})


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRule(JobPatterns):
    """A rule of the site for the checkpoint directory of matching jobs."""

    directory: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible checkpoint directory, and its source."""

    located_by: str
    path: str


def plan_candidates(job: Job, rules: Iterable[SiteRule], script_paths: Iterable[str] = ()) -> tuple[Candidate, ...]:
    """Return the directories that the job, the site's rules and its script name, most trusted first."""
    if is_declared_without(job):
        return ()
    candidates: list[Candidate] = []
    for located_by, text in (("comment", job.comment), ("admin-comment", job.admin_comment)):
        if stated := stated_path(text):
            candidates.append(Candidate(located_by, stated))
    candidates.append(Candidate("user-file", USER_FILE))
    named = (expand_template(rule.directory, job) for rule in rules if rule.matches(job))
    candidates.extend(Candidate("watch", path) for path in named if path)
    candidates.extend(Candidate("batch-script", path) for path in script_paths)
    candidates.append(Candidate("discovery", "."))
    return tuple(candidates)


def expand_template(template: str, job: Job) -> str | None:
    """Fill in a site's path template; None where a value is absent or would change the path's meaning.

    Raises:
        KeyError: the template names a variable that does not exist.

    """
    names = {
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "cluster": job.cluster,
        "job_name": job.name,
        "job_id": str(job.job_id),
        "array_job_id": "" if job.array_job_id is None else str(job.array_job_id),
        "array_task_id": "" if job.array_task_id is None else str(job.array_task_id),
    }
    used = set(re.findall(r"\{(\w+)\}", template))
    for variable in used & names.keys():
        if names[variable] in {"", ".", ".."} or "/" in names[variable]:
            return None
    return template.format_map({**names, "home": "~", "work_dir": str(job.work_dir or "")})


def locate(item: dict[str, Any]) -> dict[str, Any]:
    """Return the real path of the first candidate that exists, and the user settings."""
    work_dir = item["work_dir"]
    problems: list[str] = []
    wishes = read_user_file(work_dir, problems)  # heard however the directory is found
    for located_by, path in item["candidates"]:
        if located_by == "user-file":
            path = str(wishes.get("directory", ""))  # noqa: PLW2901 - the file only names the real candidate
        found = None
        if located_by == "discovery":
            found = _discover(item, problems)
            directory = found["directory"] if found else None
        else:
            directory = _real_directory(work_dir, path)
        if directory is None:
            continue
        if not _is_allowed(directory, item["allowed_roots"]):
            problems.append(f"{directory} is outside the site's allowed roots")
            continue
        if not may_write(directory):
            problems.append(f"{directory} is not the job's: its user may not write there")
            continue
        return {
            "directory": directory,
            "located_by": located_by,
            "wishes": wishes,
            "problems": problems,
            "found": found,
        }
    return {"directory": None, "located_by": None, "wishes": wishes, "problems": problems}


def read_mutes(item: dict[str, Any]) -> dict[str, Any]:
    """Return the rules that a user's own file mutes: `[mail] mute = true` for all, or a list of their names."""
    problems: list[str] = []
    wishes = read_user_file(item["work_dir"], problems).get("mail")
    mute = wishes.get("mute", []) if isinstance(wishes, dict) else []
    rules = [EVERY_RULE] if mute is True else [str(rule) for rule in mute] if isinstance(mute, list) else []
    return {"mute": rules, "problems": problems}


def _real_directory(work_dir: str | None, path: str) -> str | None:
    if not path or "\0" in path:
        return None
    path = expand_home(path)
    if work_dir is None and not path.startswith("/"):
        return None
    real = os.path.realpath(os.path.join(work_dir or "/", path))
    try:
        mode = os.stat(real).st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return os.path.dirname(real)
    return real if stat.S_ISDIR(mode) else None


def expand_home(path: str) -> str:
    """Fill in this process's user's home for a leading `~`."""
    return pwd.getpwuid(os.geteuid()).pw_dir + path[1:] if path == "~" or path.startswith("~/") else path


def may_write(directory: str) -> bool:
    """Whether this process's user may write in a directory, also where ckptd itself sees it read-only.

    Nobody becomes a writer of another's directory by naming it. access(2) asks for the permission first, and only
    then for the mount, which the service's own name space may have made read-only.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.access(os.fsencode(directory), os.W_OK) == 0 or ctypes.get_errno() == errno.EROFS


def _is_allowed(directory: str, roots: Iterable[str]) -> bool:
    path = PurePosixPath(directory)
    return any(path.is_relative_to(os.path.realpath(root)) for root in roots)


def read_user_file(work_dir: str | None, problems: list[str]) -> dict[str, Any]:
    """Return what the user's own file in a working directory says; why it cannot be read is added to `problems`."""
    if work_dir is None:
        return {}
    try:
        with Reader(os.path.realpath(work_dir)) as reader:
            try:
                text = _read_own(reader, USER_FILE)
            except FileNotFoundError:
                return {}
        wishes: dict[str, Any] = json.loads(json.dumps(tomllib.loads(text), default=str))  # dates become text
    except (OSError, ValueError, RecursionError, CkptdError) as error:
        problems.append(f"{work_dir}/{USER_FILE}: {error}")
        return {"problem": str(error)}
    return wishes


def _read_own(reader: Reader, path: str) -> str:
    """Return a file of this process's user or of root: others may write into a directory where many people work."""
    with reader.open(path) as file:
        owner = os.fstat(file.fileno()).st_uid
        if owner not in {os.geteuid(), 0}:
            raise ValueError(f"it belongs to uid {owner}, and not to the job's user: it counts for nothing")
        data = file.read(MAX_USER_FILE_BYTES + 1)
    if len(data) > MAX_USER_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_USER_FILE_BYTES} bytes")
    return data.decode()


def _discover(item: dict[str, Any], problems: list[str]) -> dict[str, Any] | None:
    """Search in and below the working directory for a known format written during the run; return it with the time.

    Of several directories it is the one that was written to last, and a shared one only where there is no other.
    """
    if item["work_dir"] is None:
        return None
    root = os.path.realpath(item["work_dir"])
    if not _is_allowed(root, item["allowed_roots"]):
        problems.append(f"{root} is outside the site's allowed roots")
        return None
    tree = list_tree(root, max_depth=item["discovery_depth"], max_entries=item["discovery_entries"])
    with Reader(root) as reader:
        claims, _ = claim_in_child(tree, reader, limits=Limits())
    problems.extend(f"{root}/{problem.what}: {problem.reason}" for problem in tree.walk_problems())
    excluded, shared = set(item["excluded"]), set(item["shared"])
    written: dict[str, list[int]] = defaultdict(list)
    for claim in claims:
        name = PurePosixPath(claim.path).name
        facts = parse_name(name)
        if claim.format in DATA_FORMATS and facts.epoch is None and facts.step is None:
            continue
        directory = os.path.normpath(os.path.join(root, _home_of(claim.path)))
        modified_ns = max((file.modified_ns for file in claim.files), default=0)
        is_later = item["until_ns"] is not None and modified_ns > item["until_ns"]
        if modified_ns >= item["since_ns"] and not is_later and directory not in excluded:
            written[directory].append(modified_ns)
    newest = max(
        ((directory not in shared, max(times), directory) for directory, times in written.items()), default=None
    )
    if newest is None:
        return None
    _, newest_ns, directory = newest
    first_ns = min(written[directory])
    return {"directory": directory, "first_ns": first_ns, "newest_ns": newest_ns, "is_only": len(written) == 1}


def _home_of(path: str) -> str:
    """The directory that holds the checkpoints: above those that are named for one epoch or step each."""
    parent = PurePosixPath(path).parent
    while parent.name and (facts := parse_name(parent.name)) and (facts.epoch is not None or facts.step is not None):
        parent = parent.parent
    return str(parent)
