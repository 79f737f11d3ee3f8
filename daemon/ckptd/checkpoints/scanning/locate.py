"""Finds a job's checkpoint directory: as declared by the job, its user or the site, in that order, otherwise by search.

`plan_candidates` runs in the main process and touches no file; `locate` runs in the agent's child as the job's user.
All values come from users: paths are only opened as the user and only below the site's allowed roots.
"""

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.interface import Claim
from ckptd.checkpoints.scanning import copy_locations
from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, is_allowed, open_allowed
from ckptd.checkpoints.scanning.searched_tree import SearchedTree
from ckptd.checkpoints.scanning.user_file import USER_FILE, read_user_file
from ckptd.checkpoints.scanning.user_paths import expand_home, explain_absence, find_directory, may_write
from ckptd.core.discovery import batch_script
from ckptd.core.discovery.declared import is_declared_without, list_directories, split_locations, stated_path
from ckptd.core.model import EVERY_RULE, Job, NamedLocation, Role
from ckptd.core.node_scans.node_directories import find_on_nodes
from ckptd.core.text.job_patterns import JobPatterns

_ROLES = list(Role)  # the strongest evidence first
MAX_JUDGED = 20  # directories of one search whose files are read
MAX_NUMBERED = 50  # saves of one search whose times of writing are returned
JUDGED_CLAIMS = 4  # newest files of each of them
NAMED_DEPTH = 3  # levels below a place of the site's at which a directory may be named for its job


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRule(JobPatterns):
    """A rule of the site for the checkpoint directories of matching jobs: one, or the primary location and copies."""

    directory: str | None = None
    directories: tuple[str, ...] = ()

    @property
    def templates(self) -> tuple[str, ...]:
        return self.directories or (self.directory or "",)


@dataclass(frozen=True, slots=True)
class LocationCandidate:
    """One possible checkpoint directory, and its source."""

    located_by: str
    path: str
    copies: tuple[str, ...] = ()  # further locations


def plan_candidates(
    job: Job,
    rules: Iterable[SiteRule],
    script_paths: Iterable[str] = (),
    values: Mapping[str, str] = MappingProxyType({}),
) -> tuple[LocationCandidate, ...]:
    """Return the places that a job's own words, the site's rules and its script name, in the order of trust."""
    if is_declared_without(job):
        return ()
    known = {**values, **dict(batch_script.list_slurm_variables(job))}
    candidates: list[LocationCandidate] = []
    for located_by, text in (("comment", job.comment), ("admin-comment", job.admin_comment)):
        if stated := stated_path(text):
            named = split_locations(batch_script.expand(stated, known) or stated)
            candidates.append(LocationCandidate(located_by, named[0] if named else stated, named[1:]))
    candidates.append(LocationCandidate("user-file", USER_FILE))
    for rule in rules:
        primary, *copies = [expand_template(each, job) for each in rule.templates] if rule.matches(job) else [None]
        if primary:
            candidates.append(LocationCandidate("watch", primary, tuple(path for path in copies if path)))
    candidates.extend(LocationCandidate("batch-script", path) for path in script_paths)
    candidates.append(LocationCandidate("discovery", "."))
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
    """Return the real path of the first candidate that exists, its copies, and the user settings.

    Where the primary location does not exist yet, the copies are those that it was declared with.
    """
    work_dir, roots = item["work_dir"], item["allowed_roots"]
    problems: list[str] = []
    entry_count = 0
    copies: list[NamedLocation] = []
    user_settings = read_user_file(work_dir, problems, roots)  # heard however the directory is found
    for located_by, *named in item["candidates"]:
        path, further = _read_candidate(located_by, named, user_settings, work_dir)
        found = on_nodes = None
        if located_by == "discovery":
            excluded = [*item["excluded"], *(each.directory for each in copies)]
            found, entry_count = _discover({**item, "excluded": excluded}, problems)
            directory = found["directory"] if found else None
        else:
            # what is here by that name is another directory: a step on a node tells what is there
            on_nodes = find_on_nodes(work_dir, expand_home(path), item["node_directories"])
            directory = on_nodes or find_directory(work_dir, path)
        if further and not copies:
            copies = copy_locations.resolve(copy_locations.Place(work_dir, directory or path), further, roots)
        if directory is None:
            if located_by in _NAMED and path and (reason := explain_absence(work_dir, path)):
                problems.append(reason)
            continue
        if not is_allowed(directory, roots):
            problems.append(f"{directory} is outside the site's allowed roots")
            continue
        if not on_nodes and not may_write(directory):
            problems.append(f"the job's user cannot write to {directory}")
            continue
        return {
            "directory": directory,
            "located_by": located_by,
            "user_settings": user_settings,
            "problems": problems,
            "found": found,
            "entry_count": entry_count,
            "copies": copy_locations.encode(each for each in copies if each.directory != directory),
        }
    return {
        "directory": None,
        "located_by": None,
        "user_settings": user_settings,
        "problems": problems,
        "entry_count": entry_count,
        "copies": copy_locations.encode(copies),
    }


def _read_candidate(
    located_by: str, named: list[str], user_settings: Mapping[str, Any], work_dir: str | None
) -> tuple[str, list[str]]:
    """Return the primary location that a candidate names, and the further ones."""
    if located_by == "user-file":  # the file only names the real candidate
        named = list(list_directories(user_settings))
    if located_by in _STATED and len(named) > 1 and find_directory(work_dir, whole := ":".join(named)):
        return whole, []  # the name of this directory has a colon
    return (named[0], named[1:]) if named else ("", [])


def read_mutes(item: dict[str, Any]) -> dict[str, Any]:
    """Return the rules that a user's own file mutes: `[mail] mute = true` for all, or a list of their names."""
    problems: list[str] = []
    user_settings = read_user_file(item["work_dir"], problems, item["allowed_roots"]).get("mail")
    mute = user_settings.get("mute", []) if isinstance(user_settings, dict) else []
    rules = [EVERY_RULE] if mute is True else [str(rule) for rule in mute] if isinstance(mute, list) else []
    return {"mute": rules, "problems": problems}


_STATED = frozenset({"comment", "admin-comment"})
_NAMED = _STATED | {"user-file", "batch-script"}  # by the job or its owner


@dataclass(slots=True)
class _Written:
    """What was written to one directory during a search's time."""

    times_ns: list[int] = field(default_factory=list)
    claims: list[tuple[int, Claim]] = field(default_factory=list)
    role: Role = Role.DATA


def _discover(item: dict[str, Any], problems: list[str]) -> tuple[dict[str, Any] | None, int]:
    """Search for checkpoints of a known format that were written during the run; return where, when and of which role.

    Also return how many directory entries the search read.

    The search goes through the working directory, and through directories named for the job where the site's variables
    lead. Of several directories, the search chooses the one with the strongest evidence: resumable states before
    parameters, parameters before data, then the one that was written last; a shared directory only if there is no
    other. A directory whose name suggests downloads counts only if it holds a state, or checkpoints with a progress
    number.
    """
    if item["work_dir"] is None:
        return None, 0
    roots = [os.path.realpath(item["work_dir"])]
    if not is_allowed(roots[0], item["allowed_roots"]):
        problems.append(f"{roots[0]} is outside the site's allowed roots")
        return None, 0
    own = [each for each in _find_named_for_job(item) if not PurePosixPath(each).is_relative_to(roots[0])]
    excluded, shared = set(item["excluded"]), set(item["shared"])
    written: dict[str, _Written] = {}
    entry_count = 0
    for root in (*roots, *own):
        try:
            below, count = _search_below(root, item, problems, is_role_asked=bool(own) or item["is_role_asked"])
            written |= below
            entry_count += count
        except OutsideRootsError as error:  # it was exchanged for a link meanwhile
            problems.append(str(error))
    written = {directory: found for directory, found in written.items() if directory not in excluded}
    best = max(
        (
            (directory not in shared, -_ROLES.index(found.role), max(found.times_ns), directory)
            for directory, found in written.items()
        ),
        default=None,
    )
    if best is None:
        return None, entry_count
    *_, newest_ns, directory = best
    found = written[directory]
    answer = {
        "directory": directory,
        "first_ns": min(found.times_ns),
        "newest_ns": newest_ns,
        "is_only": sum(each.role is found.role for each in written.values()) == 1,
        "role": found.role.value,
        "saves": _list_numbered(found),
        "is_named_for_job": any(PurePosixPath(directory).is_relative_to(each) for each in own),
    }
    return answer, entry_count


def _list_numbered(found: _Written) -> list[list[Any]]:
    """Return the newest checkpoints of one format with a progress number in their names: name, number, time."""
    numbered: list[list[Any]] = []
    newest = max(found.claims, key=lambda each: each[0])[1]
    for modified_ns, claim in sorted(found.claims, key=lambda each: each[0], reverse=True):
        name = PurePosixPath(claim.path).name
        facts = parse_name(name)
        number = facts.step if facts.step is not None else facts.epoch
        if claim.format == newest.format and number is not None and not facts.is_best:
            numbered.append([name, number, modified_ns])
            if len(numbered) == MAX_NUMBERED:
                break
    return numbered


def _search_below(
    root: str, item: dict[str, Any], problems: list[str], *, is_role_asked: bool
) -> tuple[dict[str, _Written], int]:
    """Return what was written below a directory during the search's time, by the directory that holds it.

    Returned is also how many directory entries the search read; 0 if the one before listed the same directory.

    Raises:
        OutsideRootsError: the directory is not below an allowed root.
        OSError: it cannot be opened.

    """
    written: dict[str, _Written] = defaultdict(_Written)
    tree = SearchedTree.read(root, item)
    problems.extend(tree.problems)
    for modified_ns, home, claim in tree.claims:
        is_later = item["until_ns"] is not None and modified_ns > item["until_ns"]
        if modified_ns >= item["since_ns"] and not is_later:
            written[home].times_ns.append(modified_ns)
            written[home].claims.append((modified_ns, claim))
    inputs = {each for each in written if tree.is_for_inputs(each)}
    if len(written) > 1 or is_role_asked or inputs:
        _judge_roles(list(written.values())[:MAX_JUDGED], tree)
    downloaded = {each for each in inputs if written[each].role is not Role.STATE and not _list_numbered(written[each])}
    left = {directory: found for directory, found in written.items() if directory not in downloaded}
    return left, tree.take_unread_count()


def _judge_roles(written: list[_Written], tree: SearchedTree) -> None:
    """Read the newest files of each directory, to tell states from parameters and data."""
    chosen = [sorted(found.claims, key=lambda each: each[0])[-JUDGED_CLAIMS:] for found in written]
    answers = iter(tree.read_roles(claim for newest in chosen for _, claim in newest))
    for found, newest in zip(written, chosen, strict=True):
        roles = {next(answers) for _ in newest}
        if {Role.WEIGHTS, Role.PART} <= roles:
            roles.add(Role.STATE)  # saved beside each other
        found.role = min((role for role in roles if role is not Role.PART), key=_ROLES.index, default=Role.DATA)


def _find_named_for_job(item: dict[str, Any]) -> list[str]:
    """Return the directories named for the job, where the site's variables lead: no other job writes there."""
    names = [re.compile(rf"(?<![0-9]){re.escape(name)}(?![0-9])") for name in item["job_names"]]
    found: list[str] = []
    left = item["discovery_entries"]
    for place in item["places"] if names else ():
        root = os.path.realpath(expand_home(place))
        if not root.startswith("/") or not is_allowed(root, item["allowed_roots"]):
            continue
        level = [root]
        for _ in range(NAMED_DEPTH):
            below: list[str] = []
            for directory in level:
                for entry in _list_directories(directory, left, item["allowed_roots"]):
                    left -= 1
                    (found if any(name.search(os.path.basename(entry)) for name in names) else below).append(entry)
            level = below
    return [each for each in dict.fromkeys(found) if may_write(each)][:MAX_JUDGED]


def _list_directories(directory: str, limit: int, roots: Iterable[str]) -> list[str]:
    try:
        with open_allowed(directory, roots) as descriptor, os.scandir(descriptor) as entries:
            some = itertools.islice(entries, max(limit, 0))
            names = [each.name for each in some if each.is_dir(follow_symlinks=False) and not each.name.startswith(".")]
    except (OSError, OutsideRootsError):
        return []
    return [os.path.join(directory, name) for name in names]
