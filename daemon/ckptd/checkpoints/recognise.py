"""Turns a listed tree into checkpoints: every format claims in turn, then each claim is examined."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.checkpoints.formats import FORMATS
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.reader import NotRegularError, Reader
from ckptd.checkpoints.tree import Directory, File
from ckptd.core.model import Checkpoint, CheckpointState, Level

SETTLE_TIME = timedelta(seconds=60)


@dataclass(kw_only=True)
class Recognised:
    """The checkpoints of one tree, and the files that belong to none."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    unrecognised: list[str] = field(default_factory=list)


def claim_tree(tree: Directory, reader: Reader) -> tuple[list[Claim], list[File]]:
    """Let every format claim its checkpoints, outermost directories first; return the claims and what is left."""
    claims: list[Claim] = []
    left: list[File] = []
    pending = [tree]
    while pending:
        directory = pending.pop()
        for found in FORMATS.values():
            taken = list(found.claim(directory, reader))
            if taken:
                claims.extend(taken)
                directory = _without(directory, taken)
        left.extend(directory.files.values())
        pending.extend(directory.directories.values())
    return claims, left


def _without(directory: Directory, claims: list[Claim]) -> Directory:
    """Return the directory less what the claims took; a subdirectory goes whole when a claim's path names it."""
    taken_files = {file.path for claim in claims for file in (*claim.files, *claim.markers)}
    taken_directories = {claim.path for claim in claims}
    return Directory(
        path=directory.path,
        uid=directory.uid,
        modified_ns=directory.modified_ns,
        files={name: file for name, file in directory.files.items() if file.path not in taken_files},
        directories={
            name: child
            for name, child in directory.directories.items()
            if child.path not in taken_directories and not _is_emptied(child, taken_files)
        },
        links=directory.links,
        others=directory.others,
        problems=directory.problems,
    )


def _is_emptied(directory: Directory, taken: set[str]) -> bool:
    files = list(directory.walk_files())
    return bool(files) and all(file.path in taken for file in files)


def examine_claims(
    claims: list[Claim], reader: Reader, *, root: PurePosixPath, level: Level, now: datetime
) -> Iterator[Checkpoint]:
    """Examine each claim; trouble with one is its own state and reason, and the next goes on."""
    examined = [(claim, _examine(claim, reader, level)) for claim in claims]
    best = _best_paths(examined)
    for claim, found in examined:
        is_best = claim.is_best or found.is_best or claim.path in best or None
        yield _checkpoint(claim, replace(found, is_best=is_best), root=root, level=level, now=now)


def _best_paths(examined: list[tuple[Claim, Examination]]) -> set[str]:
    """Return the paths of the best: each checkpoint names one as of when it was written; the furthest is believed."""
    opinions: dict[tuple[str, str], tuple[int, int, str]] = {}
    for claim, found in examined:
        if found.best_path:
            place = (claim.format, claim.path.rpartition("/")[0])
            step = found.step if found.step is not None else claim.name_step
            written = max((file.modified_ns for file in claim.files), default=0)
            opinion = (-1 if step is None else step, written, found.best_path)
            opinions[place] = max(opinion, opinions.get(place, opinion))
    return {f"{parent}/{name}" if parent else name for (_, parent), (_, _, name) in opinions.items()}


def _examine(claim: Claim, reader: Reader, level: Level) -> Examination:
    if level is Level.LISTED:
        return Examination(state=CheckpointState.UNKNOWN, reason="only listed")
    try:
        return FORMATS[claim.format].examine(claim, reader, level)
    except DamagedError as error:
        return Examination(state=CheckpointState.DAMAGED, reason=str(error))
    except (OSError, NotRegularError) as error:
        return Examination(state=CheckpointState.UNKNOWN, reason=f"could not be read: {error}")
    except MemoryError:
        return Examination(state=CheckpointState.UNKNOWN, reason="its reader needs more memory than it may have")
    except RecursionError:
        return Examination(state=CheckpointState.UNKNOWN, reason="its content is nested too deeply to read")
    except Exception as error:  # noqa: BLE001 - one hostile file must not end the scan of the others
        return Examination(state=CheckpointState.UNKNOWN, reason=f"its reader failed: {type(error).__name__}: {error}")


def _checkpoint(claim: Claim, found: Examination, *, root: PurePosixPath, level: Level, now: datetime) -> Checkpoint:
    parent = PurePosixPath(claim.path).parent.as_posix()
    prefix = 0 if parent == "." else len(parent) + 1
    modified_at = datetime.fromtimestamp(max((file.modified_ns for file in claim.files), default=0) / 1e9, UTC)
    state, reason = found.state, found.reason
    is_fresh = now - modified_at < SETTLE_TIME
    if state is CheckpointState.COMPLETE and claim.damage:
        state, reason = CheckpointState.DAMAGED, claim.damage
    if claim.in_progress or (claim.temporary and is_fresh):
        state, reason = CheckpointState.WRITING, claim.in_progress or claim.temporary
    elif state is CheckpointState.DAMAGED and is_fresh:
        state, reason = CheckpointState.WRITING, f"changed within the last minute; so far: {reason}"
    return Checkpoint(
        path=root / claim.path,
        format=claim.format,
        files=tuple(file.path[prefix:] for file in claim.files),
        identities=tuple(file.identity for file in claim.files),
        owner_uids=frozenset(file.uid for file in claim.files),
        size_bytes=sum(file.size_bytes for file in claim.files),
        modified_at=modified_at,
        state=state,
        reason=reason or claim.temporary or claim.remark,
        level=level,
        epoch=found.epoch if found.epoch is not None else claim.name_epoch,
        step=found.step if found.step is not None else claim.name_step,
        name_epoch=claim.name_epoch,
        name_step=claim.name_step,
        is_best=found.is_best,
        is_newest=claim.is_newest,
        metrics={**claim.name_metrics, **found.metrics},
        unsafe=found.unsafe,
    )
