"""Collects files with the same progress number in one directory: `model_300.pt` and `optim_300.pt`.

The groups are drafts: `joining` decides by the times of writing which of them are parts of one checkpoint.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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
from ckptd.core.checkpoint_sets.pieces import (
    Piece,
    Place,
    join_path,
    list_values,
    render,
    render_series,
    variants_of,
)
from ckptd.core.checkpoint_sets.places import residual_of, without_components
from ckptd.core.checkpoint_sets.signatures import Signature, is_alone, sign
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
    names = pieces[0].names
    marks = {at: mark for at, mark in family.member_marks(pieces[0]).items() if at[0] < len(names) - 1}
    by_directory: dict[str, dict[tuple[int, ...], list[Piece]]] = {}
    for piece, values in zip(pieces, list_values(pieces, progress), strict=True):
        directory = render(piece.names[:-1], marks) if len(names) > 1 else ""
        by_directory.setdefault(directory, {}).setdefault(values, []).append(piece)
    groups: list[DraftGroup] = []
    alone: list[SetDraft] = []
    forms = _Forms(family, progress)
    is_data = all(piece.is_data for piece in pieces)
    roles = {piece.checkpoint.role for piece in pieces}
    for directory, saves in by_directory.items():
        first = next(iter(saves.values()))[0]
        group = DraftGroup(
            anchor=without_components(directory),
            residual=residual_of(first),
            variants=variants_of(names),
            words=list_words(first.names, progress),
            is_sure=bool(family.progress),
            is_data=is_data and not COMPANION.search(posixpath.basename(first.path)),
            is_weights=roles == {Role.WEIGHTS},
            is_state=roles == {Role.STATE},
            # useless without others, by their name or because they contain no parameters
            is_companion=bool(COMPANION.search(posixpath.basename(pieces[0].path))) or roles == {Role.PART},
            is_result=bool(RESULT.search(posixpath.basename(first.path))),
            is_directory=first.is_directory,
            is_special=bool(SPECIAL.search(posixpath.basename(first.path))),
        )
        for values, members in saves.items():
            if len(members) > 1 and len({_member_values(family, piece) for piece in members}) < len(members):
                why = "several have the same progress in their names and differ only in a measured value"
                alone += [_draft_one(family, piece, forms.doubt or why) for piece in members]
            else:
                group.drafts[values] = _draft_save(family, members, forms, values)
        if group.drafts:
            groups.append(group)
    return groups, alone


class _Form(NamedTuple):
    """What the names of one family's checkpoints have in common."""

    signature: Signature
    series: str
    words: tuple[str, ...]


class _Forms:
    """The forms of the names of one family, each made once: a directory may hold 100,000 of its files."""

    def __init__(self, family: Family, progress: tuple[Place, ...]) -> None:
        self.progress = progress
        self.doubt = family.doubt
        self._family = family
        self._places = tuple((place, place in progress) for place in family.pieces[0].places())
        self._known: dict[tuple[tuple[object, ...], ...], _Form] = {}

    def find(self, members: Sequence[Piece]) -> _Form:
        """Return the form of one checkpoint's names."""
        first = members[0]
        if len(members) > 1 or not is_alone(first):
            return self._make(members)
        # of a number of progress its meaning and word, of others also the text
        key = tuple([first.number(place)[2 if is_progress else 1 :] for place, is_progress in self._places])
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._make(members)
        return known

    def _make(self, members: Sequence[Piece]) -> _Form:
        names = members[0].names
        series = render_series(names, self._family.member_marks(members[0]), self.progress)
        return _Form(sign(members), series, list_words(names, self.progress))


def _member_values(family: Family, piece: Piece) -> tuple[int, ...]:
    return tuple(piece.number(place).value for place in family.members)


def _draft_save(family: Family, members: Sequence[Piece], forms: _Forms, values: tuple[int, ...]) -> SetDraft:
    first = members[0]
    is_single = len(members) == 1 and not family.members
    form = forms.find(members)
    return SetDraft(
        path=first.path if is_single else _common_path(first, members, family.member_marks(first)),
        parts=members,
        signature=form.signature,
        series=form.series,
        progress=values,
        words=form.words,
        evidence=family.evidence,
        has_progress_word=family.has_progress_word,
        is_directory=is_single and first.is_directory,
        doubt=forms.doubt or (find_result(first) if is_single else None),
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
