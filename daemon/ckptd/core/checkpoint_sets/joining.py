"""Puts files with the same progress number together: `model_300.pt` and `optim_300.pt` are one checkpoint.

Names alone do not prove it. Two trainings in one directory have names that are as alike, but their files are not
written together, save after save; that is what is compared here.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from itertools import combinations, pairwise

from ckptd.core.checkpoint_sets.directories import count_members, find_result, list_ranks, without_components
from ckptd.core.checkpoint_sets.drafts import Draft, Group, Span, list_words
from ckptd.core.checkpoint_sets.families import Family
from ckptd.core.checkpoint_sets.names import COMPANION, COMPONENT, RESULT, SAVE_WORD, SPECIAL
from ckptd.core.checkpoint_sets.pieces import Piece, Place, render, render_series, variants_of
from ckptd.core.model import Role

_MAX_GROUPS = 64  # of one directory that are compared with each other


class _Relation(Enum):
    """How the times of writing of two groups go together."""

    TOGETHER = auto()
    APART = auto()
    UNCLEAR = auto()


def draft_files(families: Iterable[Family], taken: set[int]) -> tuple[list[Group], list[Draft]]:
    """Return the pieces that are not `taken`, by series where their progress is known, and those that stand alone."""
    groups: list[Group] = []
    alone: list[Draft] = []
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


def _group(family: Family, pieces: Sequence[Piece], progress: tuple[Place, ...]) -> tuple[list[Group], list[Draft]]:
    """Return the pieces of a family by directory and progress; what has the same numbers twice stands alone."""
    marks = family.member_marks(pieces[0])
    by_place: dict[tuple[str, tuple[str, ...]], dict[tuple[int, ...], list[Piece]]] = {}
    for piece in pieces:
        place = (
            render(piece.names[:-1], {at: mark for at, mark in marks.items() if at[0] < len(piece.names) - 1}),
            variants_of(piece.names),
        )
        values = tuple([piece.number(each).value for each in progress])
        by_place.setdefault(place, {}).setdefault(values, []).append(piece)
    groups: list[Group] = []
    alone: list[Draft] = []
    for (directory, variants), saves in by_place.items():
        first = next(iter(saves.values()))[0]
        group = Group(
            anchor=without_components(directory),
            residual=residual_of(first),
            variants=variants,
            words=list_words(first.names, progress),
            is_sure=bool(family.progress),
            is_data=all(piece.is_data for piece in pieces) and not COMPANION.search(posixpath.basename(first.path)),
            is_weights=all(piece.checkpoint.role is Role.WEIGHTS for piece in pieces),
            is_companion=bool(COMPANION.search(posixpath.basename(first.path))),
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


def _member_values(family: Family, piece: Piece) -> tuple[int, ...]:
    return tuple(piece.number(place).value for place in family.members)


def _draft_save(
    family: Family, members: Sequence[Piece], progress: tuple[Place, ...], values: tuple[int, ...]
) -> Draft:
    first = members[0]
    marks = family.member_marks(first)
    is_single = len(members) == 1 and not family.members
    return Draft(
        path=first.path if is_single else _common_path(first, members, marks),
        parts=members,
        signature=frozenset([render_series(piece.names, {}, progress) for piece in members]),
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
    shared = posixpath.commonpath([posixpath.dirname(piece.path) or "." for piece in members]) if members else ""
    name = render(first.names, dict(marks)).rpartition("/")[2]
    return posixpath.normpath(posixpath.join(shared, name))


def _draft_one(family: Family, piece: Piece, doubt: str | None) -> Draft:
    return Draft(
        path=piece.path,
        parts=[piece],
        series=piece.path,
        evidence="" if doubt else family.evidence,
        is_directory=piece.is_directory,
        doubt=doubt,
    )


def residual_of(piece: Piece) -> str:
    """Return what a name says beside numbers and words for components, such as `resnet` of `resnet_optim_3.pt`."""
    texts = piece.names[-1].texts
    stem = texts[-1].partition(".")[0]
    joined = " ".join((*texts[:-1], stem)).lower()
    words = COMPONENT.sub(" ", SAVE_WORD.sub(" ", joined))
    return " ".join(word for word in words.replace("_", " ").replace("-", " ").replace("=", " ").split() if word)


def _fixed_key(family: Family, piece: Piece) -> tuple[str, str, tuple[str, ...]]:
    """Return what names without progress must share to be one checkpoint, such as `model.pt` and `optimizer.pt`."""
    name = posixpath.basename(piece.path)
    has_words = bool(family.members or COMPONENT.search(name))
    if not has_words or family.undecided or (piece.is_data and not COMPANION.search(name)):
        return piece.path, "", ()
    directory = render(piece.names, family.member_marks(piece)).rpartition("/")[0]
    return directory, residual_of(piece), variants_of(piece.names)


def _draft_fixed(
    fixed: Mapping[tuple[str, str, tuple[str, ...]], Sequence[tuple[Family, Piece]]],
) -> Iterator[Draft]:
    for found in fixed.values():
        family, first = min(found, key=lambda each: _order(each[1]))
        pieces = [piece for _, piece in found]
        is_alone = first.is_data and not COMPANION.search(posixpath.basename(first.path))
        if len(pieces) == 1 and (not family.members or is_alone):
            yield _draft_one(family, first, family.doubt)
            continue
        path = first.path if not family.members else _common_path(first, pieces, family.member_marks(first))
        yield Draft(
            path=path,
            parts=pieces,
            signature=frozenset(piece.path for piece in pieces),
            series=path,
            evidence="each save overwrites the same names",
            expected_counts=tuple(count_members(pieces, len(first.names) - 1)),
            ranks=frozenset(list_ranks(pieces, len(first.names) - 1)),
        )


def _order(piece: Piece) -> tuple[bool, str]:
    return bool(COMPANION.search(posixpath.basename(piece.path))), piece.path


def join(groups: Iterable[Group]) -> Iterator[Draft]:
    """Yield the checkpoints of all groups, those of groups that were written together as one."""
    by_place: dict[tuple[str, tuple[str, ...], int], list[Group]] = defaultdict(list)
    for group in groups:
        by_place[group.anchor, group.variants, len(group.words)].append(group)
    for found in by_place.values():
        yield from _join_near(found)


def _join_near(groups: Sequence[Group]) -> Iterator[Draft]:
    """Join the groups of one directory."""
    doubts: dict[int, str] = {}
    parent = list(range(len(groups)))

    def find(at: int) -> int:
        while parent[at] != at:
            at = parent[at]
        return at

    spans = [group.spans() for group in groups]
    for one, other in combinations(range(len(groups)), 2):
        if len(groups) > _MAX_GROUPS:
            doubts |= dict.fromkeys((one, other), f"more than {_MAX_GROUPS} kinds of names are in one directory")
            continue
        why = _compare(groups[one], groups[other], spans[one], spans[other])
        if why is None:
            parent[find(one)] = find(other)
        elif why:
            doubts |= {at: why for at in (one, other) if not groups[at].is_data}
    joined: dict[int, list[int]] = defaultdict(list)
    for at in range(len(groups)):
        joined[find(at)].append(at)
    for members in joined.values():
        doubt = next((doubts[at] for at in members if at in doubts), None)
        yield from _merge([groups[at] for at in members], doubt)


def _compare(
    one: Group, other: Group, spans: Mapping[tuple[int, ...], Span], other_spans: Mapping[tuple[int, ...], Span]
) -> str | None:
    """Return None where two groups are parts of the same checkpoints, "" where not, and else why nobody can tell."""
    if one.is_special or other.is_special or (one.is_data and other.is_data):
        return ""
    if any(group.is_data and group.is_result for group in (one, other)):
        return ""
    if one.is_directory is not other.is_directory and one.residual != other.residual:
        return ""  # what a framework keeps in a directory is there whole
    relation = _relate(spans, other_spans)
    if relation is _Relation.APART and "*" in one.anchor and one.residual == other.residual:
        relation = _Relation.UNCLEAR  # `actor/` and `critic/` are one training, also where they were copied one by one
    if relation is _Relation.APART:
        return ""
    is_alike = one.residual == other.residual and not one.is_data and not other.is_data
    if relation is _Relation.TOGETHER and is_alike:
        return None
    if not is_alike and _is_clearly_apart(one, other, relation):
        return ""
    shown = " and ".join(sorted(next(iter(group.drafts.values())).path for group in (one, other)))
    return f"nobody can tell whether {shown} are parts of one checkpoint"


def _is_clearly_apart(one: Group, other: Group, relation: _Relation) -> bool:
    """Whether names that differ are of things that are whole by themselves."""
    if relation is _Relation.UNCLEAR or len(one.drafts.keys() & other.drafts.keys()) == 1:
        return True  # no time of writing ties them together, and of a series of one nothing is ever pruned
    if one.is_data or other.is_data:
        return one.drafts.keys() != other.drafts.keys()  # what a checkpoint needs is written with each
    exported = [group for group in (one, other) if group.is_weights]
    whole = [group for group in (one, other) if not group.is_weights and not group.is_companion]
    return bool(exported and whole)


def _relate(one: Mapping[tuple[int, ...], Span], other: Mapping[tuple[int, ...], Span]) -> _Relation:
    """Say whether two groups are written together: the times of each checkpoint overlap with no other checkpoint's."""
    shared = one.keys() & other.keys()
    if not shared:
        return _Relation.APART
    if len(one) > 1 and len(other) > 1 and _is_before(one, other):
        return _Relation.APART
    events = [Span(min(one[key].begin, other[key].begin), max(one[key].end, other[key].end)) for key in shared]
    events += [span for key, span in (*one.items(), *other.items()) if key not in shared]
    events.sort()
    is_apart = all(before.end <= after.begin for before, after in pairwise(events))
    return _Relation.TOGETHER if is_apart else _Relation.UNCLEAR


def _is_before(one: Mapping[tuple[int, ...], Span], other: Mapping[tuple[int, ...], Span]) -> bool:
    """Whether all of one was written before all of the other."""
    (begin, end), (other_begin, other_end) = (
        (min(span.begin for span in spans.values()), max(span.end for span in spans.values())) for spans in (one, other)
    )
    return end < other_begin or other_end < begin


def _merge(groups: Sequence[Group], doubt: str | None) -> Iterator[Draft]:
    """Yield the checkpoints of groups that are written together."""
    if len(groups) == 1:
        doubt = doubt or _overlap(groups[0])
        yield from groups[0].drafts.values() if doubt is None else _doubt(groups[0], doubt)
        return
    ordered = sorted(groups, key=lambda group: _order(next(iter(group.drafts.values())).parts[0]))
    sure = next((group for group in ordered if group.is_sure), None)
    series = next(iter(ordered[0].drafts.values())).series
    for progress in dict.fromkeys(key for group in ordered for key in group.drafts):
        drafts = [group.drafts[progress] for group in ordered if progress in group.drafts]
        told = next((draft.doubt for draft in drafts if draft.doubt and (sure is None or draft.evidence)), None)
        shown = sure.drafts.get(progress) or next(iter(sure.drafts.values())) if sure else drafts[0]
        yield replace(
            drafts[0],
            path=_path_above(drafts),
            parts=[piece for draft in drafts for piece in draft.parts],
            signature=frozenset().union(*(draft.signature for draft in drafts)),
            series=series,
            evidence=shown.evidence,
            has_progress_word=any(draft.has_progress_word for draft in drafts),
            is_directory=len(drafts) == 1 and drafts[0].is_directory,
            doubt=doubt or told,
            expected_counts=tuple(pair for draft in drafts for pair in draft.expected_counts),
            ranks=frozenset().union(*(draft.ranks for draft in drafts)),
        )


def _path_above(drafts: Sequence[Draft]) -> str:
    """Return the path of the first draft, in the directory that holds all of them."""
    path = drafts[0].path
    shared = posixpath.commonpath([f"./{posixpath.dirname(draft.path)}" for draft in drafts])
    if shared == posixpath.normpath(f"./{posixpath.dirname(path)}"):
        return path
    return posixpath.normpath(posixpath.join(shared, posixpath.basename(path)))


def _overlap(group: Group) -> str | None:
    """Return why directories of ranks may be runs of their own: their checkpoints were not written together."""
    if not any("*" in posixpath.dirname(draft.series) for draft in group.drafts.values()):
        return None
    spans = sorted(group.spans().values())
    if all(before.end <= after.begin for before, after in pairwise(spans)):
        return None
    return "the directories of its ranks were written at overlapping times"


def _doubt(group: Group, doubt: str) -> Iterator[Draft]:
    return (replace(draft, doubt=draft.doubt or doubt) for draft in group.drafts.values())
