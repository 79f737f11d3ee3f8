"""What a request to the agent says about one search for a checkpoint directory."""

from typing import Any

from ckptd.checkpoints.scanning.locate import SiteRule, plan_candidates
from ckptd.core.discovery.nearby_candidates import DirectorySearch
from ckptd.core.model import Job

MAX_COPIES = 1000  # names of further locations of one job that are sent: the agent resolves the first few
_NAMED = frozenset({"comment", "admin-comment", "watch", "batch-script"})  # places of which nobody has to search


def make_item(search: DirectorySearch, rules: tuple[SiteRule, ...]) -> dict[str, Any]:
    """Return the item of a request that searches for one job's directory."""
    job = search.job
    candidates = plan_candidates(job, rules, search.script_paths, search.values)
    if search.is_declared_only:
        candidates = tuple(each for each in candidates if each.located_by != "discovery")
    return {
        "work_dir": str(job.work_dir) if job.work_dir else None,
        "candidates": [[each.located_by, each.path, *each.copies[:MAX_COPIES]] for each in candidates],
        "since_ns": int(search.since.timestamp() * 1e9),
        "until_ns": None if search.until is None else int(search.until.timestamp() * 1e9),
        "excluded": list(search.excluded),
        "shared": list(search.shared),
        "places": list(search.values.values()),
        "job_names": _list_names(job),
        "is_role_asked": search.is_role_asked,
    }


def _list_names(job: Job) -> list[str]:
    """Return the names that directories of this job alone have: its id, or the array's with its task."""
    names = [str(job.job_id)]
    if job.array_job_id is not None and job.array_task_id is not None:
        # one task has the id of its array, which stands in the names of all of them
        names = [] if job.job_id == job.array_job_id else names
        names += [f"{job.array_job_id}{mark}{job.array_task_id}" for mark in "_-/."]
    return names


def is_told_apart(item: dict[str, Any]) -> bool:
    """Whether a search names a place and would also send the directories of other jobs."""
    is_named = any(each[0] in _NAMED for each in item["candidates"])
    return is_named and bool(item["excluded"] or item["shared"])


def without_search(item: dict[str, Any]) -> dict[str, Any]:
    """Return a request for the named places alone."""
    named = [each for each in item["candidates"] if each[0] != "discovery"]
    return {**item, "candidates": named, "excluded": [], "shared": []}
