"""Decides which references (paths in jobs, links and settings) keep checkpoints, so that only the owner can keep many.

The owner's own jobs, links and settings keep every checkpoint that they may refer to. A reference to several
checkpoints (a directory above them, a name that all share, a path with a variable of the job) counts only until its job
has started and had time to load one. Otherwise, it would keep all checkpoints of a run as long as the job that writes
them is in the queue. There is one exception: a pattern inside the run's directory, such as `ckpts/epoch_*.pt`, counts
while its job is in the queue, because an evaluation reads one checkpoint after another. The exception does not apply to
the job that writes the run. Another user's job keeps a checkpoint only by its exact path, and only a few checkpoints of
one run. A job on another cluster also keeps one only by its exact path, because that path may be another file there.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from ckptd.core.discovery.path_mentions import JobMentions, Mention
from ckptd.core.model import RunKey, RunRecord, SeenLink
from ckptd.core.retention.references import ANY_SUFFIX, Reference, measure

MAX_OF_OTHERS = 10  # checkpoints of one run that one other user's jobs keep
MAX_ANYWHERE = 1000  # inexact references of one owner: where there are more, they may mean anything
LINK_AGE = timedelta(hours=6)
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,11}$")
USER_FILE = ".ckptd.toml"
ADAPTER_FILE = "adapter_config.json"  # names the model that an adapter beside it was trained on
Found = TypeVar("Found")


class SeenLinks(NamedTuple):
    """The links that the last scan of one run saw."""

    run: RunKey
    seen_at: datetime | None
    links: tuple[SeenLink, ...]


class ReferenceCandidate(NamedTuple):
    """A reference, and the condition under which it counts."""

    reference: Reference
    is_narrow: bool = False  # it counts only where it names no several at once
    is_direct: bool = False  # it counts only where it names a checkpoint itself, or a file of one
    reader: tuple[str, int] | None = None  # cluster and id of the job that names it, once it has had time to load


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceSources:
    """All recorded references to checkpoints of some owners' runs."""

    links: Mapping[int, Sequence[SeenLinks]] = field(default_factory=dict)  # by owner
    jobs: Sequence[JobMentions] = ()  # of everybody
    jobs_elsewhere: Sequence[JobMentions] = ()  # of everybody, on the other clusters of the database
    directories: Mapping[int, str] = field(default_factory=dict)  # of the runs of jobs, by job
    doubt: str | None = None  # why it is not known what jobs name now


class References:
    """References by owner."""

    def __init__(self, named: ReferenceSources, now: datetime, *, is_hopeful: bool = False) -> None:
        """Take what is on record. `is_hopeful` leaves out what is still to be read, and links seen long ago."""
        self._named = named
        self._now = now
        self._is_hopeful = is_hopeful
        self._jobs: dict[int, list[JobMentions]] = defaultdict(list)
        for job in named.jobs:
            self._jobs[job.uid].append(job)
        self._owners: dict[tuple[int, timedelta], _Owner] = {}
        self._others: _Paths[tuple[JobMentions, Reference]] | None = None

    def find(self, history: RunRecord, grace: timedelta) -> tuple[Reference, ...]:
        """Return the references that count for a run; a job older than `grace` has loaded its checkpoint."""
        key = history.key
        if self._named.doubt and not self._is_hopeful:
            return (Reference("/", self._named.doubt, is_exact=False),)
        present = [
            each.checkpoint for each in history.checkpoints if each.deleted_at is None and each.pruned_at is None
        ]
        if len(present) < 2:
            return ()
        owner = self._owners.get((key.uid, grace))
        if owner is None:
            owner = self._owners[key.uid, grace] = _Owner(self._list_own(key.uid, grace))
        candidates = list(owner.list_near(key.directory))
        others = [
            each
            for each in self._list_others(key.directory)
            if (each[0].cluster, each[0].uid) != (key.cluster, key.uid)
        ]
        if not candidates and not others and not self._named.links.get(key.uid):
            return ()
        paths = []
        for each in present:
            parent = str(each.path.parent).rstrip("/")
            paths.append([str(each.path), *(f"{parent}/{file}" for file in each.files)])
        candidates += _find_by_identity(self._list_links(key.uid), history, key.directory)
        writers = {(attempt.job.cluster, attempt.job.job_id) for attempt in history.attempts}
        found = _select([_widen(each, key.directory, writers) for each in candidates], paths)
        return (*found, *_select_others(key.uid, others, paths))

    def _list_links(self, uid: int) -> Iterator[SeenLink]:
        for seen in self._named.links.get(uid, ()):
            if not (self._is_hopeful and is_old(seen, self._now)):
                yield from seen.links
        for job in self._jobs.get(uid, ()):
            yield from job.links

    def _list_own(self, uid: int, grace: timedelta) -> Iterator[ReferenceCandidate]:
        for link in self._list_links(uid):
            yield from _of_link(link)
        for job in self._jobs.get(uid, ()):
            if job.is_script_awaited and not self._is_hopeful:
                reason = f"the script of job {job.job_id} has not been read yet"
                yield ReferenceCandidate(Reference("/", reason, is_exact=False))
            is_loading = job.is_waiting or job.started_at is None or self._now - job.started_at < grace
            for mention in job.all_mentions:
                for each in _of_mention(mention, job, self._named.directories.get(job.job_id)):
                    yield each if is_loading else each._replace(is_narrow=True, reader=(job.cluster, job.job_id))

    def _list_others(self, directory: str) -> Iterator[tuple[JobMentions, Reference]]:
        if self._others is None:
            self._others = _Paths(
                (
                    path,
                    (
                        job,
                        Reference(path, f"job {job.job_id} of {job.user}{place(job)} names it in its {mention.source}"),
                    ),
                )
                for place, jobs in ((_here, self._named.jobs), (_elsewhere, self._named.jobs_elsewhere))
                for job in jobs
                for mention in job.all_mentions
                if mention.is_literal and mention.is_sure and mention.path
                for path in {mention.path, job.resolved.get(mention.path) or mention.path}
            )
        yield from self._others.list_below(directory)


def _here(_job: JobMentions) -> str:
    return ""


def _elsewhere(job: JobMentions) -> str:
    return f" on the cluster {job.cluster}"


def is_old(seen: SeenLinks, now: datetime) -> bool:
    """Whether the links were last scanned so long ago that a new scan is needed."""
    return seen.seen_at is None or not timedelta(0) <= now - seen.seen_at < LINK_AGE


def _of_link(link: SeenLink) -> Iterator[ReferenceCandidate]:
    place, _, name = link.path.rpartition("/")
    if not link.target:
        what = "cannot be read" if name in {USER_FILE, ADAPTER_FILE} else "has more links than are read"
        yield ReferenceCandidate(
            Reference("/", f"{link.path} {what}: any checkpoint may be named there", is_exact=False)
        )
        return
    is_setting = name == USER_FILE
    for path in dict.fromkeys((link.target, link.real or link.target)):
        shown = name if path.rpartition("/")[0] == place else link.path
        reason = f"{link.path} names it in resume_from" if is_setting else f"{shown} is a link to it"
        if name == ADAPTER_FILE:
            reason = f"{link.path} names it as its base model"
        yield ReferenceCandidate(Reference(path, reason), is_narrow=not is_setting)


def _find_by_identity(links: Iterable[SeenLink], history: RunRecord, directory: str) -> Iterator[ReferenceCandidate]:
    """Find targets of links through another mount, by device and inode."""
    wanted: dict[tuple[int, int], list[SeenLink]] = defaultdict(list)
    for link in links:
        if link.inode and not (link.real or "").startswith(f"{directory}/"):
            wanted[link.device, link.inode].append(link)
    if not wanted:
        return
    for record in history.checkpoints:
        found = record.checkpoint
        for file, identity in zip(found.files, found.identities, strict=False):
            for link in wanted.get((identity.device, identity.inode), ()):
                path = f"{str(found.path.parent).rstrip('/')}/{file}"
                if not link.inside or path.endswith(f"/{link.inside}"):
                    target = path[: -len(link.inside) - 1] if link.inside else path
                    yield from _of_link(link._replace(target=target, real=None))


def _of_mention(mention: Mention, job: JobMentions, directory: str | None) -> Iterator[ReferenceCandidate]:
    """Yield what a mention may mean to its owner's runs."""
    reason = f"job {job.job_id} names it in its {mention.source}"
    unsure = f"job {job.job_id} may mean it: a path in its {mention.source} cannot be told for sure"
    path, is_known = mention.path, mention.path in job.resolved
    real = job.resolved.get(path)
    for each in dict.fromkeys((path, real or "")):
        if each.startswith("/"):
            reference = Reference(each, reason if mention.is_sure else unsure, is_exact=mention.is_sure)
            yield ReferenceCandidate(reference, is_direct=mention.is_place)
    if mention.is_place or real:
        return
    # not searched yet, or nothing found: a program may continue in another directory than its script
    tail = mention.tail or ("" if is_known else "/".join(path.rsplit("/", 2)[-2:]).strip("/~"))
    if tail:
        yield ReferenceCandidate(Reference(tail, unsure, is_exact=False))
    if mention.is_sure and not _SUFFIX.search(path or tail):  # programs add it: `--resume ckpts/epoch_2`
        for each in dict.fromkeys((path if path.startswith("/") else "", tail)):
            if each:
                yield ReferenceCandidate(Reference(each + ANY_SUFFIX, unsure, is_exact=each == path))
    if not mention.is_sure and not mention.tail and path == job.work_dir and directory is not None:
        yield ReferenceCandidate(Reference(directory, unsure, is_exact=False))


class _Paths(Generic[Found]):
    """What is named by absolute paths, to be found by a directory."""

    def __init__(self, found: Iterable[tuple[str, Found]]) -> None:
        pairs = sorted(found, key=lambda pair: pair[0])
        self._paths = [path for path, _ in pairs]
        self._found = [each for _, each in pairs]

    def list_below(self, directory: str) -> Iterator[Found]:
        """Yield what is named below a directory."""
        start = bisect_left(self._paths, f"{directory}/")
        for place in range(start, len(self._paths)):
            if not self._paths[place].startswith(f"{directory}/"):
                return
            yield self._found[place]

    def list_at(self, path: str) -> Iterator[Found]:
        for place in range(bisect_left(self._paths, path), len(self._paths)):
            if self._paths[place] != path:
                return
            yield self._found[place]


class _Owner:
    """References by one user's own jobs, links and settings."""

    def __init__(self, candidates: Iterable[ReferenceCandidate]) -> None:
        unique = dict.fromkeys(candidates)
        self._anywhere = [each for each in unique if not each.reference.path.startswith("/")]
        if len(self._anywhere) > MAX_ANYWHERE:
            reason = "its owner's jobs name more paths than are compared"
            self._anywhere = [ReferenceCandidate(Reference("/", reason, is_exact=False))]
        whole = (each for each in unique if each.reference.path.startswith("/"))
        self._whole = _Paths((each.reference.path, each) for each in whole)

    def list_near(self, directory: str) -> Iterator[ReferenceCandidate]:
        """Yield what may name something in a directory."""
        yield from self._anywhere
        parents = directory.split("/")
        above = ("/".join(parents[:count]) or "/" for count in range(1, len(parents) + 1))
        for path in above:
            yield from self._whole.list_at(path)
        yield from self._whole.list_below(directory)


def _widen(candidate: ReferenceCandidate, directory: str, writers: Collection[tuple[str, int]]) -> ReferenceCandidate:
    """Let a pattern inside the run's directory count for all that it may mean, unless a job of the run names it."""
    path, is_exact = candidate.reference.path, candidate.reference.is_exact
    is_inside = path == directory or path.startswith(f"{directory}/")
    if is_exact or not is_inside or candidate.reader is None or candidate.reader in writers:
        return candidate
    return candidate._replace(is_narrow=False)


def _select(candidates: Sequence[ReferenceCandidate], paths: Sequence[Sequence[str]]) -> Iterator[Reference]:
    reaches = measure([each.reference for each in candidates], paths)
    for each, reach in zip(candidates, reaches, strict=True):
        if each.is_direct and not reach.direct_count:
            continue
        is_broad = reach.below_count > 1 or reach.direct_count == len(paths)
        if not (each.is_narrow and is_broad) and (reach.direct_count or reach.below_count):
            yield each.reference


def _select_others(
    owner: int, named: Collection[tuple[JobMentions, Reference]], paths: Sequence[Sequence[str]]
) -> Iterator[Reference]:
    """Yield the exact paths that other users' jobs name, a few of each user, and those of the owner elsewhere."""
    references = [reference for _, reference in named]
    counts: Counter[int] = Counter()
    seen: set[tuple[int, str]] = set()
    for (job, reference), reach in zip(named, measure(references, paths), strict=True):
        if reach.direct_count != 1 or (job.uid, reference.path) in seen:
            continue
        seen.add((job.uid, reference.path))
        counts[job.uid] += 1
        if counts[job.uid] <= MAX_OF_OTHERS or job.uid == owner:
            yield reference
