"""Says what the epochs and steps in the content of files prove about the numbers in their names."""

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from ckptd.core.checkpoint_sets.name_numbers import Meaning
from ckptd.core.checkpoint_sets.pieces import Piece, Place, content_of

FEW = 2  # values that may be alike by chance
STRIDE = 10  # steps are saved in multiples of a round number
_EVEN = 0.02  # by which distances may differ that count as equal


def judge_content(pieces: Sequence[Piece], place: Place) -> tuple[bool | None, str]:
    """Return whether the content shows that a number is progress; None if it does not show it.

    Beside an unknown word, it is not enough that both rise: two subjects, of whom the second trained for longer, look
    the same. There, both must be equal or rise evenly.
    """
    is_save = pieces[0].number(place).meaning is Meaning.SAVE
    for kind, word in ((1, "step"), (0, "epoch")):
        pairs = [(piece.number(place).value, said) for piece in pieces if (said := content_of(piece)[kind]) is not None]
        if not pairs or _is_told_by_few(pieces, place, pairs):
            continue
        may_be_chance = not is_save and _may_be_chance(pieces, place)
        is_counted_from_one = min(value for value, _ in pairs) <= FEW
        if all(value == said for value, said in pairs) and not (may_be_chance and is_counted_from_one):
            return True, f"the content says the same {word}"
        if relate(pairs) == "rises" and (is_save or _rises_evenly(pairs)) and not may_be_chance:
            return True, f"the {word} in the content rises with it"
    return None, ""


def _is_told_by_few(pieces: Sequence[Piece], place: Place, pairs: Sequence[tuple[int, float]]) -> bool:
    """Whether too few files state a number: rank 0 of epoch 0 agrees with its epoch, and proves nothing."""
    values = {piece.number(place).value for piece in pieces}
    distinct = {value for value, _ in pairs}
    return len(values) > 1 and len(pairs) * 2 < len(pieces) and len(distinct) < len(values)


def _may_be_chance(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether the numbers are so few and small that they may agree by chance: subjects 1 and 2 with 1 and 2 epochs."""
    values = {piece.number(place).value for piece in pieces}
    return len(values) > 1 and max(values) < STRIDE and len({content_of(piece) for piece in pieces}) <= FEW


def _rises_evenly(pairs: Collection[tuple[int, float]]) -> bool:
    """Whether the content rises with a number by constant amounts, and not by chance.

    This is the case if one of both counts from 0 and the other from 1; for three checkpoints if the first one has the
    same distance from 0; and for any four. Each of several checkpoints with the same number has one of these distances.
    """
    said_by_number = dict(pairs)
    if len(said_by_number) < len(set(pairs)):
        return _is_straight(sorted(enumerate(sorted({said for _, said in pairs}))))
    (first, begin), *rest = ordered = sorted(said_by_number.items())
    if abs(begin - first) == 1 and all(said - value == begin - first for value, said in rest):
        return True
    is_from_zero = math.isclose(begin * rest[-1][0], first * rest[-1][1], rel_tol=_EVEN)
    return _is_straight(ordered) and (is_from_zero or len(rest) > FEW)


def _is_straight(ordered: Sequence[tuple[int, float]]) -> bool:
    """Whether at least three points are on one line, except a few that a restart has shifted."""
    slopes = [(high[1] - low[1]) / (high[0] - low[0]) for low, high in pairwise(ordered)]
    usual = sorted(slopes)[len(slopes) // 2]
    odd_count = sum(not math.isclose(slope, usual, rel_tol=_EVEN) for slope in slopes)
    return len(ordered) > FEW and odd_count * 4 <= len(slopes)


def find_stuck(pieces: Sequence[Piece], place: Place) -> str | None:
    """Return which measure in the content is constant while the number differs: step, epoch, or None."""
    for kind, word in ((1, "step"), (0, "epoch")):
        pairs = [(piece.number(place).value, said) for piece in pieces if (said := content_of(piece)[kind]) is not None]
        if relate(pairs) == "constant":
            return word
    return None


def relate(pairs: Iterable[tuple[int, float]]) -> str:
    """Return how the content's number relates to the one in the name: rises, constant, level (never falls) or mixed."""
    lowest: dict[int, float] = {}
    highest: dict[int, float] = {}
    for value, content in pairs:
        if content <= lowest.setdefault(value, content):
            lowest[value] = content
        if content >= highest.setdefault(value, content):
            highest[value] = content
    if len(lowest) < 2:
        return "level"
    if min(lowest.values()) == max(highest.values()):
        return "constant"
    joints = [(highest[low], lowest[high]) for low, high in pairwise(sorted(lowest))]
    if all(before < after for before, after in joints):
        return "rises"
    return "level" if all(before <= after for before, after in joints) else "mixed"
