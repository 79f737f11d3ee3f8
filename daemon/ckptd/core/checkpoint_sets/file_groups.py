"""Collects files with the same progress number in one directory: `model_300.pt` and `optim_300.pt`.

The groups are drafts: `joining` decides by the times of writing which of them are parts of one checkpoint.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ckptd.core.checkpoint_sets.directories import count_members, find_result, list_ranks
from ckptd.core.checkpoint_sets.drafts import DraftGroup, SetDraft, list_words
from ckptd.core.checkpoint_sets.name_families import Family
from ckptd.core.checkpoint_sets.name_numbers import (
    COMPANION,
    COMPONENT,
    RESULT,
    SPECIAL,
    Meaning,
)
from ckptd.core.checkpoint_sets.pieces import Piece, Place, join_path, render, render_series, variants_of
from ckptd.core.checkpoint_sets.places import residual_of, without_components
from ckptd.core.checkpoint_sets.signatures import sign
from ckptd.core.model import Role


def draft_files(families: Iterable[Family], taken: set[int]) -> tuple[list[DraftGroup], list[SetDraft]]:
    """Return the pieces that are not `taken`: by series if their progress is known, and the single ones."""
    groups: list[DraftGroup] = []
    alone: list[SetDraft] = []
    fixed: dict[tuple[str, str, tuple[str, ...]], list[tuple[Family, Piece]]] = defaultdict(list)
    for family in families:
        pieces = [piece for piece in family.pieces if id(piece) not in taken]
        if not pieces:
            continue
        progress = family.progress or tuple(family.undecided)[:1]
        if len(family.undecided) > (0 if family.progress else 1):
            alone += [_draft_one(family, piece, family.doubt) for piece in pieces]
        elif progress:
            made, odd = _group(family, pieces, progress)
            groups += made
            alone += odd
        else:
            for piece in pieces:
                fixed[_fixed_key(family, piece)].append((family, piece))
    return groups, [*alone, *_draft_fixed(fixed)]


def _group(
    family: Family, pieces: Sequence[Piece], progress: tuple[Place, ...]
) -> tuple[list[DraftGroup], list[SetDraft]]:
    """Return the pieces of a family by directory and progress; pieces with equal numbers are single ones."""
    marks = family.member_marks(pieces[0])
    by_place: dict[tuple[str, tuple[str, ...]], dict[tuple[int, ...], list[Piece]]] = {}
    for piece in pieces:
        place = (
            render(piece.names[:-1], {at: mark for at, mark in marks.items() if at[0] < len(piece.names) - 1}),
            variants_of(piece.names),
        )
        values = tuple([piece.number(each).value for each in progress])
        by_place.setdefault(place, {}).setdefault(values, []).append(piece)
    groups: list[DraftGroup] = []
    alone: list[SetDraft] = []
    for (directory, variants), saves in by_place.items():
        first = next(iter(saves.values()))[0]
        group = DraftGroup(
            anchor=without_components(directory),
            residual=residual_of(first),
            variants=variants,
            words=list_words(first.names, progress),
            is_sure=bool(family.progress),
            is_data=all(piece.is_data for piece in pieces) and not COMPANION.search(posixpath.basename(first.path)),
            is_weights=all(piece.checkpoint.role is Role.WEIGHTS for piece in pieces),
            is_state=all(piece.checkpoint.role is Role.STATE for piece in pieces),
            is_companion=_is_companion(pieces),
            is_result=bool(RESULT.search(posixpath.basename(first.path))),
            is_directory=first.is_directory,
            is_special=bool(SPECIAL.search(posixpath.basename(first.path))),
        )
        for values, members in saves.items():
            if len({_member_values(family, piece) for piece in members}) < len(members):
                why = "several have the same progress in their names and differ only in a measured value"
                alone += [_draft_one(family, piece, family.doubt or why) for piece in members]
            else:
                group.drafts[values] = _draft_save(family, members, progress, values)
        if group.drafts:
            groups.append(group)
    return groups, alone


def _is_companion(pieces: Sequence[Piece]) -> bool:
    """Whether pieces are useless without others, by their name or because they contain no parameters."""
    return bool(COMPANION.search(posixpath.basename(pieces[0].path))) or all(
        piece.checkpoint.role is Role.PART for piece in pieces
    )


def _member_values(family: Family, piece: Piece) -> tuple[int, ...]:
    return tuple(piece.number(place).value for place in family.members)


def _draft_save(
    family: Family, members: Sequence[Piece], progress: tuple[Place, ...], values: tuple[int, ...]
) -> SetDraft:
    first = members[0]
    marks = family.member_marks(first)
    is_single = len(members) == 1 and not family.members
    return SetDraft(
        path=first.path if is_single else _common_path(first, members, marks),
        parts=members,
        signature=sign(members),
        series=render_series(first.names, marks, progress),
        progress=values,
        words=list_words(first.names, progress),
        evidence=family.evidence,
        has_progress_word=family.has_progress_word,
        is_directory=is_single and first.is_directory,
        doubt=family.doubt or (find_result(first) if is_single else None),
        expected_counts=tuple(count_members(members, len(first.names) - 1)) if family.members else (),
        ranks=frozenset(list_ranks(members, len(first.names) - 1)) if family.members else frozenset(),
    )


def _common_path(first: Piece, members: Sequence[Piece], marks: Mapping[Place, str]) -> str:
    """Return one path for members: their name with `*` for their numbers, in the directory that all of them share."""
    shared = posixpath.commonpath([posixpath.dirname(piece.path) or "." for piece in members])
    directory, _, name = render(first.names, dict(marks)).rpartition("/")
    return join_path(shared, directory, name)


def _draft_one(family: Family, piece: Piece, doubt: str | None) -> SetDraft:
    return SetDraft(
        path=piece.path,
        parts=[piece],
        series=piece.path,
        evidence="" if doubt else family.evidence,
        is_directory=piece.is_directory,
        doubt=doubt,
    )


def _fixed_key(family: Family, piece: Piece) -> tuple[str, str, tuple[str, ...]]:
    """Return the key that names without progress must share to be one checkpoint, as for `model.pt` and `optimizer.pt`.

    Each measured value names a checkpoint of its own: `best_loss_2.51-shard0.pt` and `best_loss_2.46-shard0.pt`.
    """
    name = posixpath.basename(piece.path)
    has_words = bool(family.members or COMPONENT.search(name))
    if not has_words or family.undecided or (piece.is_data and not COMPANION.search(name)):
        return piece.path, "", ()
    directory = render(piece.names, family.member_marks(piece)).rpartition("/")[0]
    measured = tuple(number.text for number in piece.names[-1].numbers if number.meaning is Meaning.METRIC)
    return directory, residual_of(piece), (*variants_of(piece.names), *measured)


def _draft_fixed(
    fixed: Mapping[tuple[str, str, tuple[str, ...]], Sequence[tuple[Family, Piece]]],
) -> Iterator[SetDraft]:
    for found in fixed.values():
        family, first = min(found, key=lambda each: name_order(each[1]))
        pieces = [piece for _, piece in found]
        is_alone = first.is_data and not COMPANION.search(posixpath.basename(first.path))
        if len(pieces) == 1 and (not family.members or is_alone):
            yield _draft_one(family, first, family.doubt)
            continue
        path = first.path if not family.members else _common_path(first, pieces, family.member_marks(first))
        yield SetDraft(
            path=path,
            parts=pieces,
            signature=sign(pieces),
            series=path,
            evidence="each save overwrites the same names",
            expected_counts=tuple(count_members(pieces, len(first.names) - 1)),
            ranks=frozenset(list_ranks(pieces, len(first.names) - 1)),
        )


def name_order(piece: Piece) -> tuple[bool, str]:
    """Return the sort key of a piece that can name its set: companions of a model come last."""
    return bool(COMPANION.search(posixpath.basename(piece.path))), piece.path
