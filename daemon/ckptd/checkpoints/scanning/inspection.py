"""Inspects one directory tree: lists it, and lets the formats claim and examine checkpoints in limited children."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.agent.garbage_collector import collector_paused
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.formats.generic import is_ordinary
from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.scanning.adapter_bases import list_adapters
from ckptd.checkpoints.scanning.claiming import claim_and_go_on
from ckptd.checkpoints.scanning.earlier_scans import EarlierCheckpoints
from ckptd.checkpoints.scanning.examination import examine_after_claiming, examine_for_parent, examine_in_child
from ckptd.checkpoints.scanning.job_results import JobResults
from ckptd.checkpoints.scanning.links import Link, find_links
from ckptd.checkpoints.scanning.pointers import LinkText, list_links
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.recognition import WRITE_GRACE, assemble, modified_ns
from ckptd.checkpoints.scanning.shared_parser import SharedParser, SharedTask
from ckptd.checkpoints.scanning.tree import Directory, File, list_tree
from ckptd.checkpoints.scanning.tree_fingerprint import is_final, make_fingerprint, newest_change_ns
from ckptd.checkpoints.scanning.unrecognised_files import find_newest
from ckptd.core.checkpoint_sets import OtherFile, group
from ckptd.core.model import Checkpoint, Level, Unknown, UnrecognisedFile
from ckptd.core.model.checkpoints import UNREAD


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """The result of one scan of one tree. Paths that are text are relative to `root`."""

    root: PurePosixPath
    checkpoints: tuple[Checkpoint, ...]
    links: tuple[Link, ...]
    unrecognised: tuple[str, ...]
    leftovers: tuple[str, ...]  # what saves that did not end left behind, checkpoints among them
    markers: tuple[str, ...]  # files that several checkpoints share
    problems: tuple[Unknown, ...]  # not empty: the tree was not read whole
    link_texts: tuple[LinkText, ...] = ()  # those that may lead to a checkpoint, here or elsewhere
    adapters: tuple[str, ...] = ()  # configurations that may name a checkpoint as a base model, absolute
    fingerprint: str | None = None  # a tree with the same one has the same checkpoints; None: it may change by itself
    entry_count: int = 0  # directory entries that were read
    unread_count: int = 0  # checkpoints, or parts of them, for which there was no time
    newest_unrecognised: UnrecognisedFile | None = None  # that may be a checkpoint, if there is no known one


MAX_LEFTOVERS = 1000  # the newest: a directory may hold any number, and each scan records them

Progress = Callable[[int, int], None]  # bytes read so far, and of how many


def inspect_tree(  # noqa: PLR0913 - each is a question of its own, and all but two have an answer
    root: PurePosixPath | str,
    *,
    descriptor: int | None = None,
    now: datetime,
    level: Level = Level.STRUCTURE,
    known: Iterable[Checkpoint] = (),
    entry: str | None = None,
    only: frozenset[str] | None = None,
    max_depth: int = 12,
    max_entries: int = 2_000_000,
    write_grace: timedelta = WRITE_GRACE,
    limits: ChildLimits | None = None,
    progress: Progress | None = None,
    parser: SharedParser | None = None,
    results: JobResults | None = None,
) -> Inspection:
    """Inspect the tree below a directory; where there is a `descriptor` of it, its path is not opened again.

    `known` has the results of earlier scans: a complete checkpoint whose files are unchanged and that was verified at
    the same level is not opened again. `entry` limits the scan to one file, directory or prefix in `root`; `only`
    limits it to what formats recognise at these paths relative to `root`, and then each part is returned separately.
    What was not read by `limits.until` is unknown, and the next call continues with it, given what this one found. It
    forks: call it from a process with one thread. A `parser` reads several directories in turn, this root among them.
    `results` has what jobs of the owner have read: it need not be read here, unless this node has read it in vain.

    Raises:
        OSError: the root cannot be opened.

    """
    root = PurePosixPath(root)
    limits = limits or ChildLimits()
    with collector_paused():
        opened = root if descriptor is None else descriptor
        tree = list_tree(opened, max_depth=max_depth, max_entries=max_entries, entry=entry)
        entry_count = tree.count_entries()  # first: what did not change is dropped from the tree
        adapters = list_adapters(tree, str(root))
        unchanged_since_ns = int((now - write_grace).timestamp() * 1e9)
        fingerprint = make_fingerprint(tree, (max_depth, max_entries, write_grace))
        if adapters or (fingerprint is not None and newest_change_ns(tree) >= unchanged_since_ns):
            fingerprint = None
        with Reader(opened) as reader:
            earlier = EarlierCheckpoints((part for each in known for part in each.parts or (each,)), root, level)
            unchanged = earlier.drop_unchanged(tree) if entry is None and only is None else []

            def choose(claims: Sequence[Claim]) -> _Chosen:
                wanted = list(claims)
                if entry is not None or only is not None:
                    wanted = [claim for claim in claims if _is_wanted(claim, tree, entry, only)]
                kept: Mapping[str, Checkpoint | Examination] = earlier.unchanged(wanted)
                tried = earlier.list_tried(wanted)
                if results:  # what this node has read itself outweighs them
                    kept = {**results.find(claim for claim in wanted if claim.path not in tried), **kept}
                return _Chosen(wanted, kept, tried)

            shared = parser.begin(str(root), reader.descriptor, tree) if parser and level is not Level.FULL else None
            options = _ReadOptions(level, limits, progress, shared)
            claims, left, examinations = _claim_and_examine(tree, reader, choose, options)
            found = assemble(claims, examinations, root=root, level=level, now=now, write_grace=write_grace)
            pieces = (*unchanged, *found)
            newest = None if pieces else find_newest(left, reader, now)  # beside checkpoints it is a result
        others = [OtherFile(file.path, file.identity, file.uid) for file in left]
        checkpoints = (
            pieces if only is not None else group(pieces, others, root=root, unchanged_since_ns=unchanged_since_ns)
        )
        links = tuple(find_links(tree, checkpoints, str(root)))
        link_texts = tuple(list_links(tree, checkpoints, str(root)))
    leftovers, problems = _list_leftovers(claims), tuple(tree.walk_problems())
    return Inspection(
        root=root,
        checkpoints=checkpoints,
        links=links,
        unrecognised=() if entry in tree.files else _list_unrecognised(left, checkpoints, root),
        leftovers=leftovers,
        markers=tuple(sorted({file.path for claim in claims for file in claim.markers})),
        problems=problems,
        link_texts=link_texts,
        adapters=adapters,
        fingerprint=None if leftovers or problems or not is_final(checkpoints) else fingerprint,
        entry_count=entry_count,
        unread_count=sum(isinstance(each, Examination) and each.reason == UNREAD for each in examinations),
        newest_unrecognised=newest,
    )


class _ReadOptions(NamedTuple):
    """How a tree is read."""

    level: Level
    limits: ChildLimits
    progress: Progress | None
    shared: SharedTask | None


class _Chosen(NamedTuple):
    """The claims that are asked for, and what is known by path of those that need not be read."""

    claims: list[Claim]
    kept: Mapping[str, Checkpoint | Examination]
    tried: frozenset[str]  # paths of others that earlier scans read in vain

    def list_unknown(self) -> list[Claim]:
        """Return what has to be read, newest first; last what was read in vain before, and may take all the time."""
        unknown = [claim for claim in self.claims if claim.path not in self.kept] if self.kept else self.claims
        newest_first = sorted(unknown, key=modified_ns, reverse=True)
        return sorted(newest_first, key=lambda claim: claim.path in self.tried) if self.tried else newest_first


def _claim_and_examine(
    tree: Directory, reader: Reader, choose: Callable[[Sequence[Claim]], _Chosen], options: _ReadOptions
) -> tuple[list[Claim], list[File], list[Checkpoint | Examination]]:
    """Return the chosen claims, the files that belong to none, and what is known or found of each chosen claim."""
    level, limits, shared = options.level, options.limits, options.shared
    # a full check has other limits and shows its progress: that needs a child of its own
    goes_on = level is not Level.FULL
    go_on = examine_after_claiming(lambda claims: choose(claims).list_unknown(), reader, level, limits)
    with shared or nullcontext():
        claims, left, child = claim_and_go_on(tree, reader, go_on if goes_on else None, limits=limits, shared=shared)
        limits = limits.keep_reserve()  # never later than that of the child, which has begun to read before
        with nullcontext() if child is shared else child or nullcontext():
            chosen = choose(claims)
            todo = chosen.list_unknown()
            if child is not None and child is shared:
                places = {id(claim): place for place, claim in enumerate(claims)}
                numbers = [places[id(claim)] for claim in todo]
                shared.ask(examine_for_parent, numbers, level, limits, seconds=limits.seconds)
            watch = _watch(todo, level, options.progress)
            read = examine_in_child(todo, reader, level, limits=limits, progress=watch, begun=child)
            fresh = {id(claim): found for claim, found in zip(todo, read, strict=True)}
            return chosen.claims, left, [chosen.kept.get(claim.path) or fresh[id(claim)] for claim in chosen.claims]


def _list_unrecognised(left: Iterable[File], checkpoints: Iterable[Checkpoint], root: PurePosixPath) -> tuple[str, ...]:
    """Return the files that belong to no checkpoint, without programs, logs and the like."""
    prefix = f"{str(root).rstrip('/')}/"
    known = {
        f"{made.path.parent}/{file}".removeprefix(prefix) for made in checkpoints if made.parts for file in made.files
    }
    return tuple(file.path for file in left if file.path not in known and not is_ordinary(file.name))


def _list_leftovers(claims: Iterable[Claim]) -> tuple[str, ...]:
    left = [claim for claim in claims if claim.temporary or claim.in_progress]
    if len(left) > MAX_LEFTOVERS:
        left.sort(key=lambda claim: max((file.modified_ns for file in claim.files), default=0))
    return tuple(claim.path for claim in left[-MAX_LEFTOVERS:])


def _is_wanted(claim: Claim, tree: Directory, entry: str | None, only: frozenset[str] | None) -> bool:
    if only is not None and claim.path not in only:
        return False
    if entry is None or entry in tree.directories:
        return True
    return claim.path == entry or any(file.path == entry for file in claim.files)


def _watch(claims: list[Claim], level: Level, progress: Progress | None) -> Callable[[int], None] | None:
    if progress is None or level is not Level.FULL:
        return None
    total = sum(file.size_bytes for claim in claims for file in claim.files)
    return lambda done: progress(min(done, total), total)
