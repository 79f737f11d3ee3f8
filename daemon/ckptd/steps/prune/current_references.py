"""Finds the checkpoints that queued jobs name, also in their scripts, before anything is removed."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.agent.scan_client import ResolvedPaths, look_up_paths
from ckptd.core import retention
from ckptd.core.discovery.path_mentions import JobMentions, Mention
from ckptd.core.model import RunKey, Unknown
from ckptd.core.retention import Decision, ReferenceSources, RunPlan
from ckptd.steps import record_mentions
from ckptd.steps.parts import Parts
from ckptd.steps.snapshots import QueuedMentions
from ckptd.steps.state import State

MAX_SCRIPTS = 200  # of one step: each is a question of its own to Slurm
MAX_PATHS = 2000  # of the jobs of one owner in one directory that are looked up in one step
MAX_WORK_DIRS = 50  # of one owner that are read in one step
MAX_LINKING = 50  # runs that are scanned in one step for their links alone
MAX_STRANGERS = 50  # other users; only those of their paths are looked up that may refer to checkpoints to remove


def prepare(parts: Parts, state: State, wanted: Iterable[RunPlan], *, is_recorded: bool = True) -> None:
    """Read the paths that jobs of these runs' owners name, and others' paths that may name a checkpoint to be removed.

    A path that could not be resolved, for lack of time or of an answer, keeps everything that it may mean. Paths are
    resolved again each time, because a link may have changed and a missing file may have been written. A command that
    records nothing keeps the results in `state` alone.
    """
    plans = list(wanted)
    owners = {run.run.uid for run in plans}
    if not owners:
        return
    record_mentions.read_scripts(parts, state, owners, MAX_SCRIPTS, is_recorded=is_recorded)
    names = {name for run in plans for each in run.remove for name in _list_names(each)}
    asked: list[_Asked] = []
    for (uid, work_dir), jobs in sorted(_group(state, owners, names).items()):
        paths = _list_paths(jobs, None if uid in owners else names)
        asked.append(_Asked(uid, paths, [work_dir] if work_dir and uid in owners else [], jobs))
    found = look_up_paths(parts.agent, [each[:3] for each in asked], parts.limits)
    for each, answer in zip(asked, found, strict=True):
        if not isinstance(answer, Unknown):
            record_mentions.change(parts, state, _add(each.jobs, answer), is_recorded=is_recorded)


def list_linking(named: ReferenceSources, wanted: Iterable[RunPlan], now: datetime) -> list[RunKey]:
    """Return other runs of these owners whose links were last seen so long ago that they may have been deleted."""
    owners = {run.run.uid for run in wanted}
    old = [seen for uid in owners for seen in named.links.get(uid, ()) if retention.is_old(seen, now)]
    old.sort(key=lambda seen: (seen.seen_at is not None, seen.seen_at))
    return [seen.run for seen in old[:MAX_LINKING]]


class _Asked(NamedTuple):
    uid: int
    paths: list[str]
    work_dirs: list[str]
    jobs: list[JobMentions]


def _list_names(going: Decision) -> list[str]:
    return [going.path.rpartition("/")[2], *(file.rpartition("/")[2] for file in going.record.checkpoint.files)]


def _group(state: State, owners: Collection[int], names: Collection[str]) -> dict[tuple[int, str], list[JobMentions]]:
    """Return the jobs whose paths to look up, by owner and working directory."""
    known = state.latest(QueuedMentions).list_of(owners)
    groups: dict[tuple[int, str], list[JobMentions]] = defaultdict(list)
    strangers: set[int] = set()
    counts: Counter[int] = Counter()
    for job in known:
        if job.uid not in owners:
            if not any(_may_mean(mention, names) for mention in job.all_mentions):
                continue
            strangers.add(job.uid)
        place = (job.uid, job.work_dir or "")
        if place not in groups:
            counts[job.uid] += 1
        if counts[job.uid] <= MAX_WORK_DIRS and len(strangers) <= MAX_STRANGERS:
            groups[place].append(job)
    return groups


def _may_mean(mention: Mention, names: Collection[str]) -> bool:
    """Whether a path that another user's job names may be one of the checkpoints to remove."""
    return mention.is_sure and mention.is_literal and mention.path.rpartition("/")[2] in names


def _list_paths(jobs: Iterable[JobMentions], names: Collection[str] | None) -> list[str]:
    """Return the paths to look up, new ones first; of other users only these `names`."""
    paths: dict[str, bool] = {}
    for job in jobs:
        for mention in job.all_mentions:
            if mention.path and (names is None or _may_mean(mention, names)):
                paths[mention.path] = mention.path in job.resolved
    return sorted(paths, key=lambda path: paths[path])[:MAX_PATHS]


def _add(jobs: Iterable[JobMentions], found: ResolvedPaths) -> Iterator[JobMentions]:
    """Yield the jobs with the results; the links of a working directory are assigned to its first job."""
    links = found.links
    for job in jobs:
        named = {mention.path for mention in job.all_mentions}
        real = {path: real for path, real in found.real.items() if path in named}
        yield replace(job, resolved={**job.resolved, **real}, links=links)
        links = ()
