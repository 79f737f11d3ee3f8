"""Marker files that name the checkpoint from which the next start resumes, or a missing one, so that it fails.

Some formats handle their own markers. This module also handles those beside checkpoints of other formats, such as
verl's `global_step_N/` and the single files of MMEngine and Detectron2. Notes such as `best.txt` name a checkpoint that
a person or a script wants to keep; what they name need not be the newest.
The formats of DeepSpeed, Megatron and TensorFlow name the sources of their markers; the source of Detectron2's
`last_checkpoint` is fvcore/common/checkpoint.py.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.directory_claims import read_marker
from ckptd.checkpoints.formats.generic import LAST_CHECKPOINT
from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.formats.tensorflow import STATE_FILE, read_state
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.checkpoints.scanning.tree import NAME_MAX, Directory, File
from ckptd.core.model import Level

_LATEST = ("latest", "latest_universal")  # DeepSpeed's
_ITERATION = "latest_checkpointed_iteration.txt"  # Megatron's
_RELEASE = "release"
_LIMIT = 4096  # bytes of a marker
_DIGITS = re.compile(r"\d+")
_NOTE = re.compile(
    r"(?:[a-z]+[-_])*(?:best|last|latest|newest|resume|keep|checkpoint|ckpt)(?:[-_][a-z]+)*", re.IGNORECASE
)
_NOTE_SUFFIXES = ("", "txt", "json", "yaml", "yml")
_ENTRY = re.compile(r"[\w=.,+@-]+")
_MOST_NOTED = 5
_NAMES = (*_LATEST, LAST_CHECKPOINT, _ITERATION)
_NOT_NOTES = frozenset((*_NAMES, STATE_FILE))


class Marker:
    name = "marker"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for name, named in _named(directory, reader):
            # files that another format claimed are not listed here, and a save may have ended after the listing
            if not reader.is_there(directory.join(named)):
                claim = checkpoint_names.claim_file(self.name, directory.files[name], base=named)
                yield claim._replace(is_best=None, damage=f"{name} names {named}, which is missing")

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - the claim said it all
        return Examination()


def has_marker(directory: Directory) -> bool:
    """Tell whether a directory has a marker or a note that may name a checkpoint in it."""
    return _has_named(directory.files) or next(_list_notes(directory), None) is not None


def _has_named(names: Collection[str]) -> bool:
    return any(name in names for name in _NAMES)


def find_named(tree: Directory, reader: Reader) -> dict[str, bool]:
    """Return the paths that markers and notes in a tree name, and whether as the newest.

    Markers may name what is not there. `claim` reports those that cannot be read.
    """
    named: dict[str, bool] = {}
    series = _NameSeries()
    for directory in tree.walk():
        for note in _list_notes(directory):
            named.update(dict.fromkeys(_list_noted(directory, note, reader, series), False))
        for name in _NAMES if _has_named(directory.files) else ():
            file = directory.files.get(name)
            if file is not None and file.size_bytes <= _LIMIT:
                with contextlib.suppress(OSError, NotRegularError):
                    text = read_head(reader, file.path, _LIMIT).decode("utf-8", "surrogateescape")
                    meant = _list_meant(name, text.strip())
                    paths = [directory.join(path) for path in meant if series.is_one_of_several(directory, path)]
                    named.update(dict.fromkeys(paths, True))
    return named


def _list_notes(directory: Directory) -> Iterator[File]:
    """Yield the small texts that may say which checkpoint is the best or the one to resume from, as `best.txt`."""
    for suffix in _NOTE_SUFFIXES:
        for file in directory.by_suffix.get(suffix, ()):
            stem = file.name[: -len(suffix) - 1] if suffix else file.name
            if file.size_bytes <= _LIMIT and _NOTE.fullmatch(stem) and file.name not in _NOT_NOTES:
                yield file


def _list_noted(directory: Directory, file: File, reader: Reader, series: "_NameSeries") -> list[str]:
    """Return the paths of the few entries of its directory that a note names; one that names many is a list of all."""
    words: set[str] = set()
    with contextlib.suppress(OSError, NotRegularError):
        text = read_head(reader, file.path, _LIMIT).decode("utf-8", "surrogateescape")
        words.update(word.rstrip(".,") for word in _ENTRY.findall(text))
    there = [name for name in words if name in directory.files or name in directory.directories]
    meant = [name for name in there if _DIGITS.search(name) and series.is_one_of_several(directory, name)]
    return [directory.join(name) for name in meant] if len(meant) <= _MOST_NOTED else []


def point_out(claim: Claim, named: Mapping[str, bool]) -> Claim:
    """Return a claim, marked where a marker or a note names it or a directory that holds it."""
    path = claim.path
    while path and path not in named:
        path = path.rpartition("/")[0]
    if not path:
        return claim
    return claim._replace(is_newest=True) if named[path] else claim._replace(is_listed=True)


class _NameSeries:
    """Names that differ in numbers alone, counted once for each directory: a note may name hundreds of its files."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def is_one_of_several(self, directory: Directory, path: str) -> bool:
        """Tell whether others beside a path differ from it in numbers alone; otherwise a marker makes no choice."""
        *parents, name = path.split("/")
        for parent in parents:
            if (below := directory.directories.get(parent)) is None:
                return False
            directory = below
        if directory.path not in self._counts:
            names = (*directory.files, *directory.directories)
            self._counts[directory.path] = Counter(_DIGITS.sub("#", each) for each in names)
        is_there = name in directory.files or name in directory.directories
        return self._counts[directory.path][_DIGITS.sub("#", name)] > is_there


def _list_meant(marker: str, text: str) -> Iterator[str]:
    """Yield the paths below a marker's directory that it may mean; of a longer path, the last two names at most.

    MMEngine writes a whole path, which may be that of another mount. A name without a number is one that each save
    overwrites, or that of a directory with all checkpoints.
    """
    if marker == _ITERATION:
        if re.fullmatch(r"\d{1,15}", text):
            yield from (f"iter_{int(text):07d}", f"global_step_{int(text)}")
        return
    parts = [part for part in text.split("/") if part not in {"", "."}]
    name = parts[-1] if parts else ""
    if len(name) > NAME_MAX or ".." in parts or not any(character.isdigit() for character in name):
        return
    if marker == LAST_CHECKPOINT or _is_name_of_checkpoint(name):
        yield name
        yield "/".join(parts[-2:])


def _named(directory: Directory, reader: Reader) -> Iterator[tuple[str, str]]:
    """Yield the markers of a directory and what each names, where that is the name of a checkpoint in it."""
    if (state := directory.files.get(STATE_FILE)) and (newest := read_state(state, reader)[0]):
        yield STATE_FILE, newest
    for name in _LATEST:
        word = read_marker(directory, reader, name)
        if word and "/" not in word and _is_name_of_checkpoint(word):
            yield name, word
    word = read_marker(directory, reader, LAST_CHECKPOINT)
    if word and "/" not in word:  # MMEngine's holds a path, which may lead to another directory
        yield LAST_CHECKPOINT, word
    word = read_marker(directory, reader, _ITERATION)
    if word and re.fullmatch(r"\d{1,15}", word):
        if f"global_step_{int(word)}" in directory.directories:
            return  # verl writes the same file
        yield _ITERATION, f"iter_{int(word):07d}"
    elif word == _RELEASE:
        yield _ITERATION, _RELEASE


def _is_name_of_checkpoint(word: str) -> bool:
    said = checkpoint_names.parse_name(word)
    return said.epoch is not None or said.step is not None or checkpoint_names.looks_like_checkpoint(word)
