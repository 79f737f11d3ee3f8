"""Finds directories that are one checkpoint: all files in `step_100/` were saved together.

A directory counts if its own name has a progress number. Directories of ranks around it are parts of the same
checkpoint: `rank_0/step_100` and `rank_1/step_100` are one. A file that is clearly a result (a picture, a table,
predictions) is no part of it and stays where it is. A file that may be either makes the grouping unknown.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from ckptd.core.checkpoint_sets.companions import is_companion_file, is_result
from ckptd.core.checkpoint_sets.drafts import DraftGroup, SetDraft, list_words
from ckptd.core.checkpoint_sets.name_families import Family
from ckptd.core.checkpoint_sets.name_numbers import (
    COMPANION,
    CONTIGUOUS_WORDS,
    Meaning,
    Name,
    split_words,
)
from ckptd.core.checkpoint_sets.pieces import (
    OtherFile,
    Piece,
    Place,
    join_path,
    member_marks,
    rank_directories,
    render,
    render_series,
    variants_of,
)
from ckptd.core.checkpoint_sets.places import without_components
from ckptd.core.checkpoint_sets.signatures import sign
from ckptd.core.model import Role

# Frameworks that name all files in a directory themselves, so that a stranger shows.
_PLAIN_NAMES = split_words("huggingface-trainer accelerate deepspeed megatron torch-dcp lightning")
_LOADER_STATE = re.compile(r"data(?:_\d+)?\.pt")  # of verl


@dataclass(slots=True)
class _CheckpointDirectory:
    """One directory, or several of ranks, that are one checkpoint."""

    names: tuple[Name, ...]
    progress: tuple[Place, ...] = ()
    homes: set[str] = field(default_factory=set)  # real directories
    pieces: list[Piece] = field(default_factory=list)
    others: list[OtherFile] = field(default_factory=list)
    family: Family | None = None  # that is sure of its number
    undecided: str | None = None


def draft_directories(families: Sequence[Family], others: Iterable[OtherFile]) -> tuple[list[DraftGroup], set[int]]:
    """Return the directories that are one checkpoint each, by series, and the ids of the pieces in them."""
    found, by_home = _find_directories(families)
    if not by_home:
        return [], set()
    outer: set[str] = set()  # that hold another of these directories
    for home in by_home:
        outer.update(_homes_above(home, by_home))
    for piece in (piece for family in families for piece in family.pieces):
        for home in islice(_homes_above(piece.path, by_home), 1):
            by_home[home].pieces.append(piece)
    for other in others:
        for home in islice(_homes_above(other.path, by_home), 1):
            by_home[home].others.append(other)
    groups: dict[tuple[str, int], DraftGroup] = {}
    taken: set[int] = set()
    for key, directory in found.items():
        if not directory.pieces:
            continue
        draft = _draft(key, directory, outer)
        taken.update(id(piece) for piece in draft.parts)
        at = 0
        while (group := groups.setdefault((draft.series, at), _make_group(draft, directory))) and (
            draft.progress in group.drafts
        ):
            at += 1  # two directories of one name and progress: `step_1` and `step_01`
        group.drafts[draft.progress] = draft
        group.is_sure = group.is_sure or directory.family is not None
    return list(groups.values()), taken


def _find_directories(
    families: Sequence[Family],
) -> tuple[dict[str, _CheckpointDirectory], dict[str, _CheckpointDirectory]]:
    """Return the directories with a progress number in their name, by a name that ranks share and by their paths."""
    found: dict[str, _CheckpointDirectory] = {}
    by_home: dict[str, _CheckpointDirectory] = {}
    several: set[str] = set()  # directories in which several checkpoints lie
    for family in families:
        last = len(family.shape) - 1
        in_name = [place for place in family.progress if place[0] == last]
        undecided = {at: why for (at, _), why in family.undecided.items() if at < last and _may_be_progress(family, at)}
        for depth in {at for at, _ in family.progress if at < last} | undecided.keys():
            is_sure = depth not in undecided
            numbers: dict[str, set[tuple[int, ...]]] = defaultdict(set)
            for piece in family.pieces:
                home = "/".join(piece.path.split("/", depth + 1)[: depth + 1])
                numbers[home].add(tuple(piece.number(place).value for place in in_name))
                directory = by_home.get(home) or _add_directory(piece.names[: depth + 1], home, found, by_home)
                places = [place for place in (*family.progress, *family.undecided) if place[0] <= depth]
                if is_sure and directory.family is None:
                    directory.family = family
                    directory.progress = tuple(sorted(place for place in places if place in family.progress))
                elif directory.family is None and directory.undecided is None:
                    directory.undecided, directory.progress = undecided[depth], tuple(sorted(places))
            if any(len(values) > 1 for values in numbers.values()) or _counts_further(family, depth, in_name):
                several.update(numbers)  # also where there is only one of them yet
    for home in several:
        by_home.pop(home).homes.discard(home)
    return found, by_home


def _counts_further(family: Family, depth: int, in_name: Sequence[Place]) -> bool:
    """Whether the names in a directory have their own progress numbers, as in `epoch_3/step_300.pt`."""
    for piece in family.pieces:
        above = {piece.number(place).value for place in family.progress if place[0] <= depth}
        for place in in_name:
            number = piece.number(place)
            is_worded = number.meaning is Meaning.PROGRESS and number.value not in above
            if is_worded or number.value > max(above, default=0):
                return True
    return False


def _add_directory(
    names: tuple[Name, ...], home: str, found: dict[str, _CheckpointDirectory], by_home: dict[str, _CheckpointDirectory]
) -> _CheckpointDirectory:
    directory = by_home[home] = found.setdefault(
        render(names, member_marks(names, len(names) - 1)), _CheckpointDirectory(names)
    )
    directory.homes.add(home)
    return directory


def _may_be_progress(family: Family, depth: int) -> bool:
    first = family.pieces[0]
    return any(
        at == depth and first.number((at, index)).meaning in {Meaning.SAVE, Meaning.BARE}
        for at, index in family.undecided
    )


def _homes_above(path: str, by_home: Mapping[str, _CheckpointDirectory]) -> Iterator[str]:
    """Yield those of the directories that contain a path, innermost first."""
    parent = posixpath.dirname(path)
    while parent:
        if parent in by_home:
            yield parent
        parent = posixpath.dirname(parent)


def _draft(key: str, directory: _CheckpointDirectory, outer: set[str]) -> SetDraft:
    has_proof = any(piece.checkpoint.role is not Role.DATA for piece in directory.pieces)
    parts = [piece for piece in directory.pieces if _is_part(piece, directory, has_proof=has_proof)]
    parts = parts or directory.pieces
    chosen = {id(piece) for piece in parts}
    left = [piece.path for piece in directory.pieces if id(piece) not in chosen]
    others = [other for other in directory.others if is_companion_file(other.path)]
    doubtful = [path for path in left if not is_result(path)]
    doubtful += [
        each.path for each in directory.others if not is_companion_file(each.path) and not is_result(each.path)
    ]
    home = min(directory.homes, default=key)
    is_single = key == home
    is_whole = not left and len(others) == len(directory.others) and home not in outer
    marks = member_marks(directory.names, len(directory.names) - 1)
    family = directory.family
    doubt = family.contradiction if family else directory.undecided
    if doubtful and not doubt:
        doubt = f"it is unclear whether {min(doubtful)} is a part of it"
    return SetDraft(
        path=home if is_single else _join_ranks(key),
        parts=parts,
        others=others,
        signature=sign(parts),
        series=render_series(directory.names, marks, directory.progress),
        progress=tuple(directory.names[at].numbers[index].value for at, index in directory.progress),
        words=list_words(directory.names, directory.progress),
        evidence=family.evidence if family else "",
        has_progress_word=family.has_progress_word if family else False,
        is_directory=is_single and is_whole,
        doubt=doubt,
        expected_counts=tuple(count_members(parts, len(directory.names))),
        ranks=frozenset(list_ranks(parts, len(directory.names))),
    )


def _make_group(draft: SetDraft, directory: _CheckpointDirectory) -> DraftGroup:
    anchor, _, name = draft.series.rpartition("/")
    return DraftGroup(
        anchor=without_components(anchor),
        residual=f"{name}/",
        variants=variants_of((*directory.names, Name(("",), ()))),
        is_directory=True,
        words=draft.words,
        is_sure=directory.family is not None,
    )


def _join_ranks(key: str) -> str:
    """Return one path for the contents of several rank directories: `rank_*/step_100` becomes `step_100`."""
    directory, _, name = key.rpartition("/")
    shared = "/".join(takewhile(lambda part: "*" not in part, directory.split("/")))
    return join_path(shared, directory, name)


def _is_part(piece: Piece, directory: _CheckpointDirectory, *, has_proof: bool) -> bool:
    """Whether a recognised file in the directory certainly belongs to the checkpoint."""
    name = posixpath.basename(piece.path)
    if not piece.is_data or COMPANION.search(name):
        return True
    if _LOADER_STATE.fullmatch(name) and piece.checkpoint.format == "torch":
        return posixpath.dirname(piece.path) in directory.homes
    return not has_proof and not is_result(piece.path)


def find_result(piece: Piece) -> str | None:
    """Return the reason if a framework's directory contains files that are not part of a checkpoint, otherwise None.

    The framework's reader treats the whole directory as one checkpoint; a user's files in it would be removed with it.
    """
    if piece.checkpoint.format not in _PLAIN_NAMES or not piece.is_directory:
        return None
    found = next((file for file in piece.checkpoint.files if is_result(file) and not is_companion_file(file)), None)
    return found and f"{found} lies in it and is no part of a checkpoint"


def count_members(parts: Sequence[Piece], depth: int) -> Iterator[tuple[int, int]]:
    """Yield, for each kind of member, the number of members that the names state and the existing number.

    Only components of the paths from a given one on count: earlier ones belong to the run, not to the checkpoint.
    """
    seen: dict[str, tuple[int, set[int]]] = {}
    for piece in parts:
        for at, name in enumerate(piece.names[depth:], start=depth):
            for index, number in enumerate(name.numbers):
                others = [each for each in (index + 1, index - 1) if 0 <= each < len(name.numbers)]
                if number.meaning is Meaning.COUNT and others:
                    member = next((each for each in others if name.numbers[each].meaning is Meaning.MEMBER), others[0])
                    shown = render(piece.names, {(at, member): "*"})
                    seen.setdefault(shown, (number.value, set()))[1].add(name.numbers[member].value)
    for expected, values in seen.values():
        yield expected, len(values)


def list_ranks(parts: Sequence[Piece], depth: int) -> Iterator[int]:
    """Yield the values of the number that counts ranks or shards, where a path has only one such number."""
    for piece in parts:
        ranks = rank_directories(piece.names)
        found = [
            number
            for at, name in enumerate(piece.names)
            if at >= depth or at in ranks
            for number in name.numbers
            if number.word in CONTIGUOUS_WORDS
        ]
        if len(found) == 1:
            yield found[0].value
