"""Joins files with the same progress number: `model_300.pt` and `optim_300.pt` are one checkpoint.

Names alone do not prove this. Two trainings in one directory can have similar names, but their files are not always
written together. Therefore the times of writing are compared.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from ckptd.core.checkpoint_sets.drafts import DraftGroup, SetDraft, WriteSpan
from ckptd.core.checkpoint_sets.file_groups import name_order
from ckptd.core.checkpoint_sets.name_numbers import (
    ANOTHER_NETWORK,
    AUXILIARY,
)
from ckptd.core.checkpoint_sets.pieces import content_of, join_path
from ckptd.core.checkpoint_sets.places import without_components
from ckptd.core.checkpoint_sets.relations import (
    MAX_GROUPS,
    Relation,
    explain_doubt,
    find_doubtful_alone,
    find_doubtful_first,
    find_doubtful_ranks,
    relate,
)
from ckptd.core.model import Role

_NEAR = 4  # the part of the time between saves in which one is written


def join(groups: Iterable[DraftGroup], alone: Iterable[SetDraft]) -> Iterator[SetDraft]:
    """Yield the checkpoints of all groups; join those of groups that were written together.

    `alone` are checkpoints without a group, which may make the grouping of others uncertain.
    """
    found = list(groups)
    doubts = {**find_doubtful_ranks(found), **find_doubtful_first(found), **find_doubtful_alone(found, alone)}
    by_place: dict[tuple[str, tuple[str, ...], int], list[DraftGroup]] = defaultdict(list)
    for group in found:
        by_place[group.anchor, group.variants, len(group.words)].append(group)
    for near in by_place.values():
        yield from _join_near(near, {at: doubts[id(group)] for at, group in enumerate(near) if id(group) in doubts})


def _join_near(groups: Sequence[DraftGroup], doubts: dict[int, str]) -> Iterator[SetDraft]:
    """Join the groups of one directory. `doubts` are those that other directories raise, by the group's place."""
    parent = list(range(len(groups)))

    def find(at: int) -> int:
        while parent[at] != at:
            at = parent[at]
        return at

    spans = [group.spans() for group in groups] if len(groups) > 1 else []
    for one, other in combinations(range(len(groups)), 2):
        if len(groups) > MAX_GROUPS:
            doubts |= dict.fromkeys((one, other), f"more than {MAX_GROUPS} kinds of names are in one directory")
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
    one: DraftGroup,
    other: DraftGroup,
    spans: Mapping[tuple[int, ...], WriteSpan],
    other_spans: Mapping[tuple[int, ...], WriteSpan],
) -> str | None:
    """Return None if two groups are parts of the same checkpoints, "" if not, otherwise why this is unknown."""
    if one.is_special or other.is_special or (one.is_data and other.is_data):
        return ""
    if any(group.is_data and group.is_result for group in (one, other)):
        return ""
    if one.is_directory is not other.is_directory and one.residual != other.residual:
        return ""  # what a framework keeps in a directory is there whole
    if _is_export(one, beside=other) or _is_export(other, beside=one):
        return ""
    if _is_of_one_step(one, beside=other) or _is_of_one_step(other, beside=one):
        return ""
    relation = relate(spans, other_spans)
    is_one_name = one.residual == other.residual and ("*" in one.anchor or bool(spans.keys() & other_spans.keys()))
    if relation is Relation.APART and is_one_name:
        relation = Relation.UNCLEAR  # models and optimizers are of one training, also where they were copied one by one
    if relation is Relation.APART:
        return ""
    is_alike = one.residual == other.residual and not one.is_data and not other.is_data
    if relation is Relation.TOGETHER and is_alike and _is_of_same_saves(one, other):
        return None
    if not is_alike and _is_clearly_apart(one, other, relation):
        return ""
    return explain_doubt(one, other)


def _is_export(one: DraftGroup, *, beside: DraftGroup) -> bool:
    """Whether one contains parameters that the other's states contain as well: `model_3.pt` beside a full `ckpt_3.pt`.

    The states may be directories, as `lora-step10-state/` is. An average or another network is more than that, and what
    lies in one directory for each step belongs together.
    """
    if not one.is_weights or one.is_directory:
        return False
    if beside.is_directory:
        roles = [{piece.checkpoint.role for piece in draft.parts} for draft in beside.drafts.values()]
        return all(each & {Role.STATE, Role.WEIGHTS} for each in roles)
    if one.residual != beside.residual or not (beside.is_state and _is_in_name(one) and _is_in_name(beside)):
        return False
    names = [posixpath.basename(next(iter(group.drafts.values())).parts[0].path) for group in (one, beside)]
    return not any(ANOTHER_NETWORK.search(name) or AUXILIARY.search(name) for name in names)


def _is_in_name(group: DraftGroup) -> bool:
    """Whether the progress is in the files' own names, not in that of their directory."""
    return len({posixpath.basename(draft.parts[0].path) for draft in group.drafts.values()}) == len(group.drafts)


def _is_of_same_saves(one: DraftGroup, other: DraftGroup) -> bool:
    """Whether numbers of unknown meaning belong to numbers that are known to be progress.

    `net_0.pt` of an ensemble and `model_0.pt` of the first step have a number in common, and are no checkpoint.
    """
    if one.is_sure and other.is_sure:
        return True
    fewer, more = sorted((one.drafts.keys(), other.drafts.keys()), key=len)
    if fewer != more and (len(fewer) == 1 or not fewer <= more):
        return False
    if any(not group.is_sure and (_is_unproven(group) or _is_stuck(group)) for group in (one, other)):
        return False
    if not _is_near(one.spans(), other.spans()):
        return False
    return all(_is_agreed(one.drafts[key], other.drafts[key]) for key in fewer)


def _is_near(one: Mapping[tuple[int, ...], WriteSpan], other: Mapping[tuple[int, ...], WriteSpan]) -> bool:
    """Whether parts were written in a fraction of the time between saves: `model_2.pt` right after `gen_002.pkl`.

    Members of an ensemble that are trained meanwhile may be finished at any time.
    """
    saves = sorted(
        WriteSpan(min(one[key].begin, other[key].begin), max(one[key].end, other[key].end))
        for key in one.keys() & other.keys()
    )
    between = min((later.begin - before.begin for before, later in pairwise(saves)), default=0)
    return all((save.end - save.begin) * _NEAR <= between for save in saves)


def _is_of_one_step(one: DraftGroup, *, beside: DraftGroup) -> bool:
    """Whether whole states, whose numbers nobody can read, are all at one step, as those of an ensemble are."""
    if one.is_sure or one.is_companion or not (one.is_state and beside.is_state and beside.is_sure):
        return False
    return _is_stuck(one) and not _is_stuck(beside)


def _is_unproven(group: DraftGroup) -> bool:
    """Whether only the name suggests a state, as for the arrays `state_000.npy` of a simulation's chain."""
    return all(piece.is_data for draft in group.drafts.values() for piece in draft.parts)


def _is_stuck(group: DraftGroup) -> bool:
    """Whether the content has one epoch or step for all numbers in the names."""
    said = [[content_of(piece) for piece in draft.parts] for draft in group.drafts.values()]
    return len(said) > 1 and any(
        all(contents and contents[0][kind] is not None for contents in said)
        and len({each[kind] for contents in said for each in contents}) == 1
        for kind in (0, 1)
    )


def _is_agreed(one: SetDraft, other: SetDraft) -> bool:
    """Whether the contents of two parts state the same epoch and step, as far as they state any."""
    said = [[content_of(piece) for piece in draft.parts] for draft in (one, other)]
    for kind in (0, 1):
        ours, theirs = ({each[kind] for each in contents} - {None} for contents in said)
        if ours and theirs and ours.isdisjoint(theirs):
            return False
    return True


def _is_clearly_apart(one: DraftGroup, other: DraftGroup, relation: Relation) -> bool:
    """Whether different names belong to checkpoints that are complete by themselves."""
    if relation is Relation.UNCLEAR or len(one.drafts.keys() & other.drafts.keys()) == 1:
        return True  # their times do not connect them, or one save does not; the floor keeps the newest that both have
    if one.is_data or other.is_data:
        return one.drafts.keys() != other.drafts.keys()  # what a checkpoint needs is written with each
    exported = [group for group in (one, other) if group.is_weights]
    whole = [group for group in (one, other) if not group.is_weights and not group.is_companion]
    return bool(exported and whole)


def _merge(groups: Sequence[DraftGroup], doubt: str | None) -> Iterator[SetDraft]:
    """Yield the checkpoints of groups that are written together."""
    if len(groups) == 1:
        doubt = doubt or _overlap(groups[0])
        yield from groups[0].drafts.values() if doubt is None else _doubt(groups[0], doubt)
        return
    ordered = sorted(groups, key=lambda group: name_order(next(iter(group.drafts.values())).parts[0]))
    sure = next((group for group in ordered if group.is_sure), None)
    series = next(iter(ordered[0].drafts.values())).series
    for progress in dict.fromkeys(key for group in ordered for key in group.drafts):
        drafts = [group.drafts[progress] for group in ordered if progress in group.drafts]
        first_doubt = next((draft.doubt for draft in drafts if draft.doubt and (sure is None or draft.evidence)), None)
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
            doubt=doubt or first_doubt,
            expected_counts=tuple(pair for draft in drafts for pair in draft.expected_counts),
            ranks=frozenset().union(*(draft.ranks for draft in drafts)),
        )


def _path_above(drafts: Sequence[SetDraft]) -> str:
    """Return the path of the first draft, in the directory that contains all of them."""
    path = drafts[0].path
    directory, _, name = path.rpartition("/")
    shared = posixpath.commonpath([posixpath.dirname(draft.path) or "." for draft in drafts])
    return path if shared == directory else join_path(shared, without_components(directory), name)


def _overlap(group: DraftGroup) -> str | None:
    """Return why directories of ranks may be separate runs: their checkpoints were not written together."""
    if not any("*" in posixpath.dirname(series) for series in {draft.series for draft in group.drafts.values()}):
        return None
    spans = sorted(group.spans().values())
    if all(before.end <= after.begin for before, after in pairwise(spans)):
        return None
    return "the directories of its ranks were written at overlapping times"


def _doubt(group: DraftGroup, doubt: str) -> Iterator[SetDraft]:
    return (replace(draft, doubt=draft.doubt or doubt) for draft in group.drafts.values())
