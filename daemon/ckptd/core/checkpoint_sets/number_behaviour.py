"""Says what the values of a number in names, and the times of writing, prove about what the number counts."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from ckptd.core.checkpoint_sets.content_evidence import FEW, STRIDE, judge_content, relate
from ckptd.core.checkpoint_sets.name_numbers import TIME_WORD, Meaning
from ckptd.core.checkpoint_sets.pieces import Piece, Place, content_of

_PADDED = 5  # digits of `model010000.pt`; those of subjects, folds and years are fewer
_PACE_NS = 10 * 10**9  # programs save no faster for long; ranks, and copies in the order of names, are written faster


def judge_behaviour(
    pieces: Sequence[Piece], place: Place, progress: Sequence[Place], *, stuck: str | None
) -> tuple[bool | None, str]:
    """Return whether a number rises with the time of writing (True) or all its values appear in each save (False).

    `stuck` is what stays the same in the content while the number differs, step or epoch.
    """
    number = pieces[0].number(place)
    saves: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for piece in pieces:
        saves[tuple([piece.number(each).value for each in progress])].add(piece.number(place).value)
    shown = f"beside `{number.word}`" if number.word else "in the name"
    spans = _list_spans(pieces, place)
    is_rising = all(low[1] < high[0] for low, high in pairwise(spans))
    unclear = f"it is unclear what the number {shown} counts"
    if appears_in_each(list(saves.values())):  # unless one was written after the other
        is_unclear = is_rising or _are_of_trainings(pieces, progress)
        return (None, unclear) if is_unclear else (False, "its values appear together in each checkpoint")
    values = frozenset[int]().union(*saves.values())
    is_save = number.meaning is Meaning.SAVE
    if is_rising and stuck != "step" and _is_spaced(values):
        if is_save or (len(number.text) >= _PADDED and number.text.startswith("0")):
            return True, f"the number {shown} rises with the time of writing, by {math.gcd(*values)} at a time"
        if stuck is None and _is_paced(spans) and _is_level_in_epochs(pieces, place):
            return True, f"the number {shown} rises with the time of writing and with the epoch in the content"
    if is_rising and is_save and stuck is None and _counts_saves(pieces[0], spans, saves):
        return True, f"the number {shown} rises with the time of writing"
    epoch = None if stuck else _find_epoch(pieces[0], place, progress)
    if epoch and _counts_on(pieces, epoch, place):
        return True, "a second number rises with the time of writing"
    if stuck:
        return None, f"a number {shown} differs while the content is at the same {stuck}"
    if is_rising and len(spans) > 1:
        return None, f"a number {shown} rises with the time of writing, but no word or content says that it is progress"
    return None, unclear


def _is_spaced(values: Collection[int]) -> bool:
    """Whether numbers look like steps: at least three evenly spaced multiples of ten or more."""
    ordered = sorted(values)
    apart = {high - low for low, high in pairwise(ordered)}
    return len(ordered) > FEW and len(apart) == 1 and math.gcd(*ordered) >= STRIDE


def _find_epoch(first: Piece, place: Place, progress: Sequence[Place]) -> Place | None:
    """Return the number of progress right before another: `checkpoint_2_1500.pt`, or `epoch_2/model_1500.pt`.

    One right behind proves nothing: `subject_2_1500.pt` is named by a subject and its best step.
    """
    at, index = place
    if index == 0:
        return next((above for above in sorted(progress, reverse=True) if above[0] == at - 1), None)
    is_joined = (at, index - 1) in progress and first.names[at].texts[index] in {"_", "-", "."}
    return (at, index - 1) if is_joined else None


def _counts_on(pieces: Sequence[Piece], epoch: Place, step: Place) -> bool:
    """Whether one number may count the epochs and another the steps of one training, as ranks or folds would not.

    So it is where epochs may have one length in steps: for each epoch that is counted from 0 the length is in
    (step / (epoch + 1), step / epoch], and all of these intervals have something in common.
    """
    spans = _list_spans(pieces, step)
    pairs = sorted({(piece.number(epoch).value, piece.number(step).value) for piece in pieces})
    if len({counted for counted, _ in pairs}) < FEW or len(pairs) <= FEW:
        return False
    if not (_is_paced(spans) and _rises_mostly(spans)):
        return False
    for begin in (0, 1):
        shortest = max(value / (counted - begin + 1) if counted >= begin else math.inf for counted, value in pairs)
        longest = min((value / (counted - begin) for counted, value in pairs if counted > begin), default=0.0)
        if max(shortest, 1) < longest:
            return True
    return False


def is_paced(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether the numbers rise with the time of writing, as fast as programs save at most."""
    spans = _list_spans(pieces, place)
    return _is_paced(spans) and all(low[1] < high[0] for low, high in pairwise(spans))


def _list_spans(pieces: Sequence[Piece], place: Place) -> list[tuple[int, int]]:
    """Return when files with each value of a number were written, from the first to the last, by rising value."""
    times: dict[int, list[int]] = defaultdict(list)
    for piece in pieces:
        times[piece.number(place).value].append(piece.modified_ns)
    return [(min(times[value]), max(times[value])) for value in sorted(times)]


def _are_of_trainings(pieces: Sequence[Piece], progress: Sequence[Place]) -> bool:
    """Whether what counts as progress may tell trainings apart, because each was written in turn.

    It does not where a word explains it, or where it is the epoch or step in the content.
    """
    is_sure = any(
        pieces[0].number(each).meaning is Meaning.PROGRESS or judge_content(pieces, each)[0] for each in progress
    )
    return not is_sure and are_written_in_turn(pieces, progress)


def are_written_in_turn(pieces: Sequence[Piece], progress: Sequence[Place]) -> bool:
    """Whether files with the same numbers of progress were written as far apart as those with others.

    So are the epochs of `ckpt_1_3.pt`, where 1 is a seed. Ranks of one save are written at once, or quickly in turn.
    """
    found = _compare_waits(pieces, progress)
    return sum(is_apart for is_apart, _ in found) * 2 > len(found)


def are_written_at_once(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether most of the files that share a number were written together, as the ranks of one save are."""
    found = [is_apart for is_apart, file_count in _compare_waits(pieces, [place]) if file_count > 1]
    return sum(found) * 2 < len(found)


def _compare_waits(pieces: Sequence[Piece], progress: Sequence[Place]) -> list[tuple[bool, int]]:
    """Return for all numbers but the last whether the files with it were written as far apart as from the next ones.

    The second value is how many files have the number.
    """
    times: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for piece in pieces:
        times[tuple([piece.number(each).value for each in progress])].append(piece.modified_ns)
    ordered = sorted((min(found), max(found), len(found)) for found in times.values())
    waits = [
        ((end - begin) / max(count - 1, 1), later - end, count)
        for (begin, end, count), (later, _, _) in pairwise(ordered)
    ]
    return [(within >= _PACE_NS and within * 2 >= between, count) for within, between, count in waits]


def _is_paced(spans: Sequence[tuple[int, int]]) -> bool:
    begins = [begin for begin, _ in spans]
    return max(begins) - min(begins) >= _PACE_NS * (len(spans) - 1)


def _rises_mostly(spans: Sequence[tuple[int, int]]) -> bool:
    """Whether numbers rise with the time of writing, but for a few rollbacks; no two of them were written at once."""
    written = sorted((begin, end, at) for at, (begin, end) in enumerate(spans))
    falls = sum(later[2] < before[2] for before, later in pairwise(written))
    return falls * 3 < len(written) and all(before[1] < later[0] for before, later in pairwise(written))


def _is_level_in_epochs(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether all contents say an epoch, which never falls with the evenly spaced number and is not always the same.

    It rises as evenly as saves of one training: the last epochs of several trainings differ by chance.
    """
    pairs = [(piece.number(place).value, said) for piece in pieces if (said := content_of(piece)[0]) is not None]
    if len(pairs) < len(pieces) or relate(pairs) not in {"level", "rises"}:
        return False
    ordered = [said for _, said in sorted(dict(pairs).items())]
    steps = [later - before for before, later in pairwise(ordered)]
    return any(steps) and max(steps) - min(steps) <= 1


def _counts_saves(
    first: Piece, spans: Sequence[tuple[int, int]], saves: Mapping[tuple[int, ...], Collection[int]]
) -> bool:
    """Whether a number beside a word such as `checkpoint` may count saves, from the other numbers and the times.

    If all share one time or one number with a word, it may also count the ranks of one save.
    """
    if len(spans) > 1 and not _is_paced(spans):
        return False
    is_of_save = any(number.word == TIME_WORD for name in first.names[:-1] for number in name.numbers)
    return not is_of_save and (len(saves) > 1 or () in saves)


def appears_in_each(values: Sequence[AbstractSet[int]]) -> bool:
    """Whether most checkpoints have the same several values."""
    usual = max(values, key=values.count) if len(values) > 1 else frozenset[int]()
    return len(usual) > 1 and values.count(usual) > 1 and values.count(usual) * 2 >= len(values)
