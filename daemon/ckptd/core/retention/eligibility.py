"""Decides which checkpoints pruning may touch at all, whatever the rules of a policy keep: an allow-list.

It allows resumable states of a known grouping; weights only if the site allows them, and only in a series with a
progress word; and files that a person named with a `prune_files` pattern. Everything else stays.
"""

from fnmatch import fnmatchcase
from typing import NamedTuple

from ckptd.core.model import Checkpoint, Role
from ckptd.core.retention import file_patterns
from ckptd.core.retention.policy import Policy


class Eligibility(NamedTuple):
    """Whether a checkpoint may be pruned if no rule keeps it."""

    reason: str | None = None  # why it may not; None: it may
    is_named: bool = False  # only a `prune_files` pattern allows it


ALLOWED = Eligibility()
_NAMED = Eligibility(is_named=True)


def check(found: Checkpoint, policy: Policy, directory: str) -> Eligibility:
    """Decide about one checkpoint of a run whose directory is the given one."""
    grouping = found.grouping
    if grouping.doubt:
        return Eligibility(f"grouping unknown: {grouping.doubt}")
    if policy.formats and (outside := _find_other_format(found, policy.formats)):
        return Eligibility(f"format {outside}: the policy's formats are {', '.join(policy.formats)}")
    reason = _check_role(found, policy)
    if reason is None:
        return ALLOWED
    if policy.prune_files and file_patterns.match_all(_list_relative(found, directory), policy.prune_files):
        return _NAMED
    return Eligibility(reason)


def _find_other_format(found: Checkpoint, patterns: tuple[str, ...]) -> str | None:
    """Return the format of the checkpoint, or of a part of it, that no pattern allows."""
    formats = {found.format, *(part.format for part in found.parts)}
    return next((each for each in sorted(formats) if not any(fnmatchcase(each, known) for known in patterns)), None)


def _check_role(found: Checkpoint, policy: Policy) -> str | None:
    """Return why its role forbids its removal, or None."""
    evidence = f": {found.role_evidence}" if found.role_evidence else ""
    if found.role == Role.DATA or found.role not in policy.roles:
        return f"role {Role(found.role).value}{evidence}"
    if found.is_result:
        return f"also a result: {found.role_evidence or found.format}"
    grouping = found.grouping
    if found.role == Role.WEIGHTS and not (grouping.progress and grouping.series and grouping.has_progress_word):
        return f"role weights{evidence}, and no word such as `epoch` or `step` is beside a number in its name"
    return None


def _list_relative(found: Checkpoint, directory: str) -> list[str]:
    """Return its member files relative to the run's directory; none where they are not below it."""
    prefix = directory.rstrip("/") + "/"
    parent = f"{found.path.parent}/"
    if not parent.startswith(prefix):
        return []
    return [parent.removeprefix(prefix) + file for file in found.files]
