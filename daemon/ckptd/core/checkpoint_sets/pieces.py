"""The recognised files of a scan, with paths split into texts and numbers, before they are grouped into sets."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.checkpoint_sets.name_numbers import (
    DATE_WORD,
    RANK_DIRECTORY,
    TIME_WORD,
    Meaning,
    Name,
    NameNumber,
    parse_name,
)
from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Role

_NO_PROGRESS = frozenset((Meaning.MEMBER, Meaning.COUNT, Meaning.VARIANT, Meaning.METRIC))

Shape = tuple[tuple[str, ...], ...]  # the texts of each component of a path, numbers left out
Place = tuple[int, int]  # of a number: the component of the path, and which of its numbers


class OtherFile(NamedTuple):
    """A file that no format recognised. `path` is relative to the root of the scan."""

    path: str
    identity: FileIdentity
    uid: int


@dataclass(slots=True, eq=False)
class Piece:
    """One recognised file or directory. `path` is relative to the root of the scan."""

    checkpoint: Checkpoint
    path: str
    names: tuple[Name, ...]
    modified_ns: int

    @property
    def shape(self) -> Shape:
        return tuple([name.texts for name in self.names])

    def number(self, place: Place) -> NameNumber:
        return self.names[place[0]].numbers[place[1]]

    def places(self) -> Iterable[Place]:
        return ((at, index) for at, name in enumerate(self.names) for index in range(len(name.numbers)))

    @property
    def is_directory(self) -> bool:
        found = self.checkpoint
        if not found.files or "/" not in found.files[0]:
            return False
        start = f"{found.path.name}/"
        return all(file.startswith(start) for file in found.files)

    @property
    def is_data(self) -> bool:
        """Whether it was read and is neither a state nor weights; False for a damaged one, whose role is unknown."""
        return self.checkpoint.role is Role.DATA and self.checkpoint.state is not CheckpointState.DAMAGED


def make_pieces(found: Iterable[Checkpoint], root: PurePosixPath) -> list[Piece]:
    """Split the path of each recognised file or directory."""
    start = len(str(root).rstrip("/")) + 1
    pieces = []
    for checkpoint in found:
        path = str(checkpoint.path)[start:]
        names = tuple([parse_name(part) for part in path.split("/")]) if "/" in path else (parse_name(path),)
        pieces.append(Piece(checkpoint, path, names, _modified_ns(checkpoint)))
    return pieces


def _modified_ns(checkpoint: Checkpoint) -> int:
    identities = checkpoint.identities
    if len(identities) == 1:
        return identities[0].modified_ns
    return max((identity.modified_ns for identity in identities), default=0)


def rank_directories(names: Sequence[Name]) -> frozenset[int]:
    """Return which components of a path are directories of one rank; the last component is none.

    `ep_3` is of an expert-parallel rank where another number may be the progress, else of an epoch.
    """
    ranks = frozenset(
        at for at, name in enumerate(names[:-1]) if name.numbers and RANK_DIRECTORY.fullmatch(render([name], {}))
    )
    if not ranks:
        return ranks
    counting = [
        (at, number.word)
        for at, name in enumerate(names)
        for number in name.numbers
        if number.meaning not in _NO_PROGRESS
    ]
    return ranks - {counting[0][0]} if len(counting) == 1 and counting[0][1] == "ep" else ranks


def counts_ranks(number: NameNumber) -> bool:
    """Whether a number in the name of a directory of one rank counts ranks: in `fold1_rank_0` the first does not."""
    return number.meaning not in {Meaning.VARIANT, Meaning.METRIC}


def member_marks(names: Sequence[Name], depth: int) -> dict[Place, str]:
    """Return a `*` for each number of members from a component on, and in directories of ranks before it."""
    ranks = rank_directories(names)
    return {
        (at, index): "*"
        for at, name in enumerate(names)
        if at >= depth or at in ranks
        for index, number in enumerate(name.numbers)
        if (counts_ranks(number) if at in ranks else number.meaning in {Meaning.MEMBER, Meaning.COUNT})
    }


def variants_of(names: Sequence[Name]) -> tuple[str, ...]:
    """Return the numbers of folds, seeds and similar in a path, and what distinguishes the directories of runs."""
    last = len(names) - 1
    return tuple(
        [
            number.text
            for at, name in enumerate(names)
            for number in name.numbers
            if number.meaning is Meaning.VARIANT or (at < last and _is_of_run(names, at, number))
        ]
    )


def _is_of_run(names: Sequence[Name], at: int, number: NameNumber) -> bool:
    """Whether a number in a directory's name distinguishes runs: a date, or a setting such as `lr_0.1`."""
    if at == len(names) - 1:
        return False
    if number.word in {DATE_WORD, TIME_WORD}:
        return True
    return number.meaning is Meaning.METRIC and not any(
        other.meaning in {Meaning.PROGRESS, Meaning.SAVE} for other in names[at].numbers
    )


def values_at(pieces: Iterable[Piece], place: Place) -> list[int]:
    """Return the values of one number in the names of pieces that differ only in numbers."""
    at, index = place
    return [piece.names[at].numbers[index].value for piece in pieces]


def list_values(pieces: Sequence[Piece], places: Sequence[Place]) -> list[tuple[int, ...]]:
    """Return the values of several numbers for each of these pieces."""
    if not places:
        return [()] * len(pieces)
    return list(zip(*(values_at(pieces, place) for place in places), strict=True))


def content_of(piece: Piece) -> tuple[float | None, float | None]:
    """Return the epoch and the step from the content."""
    return piece.checkpoint.content_epoch, piece.checkpoint.content_step


def render(names: Sequence[Name], marks: Mapping[Place, str], *, metric: str | None = None) -> str:
    """Return a path with marks in the place of some of its numbers, and one for all measured values."""
    parts = []
    for at, name in enumerate(names):
        text = [name.texts[0]]
        for index, number in enumerate(name.numbers):
            is_measured = number.meaning is Meaning.METRIC and not _is_of_run(names, at, number)
            mark = metric if is_measured else None
            text += [marks.get((at, index)) or mark or number.text, name.texts[index + 1]]
        parts.append("".join(text))
    return "/".join(parts)


def join_path(shared: str, marked: str, name: str) -> str:
    """Return one path in the directory `shared` for what lies in several directories below it.

    `marked` is the path of these directories with `*` for what differs. What their names say beside that stays in the
    name: of `fold1_rank_*` and `step_100` comes `fold1_rank_*_step_100`, and of `rank_*` and `step_100` `step_100`.
    """
    depth = len(shared.split("/")) if shared else 0
    telling = [part for part in marked.split("/")[depth:] if not _is_mark(part)]
    return posixpath.normpath(posixpath.join(shared, "_".join([*telling, name])))


def _is_mark(part: str) -> bool:
    if part in {"", ".", "*"}:
        return True
    found = RANK_DIRECTORY.fullmatch(part.replace("*", "0")) if "*" in part else None
    return found is not None and not found["variant"]


def render_series(names: Sequence[Name], marks: Mapping[Place, str], progress: Iterable[Place]) -> str:
    """Return the common form of a series' paths: `#` for progress, `~` for metric values."""
    return render(names, {**marks, **dict.fromkeys(progress, "#")}, metric="~")
