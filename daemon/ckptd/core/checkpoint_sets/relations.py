"""Compares when groups of names were written, and finds those that may be parts of one checkpoint."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from itertools import combinations, pairwise, permutations

from ckptd.core.checkpoint_sets.drafts import DraftGroup, SetDraft, WriteSpan
from ckptd.core.checkpoint_sets.name_numbers import RANK_WORDS, parse_name
from ckptd.core.checkpoint_sets.pieces import render, variants_of
from ckptd.core.checkpoint_sets.places import find_anchor, residual_of
from ckptd.core.checkpoint_sets.signatures import UNREAD

MAX_GROUPS = 64  # of one place that are compared with each other
_MOST_NUMBERS = 8  # of a name that nobody can read, the last ones
_MOST_PROGRESS = 3  # numbers of one name that count progress


class Relation(Enum):
    """How the times of writing of two groups relate."""

    TOGETHER = auto()
    APART = auto()
    UNCLEAR = auto()


def relate(one: Mapping[tuple[int, ...], WriteSpan], other: Mapping[tuple[int, ...], WriteSpan]) -> Relation:
    """Return whether two groups are written together: each checkpoint's times overlap with no other one's."""
    shared = one.keys() & other.keys()
    if not shared:
        return Relation.APART
    if len(one) > 1 and len(other) > 1 and _is_before(one, other):
        return Relation.APART
    events = [WriteSpan(min(one[key].begin, other[key].begin), max(one[key].end, other[key].end)) for key in shared]
    events += [span for key, span in (*one.items(), *other.items()) if key not in shared]
    events.sort()
    is_apart = all(before.end <= after.begin for before, after in pairwise(events))
    return Relation.TOGETHER if is_apart else Relation.UNCLEAR


def _is_before(one: Mapping[tuple[int, ...], WriteSpan], other: Mapping[tuple[int, ...], WriteSpan]) -> bool:
    """Whether all of one was written before all of the other."""
    (begin, end), (other_begin, other_end) = (
        (min(span.begin for span in spans.values()), max(span.end for span in spans.values())) for spans in (one, other)
    )
    return end < other_begin or other_end < begin


def explain_doubt(one: DraftGroup, other: DraftGroup) -> str:
    """Name one file of each group, of their first common save if there is one, so that later saves change nothing."""
    shared = min(one.drafts.keys() & other.drafts.keys(), default=None)
    found = [group.drafts[next(iter(group.drafts)) if shared is None else shared] for group in (one, other)]
    return describe_doubt(*(draft.path for draft in found))


def describe_doubt(*paths: str) -> str:
    return f"it is unclear whether {' and '.join(sorted(paths))} are parts of one checkpoint"


def find_doubtful_ranks(groups: Iterable[DraftGroup]) -> dict[int, str]:
    """Return, by id, the doubt about groups whose directories differ in a rank and were not written in sequence.

    `llama_rank0/` and `llama_rank1/` are two ranks of one training, or `lora_rank8/` and `lora_rank16/` two trainings.
    """
    by_place: dict[tuple[object, ...], list[DraftGroup]] = defaultdict(list)
    for group in groups:
        if not group.is_special and (place := _without_ranks(group.anchor)) != group.anchor:
            by_place[place, group.variants, group.residual, group.words].append(group)
    doubts: dict[int, str] = {}
    for near in by_place.values():
        if len(near) > MAX_GROUPS:
            doubts |= dict.fromkeys(map(id, near), explain_doubt(near[0], near[-1]))
            continue
        for one, other in combinations(near, 2):
            if one.anchor != other.anchor and relate(one.spans(), other.spans()) is not Relation.APART:
                doubts |= dict.fromkeys((id(one), id(other)), explain_doubt(one, other))
    return doubts


def _without_ranks(anchor: str) -> str:
    names = [parse_name(part) for part in anchor.split("/")]
    marks = {
        (at, index): "*"
        for at, name in enumerate(names)
        for index, number in enumerate(name.numbers)
        if number.word in RANK_WORDS
    }
    return render(names, marks) if marks else anchor


def find_doubtful_alone(groups: Iterable[DraftGroup], alone: Iterable[SetDraft]) -> dict[int, str]:
    """Return, by id, the doubt about groups with the same numbers as a file whose numbers have no known meaning.

    If `critic_2_200.pt` is cut short, its numbers have no meaning, so `actor_2_200.pt` may be incomplete without it.
    """
    doubtful: dict[tuple[object, ...], str] = {}
    for draft in sorted(alone, key=lambda draft: draft.path):
        piece = draft.parts[0]
        if draft.doubt and len(draft.parts) == 1 and not piece.is_data:
            place = find_anchor(piece), variants_of(piece.names), residual_of(piece)
            values = [number.value for name in piece.names for number in name.numbers if number.meaning in UNREAD]
            for count in range(1, _MOST_PROGRESS + 1):
                doubtful.update(((*place, key), draft.path) for key in combinations(values[-_MOST_NUMBERS:], count))
    doubts = {}
    for group in groups if doubtful else ():
        place = group.anchor, group.variants, group.residual
        found = next((draft for key, draft in group.drafts.items() if (*place, key) in doubtful), None)
        if found and not group.is_special:
            doubts[id(group)] = describe_doubt(found.path, doubtful[*place, found.progress])
    return doubts


def _is_among(numbers: Iterable[int], values: Iterable[int]) -> bool:
    """Whether the numbers occur among the values in this order."""
    left = iter(values)
    return all(number in left for number in numbers)


def find_doubtful_first(groups: Iterable[DraftGroup]) -> dict[int, str]:
    """Return the doubt, by id, of groups of which one is there only once, so that not all of its numbers are known.

    Beside `actor_1_100.pt` and `actor_2_200.pt` nobody can tell from `critic_1_100.pt` alone that 100 is progress.
    """
    by_place: dict[tuple[object, ...], list[DraftGroup]] = defaultdict(list)
    for group in groups:
        if not group.is_special and not group.is_data:
            by_place[group.anchor, group.variants, group.residual].append(group)
    doubts: dict[int, str] = {}
    for near in by_place.values():
        if len(near) > MAX_GROUPS:
            doubts |= dict.fromkeys(map(id, near), explain_doubt(near[0], near[-1]))
            continue
        for single, other in permutations(near, 2):
            if len(single.drafts) == 1 and len(single.words) < len(other.words):
                key = next(iter(single.drafts))
                if any(_is_among(key, each) for each in other.drafts):
                    doubts |= dict.fromkeys((id(single), id(other)), explain_doubt(single, other))
    return doubts
