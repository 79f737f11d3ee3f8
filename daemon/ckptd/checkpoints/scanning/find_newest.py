"""Finds the newest complete checkpoint below some directories, while a job may be writing there.

It reads and groups files as the daemon does. Before it answers, it compares the chosen checkpoint with the disk again;
if a job replaced or deleted it meanwhile, it searches again.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.formats import checkpoint_names
from ckptd.checkpoints.formats.generic import is_ordinary
from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.inspection import Inspection, inspect_tree
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.core.model import Checkpoint, CheckpointState, Level, Role, Unknown, checkpoint_json
from ckptd.core.runs.newest_complete import Elsewhere, NewestComplete, choose
from ckptd.errors import CkptdError

_TRIES = 3
# Names of checkpoints whose format ckptd may not know. A word that other files also contain needs a number beside it.
_LIKELY = r"(?i)ckpt|chk|checkpoint|restrt|restart|snapshot"
_LIKELY_NUMBERED = r"(?i)model|weights|state|save|rst|(?<![a-z])(?:step|iter|epoch)"
_ORDINARY = frozenset({"checkpoint", "latest"})  # markers, which name what is there or not
_DEPTH = 12
_CHANGED = "it changed while it was read"
_REPORTED = 5  # of those that were skipped or are unknown: a directory may hold any number

Progress = Callable[[], None]


class NotADirectoryGivenError(CkptdError):
    """The given path is not a directory."""


@dataclass(frozen=True, slots=True)
class _GivenDirectory:
    """A directory as given, and the directory to inspect: itself, or its parent with `entry` as its name."""

    given: str
    real: str
    root: str
    entry: str | None = None


# The directories that Lightning's loggers make for each start of a training, `lightning_logs/version_0` and so on.
_START = re.compile(r"version_\d{1,9}")
_MOST_STARTS = 16  # of the same training that are compared, the latest ones


@dataclass(frozen=True, kw_only=True, slots=True)
class _FoundCheckpoints:
    """What was found. Paths of checkpoints and leftovers are real ones."""

    places: Sequence[_GivenDirectory] = ()
    checkpoints: Sequence[Checkpoint] = ()
    leftovers: frozenset[str] = frozenset()
    problems: Sequence[Unknown] = ()
    nearby: Sequence[Checkpoint] = ()  # of other starts of the same training; their paths are shown as they are


def find_newest(directories: Sequence[str], level: Level, step: int | None, progress: Progress) -> dict[str, Any]:
    """Return the newest complete checkpoint as JSON's types; `decode` builds the `NewestComplete` from them.

    Paths in the answer begin as the directories do, which should be absolute. `progress` is called while bytes are
    verified.

    Raises:
        NotADirectoryGivenError: one of them is a file.

    """
    inspected = _inspect_all(directories)
    for _ in range(_TRIES):
        choice = _choose(inspected, step, level, progress)
        if choice is not None:
            return _encode(_rename_all(choice, inspected.places))
        inspected = _inspect_all(directories)
    return _encode(_rename_all(_choose_unchanged(inspected, step, level, progress), inspected.places))


def _choose(inspected: _FoundCheckpoints, step: int | None, level: Level, progress: Progress) -> NewestComplete | None:
    """Choose the newest checkpoint that is valid at the level; None if one changed meanwhile."""
    if inspected.problems:
        return NewestComplete(unknown=tuple(inspected.problems))
    found = list(inspected.checkpoints)
    while True:
        choice = choose(found, inspected.leftovers, step, inspected.nearby)
        if choice.chosen is None:
            return choice if choice.unknown else replace(choice, unknown=tuple(_list_unread(inspected)))
        judged = choice.chosen
        if level is Level.FULL:
            judged = _verify(judged, _place_of(judged, inspected.places), progress)
        if not _is_as_read(choice.chosen):
            return None
        if judged.state is CheckpointState.COMPLETE:
            return replace(choice, chosen=judged)
        found = [judged if each is choice.chosen else each for each in found]


def _choose_unchanged(
    inspected: _FoundCheckpoints, step: int | None, level: Level, progress: Progress
) -> NewestComplete:
    """Choose among checkpoints that do not change; one that changes each time counts as being written."""
    found = [
        each if _is_as_read(each) else replace(each, state=CheckpointState.WRITING, reason=_CHANGED)
        for each in inspected.checkpoints
    ]
    choice = _choose(replace(inspected, checkpoints=found), step, level, progress)
    if choice is None or (choice.chosen is None and not choice.unknown):
        changed = [str(each.path) for each in found if each.reason == _CHANGED]
        return NewestComplete(unknown=tuple(Unknown(what=path, reason=_CHANGED) for path in changed or ["checkpoints"]))
    return choice


def _is_as_read(found: Checkpoint) -> bool:
    """Whether every file of a checkpoint is still the one that was read."""
    for name, identity in zip(found.files, found.identities, strict=True):
        try:
            status = os.lstat(found.path.parent / name)
        except OSError:
            return False
        if (status.st_ino, status.st_size, status.st_mtime_ns) != identity[1:4]:
            return False
    return True


def _inspect_all(directories: Sequence[str]) -> _FoundCheckpoints:
    inspected = [_inspect(directory) for directory in dict.fromkeys(directories)]
    places = [place for one in inspected for place in one.places]
    return _FoundCheckpoints(
        places=places,
        nearby=list(_inspect_other_starts([place.real for place in places])),
        checkpoints=[each for one in inspected for each in one.checkpoints],
        leftovers=frozenset().union(*(one.leftovers for one in inspected)),
        problems=[problem for one in inspected for problem in one.problems],
    )


def _inspect(directory: str) -> _FoundCheckpoints:
    real = os.path.realpath(directory)
    try:
        found = inspect_tree(real, now=datetime.now(UTC))
    except FileNotFoundError:
        return _FoundCheckpoints(problems=tuple(_explain_absence(directory, real)))
    except NotADirectoryError:
        raise NotADirectoryGivenError(f"{directory} is not a directory") from None
    except OSError as error:
        return _FoundCheckpoints(problems=(Unknown(what=directory, reason=error.strerror or str(error)),))
    itself = _find_itself(real, found)
    place = _GivenDirectory(directory, real, *(os.path.split(real) if itself else (real,)))
    return _FoundCheckpoints(
        places=(place,),
        checkpoints=(itself,) if itself else tuple([_without_data(each, real) for each in found.checkpoints]),
        leftovers=frozenset(os.path.join(real, path) for path in found.leftovers),
        problems=[Unknown(what=os.path.join(directory, each.what), reason=each.reason) for each in found.problems],
    )


def _inspect_other_starts(directories: Sequence[str]) -> Iterator[Checkpoint]:
    """Yield the checkpoints of other starts of the trainings whose directories were given.

    What cannot be read there is left out: nobody asked for it.
    """
    for above in dict.fromkeys(filter(None, map(_find_starts, directories))):
        starts = _list_starts(above)
        for name in sorted(starts, key=lambda name: int(name.rpartition("_")[2]))[-_MOST_STARTS:]:
            real = os.path.realpath(os.path.join(above, name))
            if any(_is_within(each, real) or _is_within(real, each) for each in directories):
                continue
            with contextlib.suppress(OSError):
                yield from (_without_data(each, real) for each in inspect_tree(real, now=datetime.now(UTC)).checkpoints)


def _list_starts(above: str) -> list[str]:
    try:
        descriptor = open_keeping_atime(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as entries:
            return [each.name for each in entries if _START.fullmatch(each.name) and each.is_dir()]
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _find_starts(directory: str) -> str | None:
    """Return the directory of all starts, if the directory is the one of a start or its `checkpoints`."""
    above, name = os.path.split(directory)
    if name == "checkpoints":
        above, name = os.path.split(above)
    return above if _START.fullmatch(name) else None


def _is_within(path: str, directory: str) -> bool:
    return PurePosixPath(path).is_relative_to(directory)


def _without_data(found: Checkpoint, real: str) -> Checkpoint:
    """Return a checkpoint, as no more than a part of one where only its content could be resumed from, and is data.

    Beside `rl_model_replay_buffer_300_steps.pkl` the model may be in a file that no reader here knows, and `train.npy`
    may be the input of a job.
    """
    if found.role is not Role.DATA:
        return found
    if checkpoint_names.is_called_companion(found.path.name):
        return replace(found, role=Role.PART, role_evidence="what is saved beside a model, by its name")
    if not _is_called_one(os.path.relpath(found.path, real)):
        return replace(found, role=Role.PART, role_evidence="data that is not called a checkpoint")
    return found


def _list_unread(inspected: _FoundCheckpoints) -> Iterator[Unknown]:
    """Yield each directory with files that have names of checkpoints and an unknown format."""
    for place in inspected.places:
        files = {str(each.path.parent / file) for each in inspected.checkpoints for file in each.files}
        found = [file.path for file in list_tree(place.real, max_depth=_DEPTH).walk_files()]
        unread = [path for path in found if os.path.join(place.real, path) not in files and _is_called_one(path)]
        if unread:
            reason = f"{len(unread)} files are called checkpoints and of no format that is known here"
            yield Unknown(what=os.path.join(place.real, unread[0]), reason=reason)


def _is_called_one(path: str) -> bool:
    *above, name = path.split("/")
    if is_ordinary(name) and ("." in name or name in _ORDINARY):
        return False
    return _is_likely(name) or any(_is_likely(each) and _has_digit(each) for each in above)


def _is_likely(name: str) -> bool:
    return bool(re.search(_LIKELY, name) or (re.search(_LIKELY_NUMBERED, name) and _has_digit(name)))


def _has_digit(name: str) -> bool:
    return any(character.isdigit() for character in name)


def _explain_absence(directory: str, real: str) -> Iterator[Unknown]:
    """Distinguish a directory that no job has created yet from one whose file system is not mounted."""
    if os.path.islink(directory):
        yield Unknown(what=directory, reason=f"a link to {real}, which is not there: is it mounted?")
    elif not os.path.isdir(os.path.dirname(real)):
        yield Unknown(
            what=directory,
            reason="not there, and neither is the directory above it: is it mounted? If it is new, make it (mkdir -p)",
        )


def _find_itself(real: str, found: Inspection) -> Checkpoint | None:
    """Return the directory as one checkpoint where it is one, such as one of Accelerate that each save overwrites.

    A format claims such a directory from above. Where the names in it count the progress of several it is none.
    """
    above, name = os.path.split(real)
    series = {each.grouping.progress for each in found.checkpoints if not each.grouping.doubt} - {()}
    if not name or len(series) > 1:
        return None
    try:
        inspected = inspect_tree(above, entry=name, now=datetime.now(UTC))
    except OSError:
        return None  # nobody may list what is above it
    path = PurePosixPath(real)
    return next((each for each in inspected.checkpoints if each.path == path), None)


def _verify(found: Checkpoint, place: _GivenDirectory, progress: Progress) -> Checkpoint:
    """Read every byte of a checkpoint."""
    pieces = found.parts or (found,)
    only = frozenset(os.path.relpath(piece.path, place.root) for piece in pieces)
    read = [0]

    def report_progress(done: int, _total: int) -> None:
        if done > read[0]:
            read[0] = done
            progress()

    now = datetime.now(UTC)
    inspected = inspect_tree(
        place.root, entry=place.entry, only=only, level=Level.FULL, now=now, progress=report_progress
    )
    judged = {(each.path, each.format): each for each in inspected.checkpoints}
    for piece in pieces:
        verified = judged.get((piece.path, piece.format))
        if verified is None or verified.identities != piece.identities:
            return replace(found, state=CheckpointState.WRITING, reason=_CHANGED)
        if verified.state is not CheckpointState.COMPLETE:
            reason = verified.reason if piece is found else f"{piece.path.name}: {verified.reason}"
            return replace(found, level=Level.FULL, state=verified.state, reason=reason)
    return replace(found, level=Level.FULL)


def _place_of(found: Checkpoint, places: Sequence[_GivenDirectory]) -> _GivenDirectory:
    place = _find_place(found, places)
    assert place is not None
    return place


def _find_place(found: Checkpoint, places: Sequence[_GivenDirectory]) -> _GivenDirectory | None:
    return next((place for place in places if found.path.is_relative_to(place.real)), None)


def _rename_all(choice: NewestComplete, places: Sequence[_GivenDirectory]) -> NewestComplete:
    """Replace the real prefix of every path by the directory as it was given."""
    return replace(
        choice,
        chosen=choice.chosen and _rename(choice.chosen, _place_of(choice.chosen, places)),
        unknown=tuple(replace(each, what=_as_given(each.what, places)) for each in choice.unknown),
        skipped=tuple(_rename(each, _place_of(each, places)) for each in choice.skipped),
        elsewhere=tuple(
            replace(each, checkpoint=_rename(each.checkpoint, place)) if place else each
            for each in choice.elsewhere
            for place in [_find_place(each.checkpoint, places)]
        ),
    )


def _as_given(path: str, places: Sequence[_GivenDirectory]) -> str:
    place = next((place for place in places if PurePosixPath(path).is_relative_to(place.real)), None)
    return path if place is None else _under(path, place)


def _under(path: str, place: _GivenDirectory) -> str:
    return os.path.join(place.given, os.path.relpath(path, place.real)) if path != place.real else place.given


def _rename(found: Checkpoint, place: _GivenDirectory) -> Checkpoint:
    path = PurePosixPath(_under(str(found.path), place))
    above = str(found.path.parent)
    files = found.files
    if str(found.path) == place.real:  # its files begin with its own name, which may be that of a link
        files = tuple([os.path.relpath(_under(f"{above}/{file}", place), path.parent) for file in files])
    return replace(found, path=path, files=files, parts=tuple(_rename(part, place) for part in found.parts))


def _encode(choice: NewestComplete) -> dict[str, Any]:
    return {
        "chosen": None if choice.chosen is None else checkpoint_json.encode_checkpoint(choice.chosen),
        "unknown": [[each.what, each.reason] for each in choice.unknown[:_REPORTED]],
        "skipped": [checkpoint_json.encode_checkpoint(each) for each in choice.skipped[-_REPORTED:]],
        "notes": list(choice.notes),
        "elsewhere": [
            [checkpoint_json.encode_checkpoint(each.checkpoint), each.is_further, each.is_newer]
            for each in choice.elsewhere[:_REPORTED]
        ],
    }


def decode(data: dict[str, Any]) -> NewestComplete:
    """Build the choice again.

    Raises:
        KeyError, TypeError, ValueError: the data is not what `find_newest` makes.

    """
    chosen = data["chosen"]
    return NewestComplete(
        chosen=None if chosen is None else checkpoint_json.decode_checkpoint(chosen),
        unknown=tuple(Unknown(what=str(what), reason=str(reason)) for what, reason in data["unknown"]),
        skipped=tuple(checkpoint_json.decode_checkpoint(each) for each in data["skipped"]),
        notes=tuple(str(note) for note in data["notes"]),
        elsewhere=tuple(
            Elsewhere(
                checkpoint=checkpoint_json.decode_checkpoint(found),
                is_further=bool(is_further),
                is_newer=bool(is_newer),
            )
            for found, is_further, is_newer in data["elsewhere"]
        ),
    )
