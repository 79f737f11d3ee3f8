"""Decides which numbers of names that are alike count progress and which count members of one checkpoint.

In this order: what the content says, the framework's convention, the word beside the number, and how the numbers
behave. Where these contradict, or say nothing, there is a doubt, and what is in doubt is never pruned.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise

from ckptd.core.checkpoint_sets.names import DATE_WORD, EPOCH_WORDS, TIME_WORD, Meaning, split_words
from ckptd.core.checkpoint_sets.pieces import (
    Piece,
    Place,
    Shape,
    content_of,
    counts_ranks,
    member_marks,
    rank_directories,
    variants_of,
)

# Formats whose framework itself puts its progress or its save counter into the name.
_CONVENTIONS = split_words(
    "huggingface-trainer accelerate megatron deepspeed orbax tensorflow tensorflow-v1 flax lammps "
    "lightgbm xgboost dragon"
)
_NAMED_BY_STEP = frozenset(("lammps",))  # whose number in the name is the step; temperatures stand there as well
_STRIDE = 10  # steps are saved in multiples of a round number
_FEW = 2
_EVEN = 0.02  # by which distances may differ that count as equal
_PADDED = 5  # digits of `model010000.pt`; those of subjects, folds and years are fewer
_PACE_NS = 10 * 10**9  # programs save no faster for long; ranks, and copies in the order of names, are written faster
_UNDECIDED = frozenset((Meaning.SAVE, Meaning.BARE, Meaning.OPEN))


@dataclass(frozen=True, slots=True)
class Family:
    """Pieces whose paths differ only in numbers, and what each number that differs counts."""

    shape: Shape
    pieces: Sequence[Piece]
    progress: tuple[Place, ...] = ()
    members: tuple[Place, ...] = ()
    evidence: str = ""
    has_progress_word: bool = False
    contradiction: str | None = None  # between what names and content say of the progress
    undecided: Mapping[Place, str] = field(default_factory=dict)  # numbers of which nobody can tell, and why

    @property
    def doubt(self) -> str | None:
        """Why it is not known what the numbers count, None where it is."""
        return self.contradiction or next(iter(self.undecided.values()), None)

    def member_marks(self, piece: Piece) -> dict[Place, str]:
        """Return a `*` for each number of members, for a path that several members share."""
        return member_marks(piece.names, len(piece.names) - 1) | dict.fromkeys(self.members, "*")


def make_families(pieces: Iterable[Piece]) -> list[Family]:
    """Put pieces whose paths differ only in numbers together, and decide what these numbers count."""
    by_shape: dict[tuple[Shape, str, tuple[str, ...]], list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_shape[piece.shape, piece.checkpoint.format, variants_of(piece.names)].append(piece)
    return [_decide(shape, found) for (shape, _, _), found in by_shape.items()]


def _decide(shape: Shape, pieces: list[Piece]) -> Family:
    first = pieces[0]
    places = list(first.places())
    if not places:
        return Family(shape, pieces)
    ranks = rank_directories(first.names)
    kinds = {
        place: Meaning.MEMBER if place[0] in ranks and counts_ranks(number) else number.meaning
        for place in places
        for number in [first.number(place)]
    }
    progress = [place for place in places if kinds[place] is Meaning.PROGRESS and not _is_date_of_run(first, place)]
    members = [
        place
        for place in places
        if kinds[place] is Meaning.MEMBER and (place[0] == len(shape) - 1 or place[0] in ranks)
    ]
    has_word = any(first.number(place).word not in {DATE_WORD, TIME_WORD} for place in progress)
    evidence = f"the word `{first.number(progress[-1]).word}` is beside the number" if progress else ""
    contradiction = (_contradiction(pieces, progress) or _find_ranks(pieces, progress)) if progress else None
    undecided: dict[Place, str] = {}
    for place in (place for place in places if kinds[place] in _UNDECIDED):
        is_varying = len({piece.number(place).value for piece in pieces}) > 1
        told, why = _told_by_content(pieces, place)
        if told is None and not is_varying and not _is_save_place(first, place):
            continue  # the same number in all names is a part of their text
        if told is None and _is_convention(pieces, place):
            told, why = True, f"the names of {first.checkpoint.format} count it"
        if told is None:
            told, why = _told_by_behaviour(pieces, place, progress, stuck=_find_stuck(pieces, place))
        if told is True:
            progress.append(place)
            evidence = evidence or why
        elif told is False:
            members.append(place)
        else:
            undecided[place] = why
    return Family(
        shape,
        pieces,
        tuple(sorted(progress)),
        tuple(sorted(members)),
        evidence,
        has_word,
        contradiction,
        undecided,
    )


def _is_date_of_run(piece: Piece, place: Place) -> bool:
    return piece.number(place).word in {DATE_WORD, TIME_WORD} and place[0] < len(piece.names) - 1


def _is_save_place(piece: Piece, place: Place) -> bool:
    """Whether a number is one that a first save has, too: `ckpt_100.pt`, or a directory named `100`."""
    number = piece.number(place)
    return number.meaning is Meaning.SAVE or (number.meaning is Meaning.BARE and place[0] < len(piece.names) - 1)


def _is_convention(pieces: Sequence[Piece], place: Place) -> bool:
    found = pieces[0].checkpoint
    is_last = place[0] == len(pieces[0].names) - 1
    if not is_last or found.format not in _CONVENTIONS:
        return False
    if found.format in _NAMED_BY_STEP and any(
        piece.checkpoint.content_step not in {None, piece.number(place).value} for piece in pieces
    ):
        return False
    return all(piece.number(place).value in _said_by_convention(piece, place) for piece in pieces)


def _said_by_convention(piece: Piece, place: Place) -> set[float | None]:
    """Return the numbers that a framework itself put there: `1.ckpt` is as often a fold as the epoch of a callback."""
    found = piece.checkpoint
    is_of_user = found.format == "tensorflow" and piece.number(place).meaning is Meaning.BARE
    return {found.name_step} if is_of_user else {found.name_step, found.name_epoch}


def _told_by_content(pieces: Sequence[Piece], place: Place) -> tuple[bool | None, str]:
    """Return whether the content shows that a number is progress; None where it does not say.

    Beside an unknown word it does not suffice that both rise: two subjects, of whom the second trained for longer,
    look the same. There they must count alike, or evenly.
    """
    is_save = pieces[0].number(place).meaning is Meaning.SAVE
    for kind, word in ((1, "step"), (0, "epoch")):
        pairs = [(piece.number(place).value, said) for piece in pieces if (said := content_of(piece)[kind]) is not None]
        if not pairs or _is_told_by_few(pieces, place, pairs):
            continue
        may_be_chance = not is_save and _may_be_chance(pieces, place)
        if all(value == said for value, said in pairs) and not may_be_chance:
            return True, f"the content says the same {word}"
        if _relate(pairs) == "rises" and (is_save or _rises_evenly(pairs)) and not may_be_chance:
            return True, f"the {word} in the content rises with it"
    return None, ""


def _is_told_by_few(pieces: Sequence[Piece], place: Place, pairs: Sequence[tuple[int, float]]) -> bool:
    """Whether too few of the files say something: rank 0 of epoch 0 agrees with its epoch, and proves nothing."""
    values = {piece.number(place).value for piece in pieces}
    told = {value for value, _ in pairs}
    return len(values) > 1 and len(pairs) * 2 < len(pieces) and len(told) < len(values)


def _may_be_chance(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether so few and small numbers may be alike by chance: subjects 1 and 2, trained for one and two epochs."""
    values = {piece.number(place).value for piece in pieces}
    return len(values) > 1 and max(values) < _STRIDE and len({content_of(piece) for piece in pieces}) <= _FEW


def _rises_evenly(pairs: Collection[tuple[int, float]]) -> bool:
    """Whether the content, which rises with a number, does so by the same for each, and not by chance.

    That is so where one of both counts from 0 and the other from 1; for three checkpoints of which the first is at the
    same distance from 0; and for any four. Of several checkpoints with one number each is one of these distances apart.
    """
    said_by_number = dict(pairs)
    if len(said_by_number) < len(set(pairs)):
        return _is_straight(sorted(enumerate(sorted({said for _, said in pairs}))))
    (first, begin), *rest = ordered = sorted(said_by_number.items())
    if abs(begin - first) == 1 and all(said - value == begin - first for value, said in rest):
        return True
    is_from_zero = math.isclose(begin * rest[-1][0], first * rest[-1][1], rel_tol=_EVEN)
    return _is_straight(ordered) and (is_from_zero or len(rest) > _FEW)


def _is_straight(ordered: Sequence[tuple[int, float]]) -> bool:
    """Whether at least three points lie on one line, but for a few that a restart has shifted."""
    slopes = [(high[1] - low[1]) / (high[0] - low[0]) for low, high in pairwise(ordered)]
    usual = sorted(slopes)[len(slopes) // 2]
    odd_count = sum(not math.isclose(slope, usual, rel_tol=_EVEN) for slope in slopes)
    return len(ordered) > _FEW and odd_count * 4 <= len(slopes)


def _find_stuck(pieces: Sequence[Piece], place: Place) -> str | None:
    """Return what in the content stays the same while the number differs: step, epoch, or None."""
    for kind, word in ((1, "step"), (0, "epoch")):
        pairs = [(piece.number(place).value, said) for piece in pieces if (said := content_of(piece)[kind]) is not None]
        if _relate(pairs) == "constant":
            return word
    return None


def _relate(pairs: Iterable[tuple[int, float]]) -> str:
    """Say how a content's number goes with the one in the name: rises, constant, level (never falls) or mixed."""
    said: dict[int, set[float]] = defaultdict(set)
    for value, content in pairs:
        said[value].add(content)
    if len(said) < 2:
        return "level"
    if len(set().union(*said.values())) == 1:
        return "constant"
    ordered = [said[value] for value in sorted(said)]
    if all(max(low) < min(high) for low, high in pairwise(ordered)):
        return "rises"
    return "level" if all(max(low) <= min(high) for low, high in pairwise(ordered)) else "mixed"


def _contradiction(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return how the content contradicts the words beside the numbers, None where it does not."""
    for kind, word in ((1, "step"), (0, "epoch")):
        pairs = [
            (tuple(piece.number(place).value for place in progress), said)
            for piece in pieces
            if (said := content_of(piece)[kind]) is not None
        ]
        numbered = {value: at for at, value in enumerate(sorted({value for value, _ in pairs}))}
        relation = _relate((numbered[value], said) for value, said in pairs)
        if relation == "mixed":
            return f"the number in the names and the {word} in the content contradict each other"
        is_framework = all(_is_convention(pieces, place) for place in progress)
        if relation == "constant" and not is_framework and _names(pieces, progress, word):
            return f"the names differ in the {word} while the content is at the same {word}"
    return None


def _names(pieces: Sequence[Piece], progress: Sequence[Place], kind: str) -> bool:
    """Whether it is by a word for this kind, epoch or step, that the names differ."""
    varying = [place for place in progress if len({piece.number(place).value for piece in pieces}) > 1]
    words = {pieces[0].number(place).word for place in varying}
    return bool(words) and all((word in EPOCH_WORDS) is (kind == "epoch") for word in words)


def _find_ranks(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return that a worded number behind another one may count ranks, None where it does not look like that.

    In `epoch_7/5300_ba_0.pt` to `epoch_7/5300_ba_3.pt` the batch is 5300. A step that counts anew in each epoch looks
    the same where it is saved each time; then only the content tells.
    """
    if len(progress) == 1:
        return None
    *others, last = sorted(progress)
    saves: dict[tuple[int, ...], dict[int, tuple[float | None, float | None]]] = defaultdict(dict)
    for piece in pieces:
        saves[tuple([piece.number(place).value for place in others])][piece.number(last).value] = content_of(piece)
    values = [frozenset(said) for said in saves.values()]
    usual = max(values, key=values.count)
    first = min(usual)
    if len(usual) == 1 or first > 1 or max(usual) - first != len(usual) - 1:
        return None
    if len(values) > 1 and not _appears_in_each(values):
        return None
    if any(len(set(said.values())) > 1 for said in saves.values()):
        return None
    return f"the number beside `{pieces[0].number(last).word}` may be that of a rank: it counts from {first} in each"


def _told_by_behaviour(
    pieces: Sequence[Piece], place: Place, progress: Sequence[Place], *, stuck: str | None
) -> tuple[bool | None, str]:
    """Return whether a number rises with the time of writing (True) or all its values appear in each save (False).

    `stuck` is what stays the same in the content while the number differs, step or epoch.
    """
    number = pieces[0].number(place)
    saves: dict[tuple[int, ...], set[int]] = defaultdict(set)
    times: dict[int, list[int]] = defaultdict(list)
    for piece in pieces:
        value = piece.number(place).value
        saves[tuple([piece.number(each).value for each in progress])].add(value)
        times[value].append(piece.modified_ns)
    if _appears_in_each(list(saves.values())):
        return False, "its values appear together in each checkpoint"
    spans = [(min(times[value]), max(times[value])) for value in sorted(times)]
    is_rising = all(low[1] < high[0] for low, high in pairwise(spans))
    shown = f"beside `{number.word}`" if number.word else "in the name"
    if is_rising and stuck != "step":
        is_spaced = _is_spaced(times)
        is_save = number.meaning is Meaning.SAVE
        if is_save and (stuck is None or is_spaced) and _counts_saves(pieces[0], spans, saves):
            return True, f"the number {shown} rises with the time of writing"
        if is_spaced and (is_save or (len(number.text) >= _PADDED and number.text.startswith("0"))):
            return True, f"the number {shown} rises with the time of writing, by {math.gcd(*times)} at a time"
        if stuck is None and _is_second(pieces[0], place, progress) and _counts_on(spans, saves):
            return True, "a second number rises with the time of writing"
    if stuck:
        return None, f"a number {shown} differs while the content is at the same {stuck}"
    if is_rising and len(spans) > 1:
        return None, f"a number {shown} rises with the time of writing, but no word or content says that it is progress"
    return None, f"it is unclear what the number {shown} counts"


def _is_spaced(values: Collection[int]) -> bool:
    """Whether numbers are as those of steps: evenly spaced multiples of ten or more, at least three of them."""
    ordered = sorted(values)
    apart = {high - low for low, high in pairwise(ordered)}
    return len(ordered) > _FEW and len(apart) == 1 and math.gcd(*ordered) >= _STRIDE


def _is_second(first: Piece, place: Place, progress: Sequence[Place]) -> bool:
    """Whether a number comes right after one of progress: `checkpoint_2_1500.pt`, or `epoch_2/model_1500.pt`."""
    at, index = place
    if index == 0:
        return any(above == at - 1 for above, _ in progress)
    return (at, index - 1) in progress and first.names[at].texts[index] in {"_", "-", "."}


def _counts_on(spans: Sequence[tuple[int, int]], saves: Mapping[tuple[int, ...], Collection[int]]) -> bool:
    """Whether a second number is the step within a training whose epoch the first one is, as a rank or fold is not.

    So it is where epochs may have one length in steps: for each epoch that is counted from 0 the length is in
    (step / (epoch + 1), step / epoch], and all of these intervals have something in common.
    """
    pairs = sorted((first[-1], value) for first, values in saves.items() for value in values)
    if len(saves) < _FEW or len(pairs) <= _FEW or not _is_paced(spans):
        return False
    for begin in (0, 1):
        shortest = max(step / (epoch - begin + 1) if epoch >= begin else math.inf for epoch, step in pairs)
        longest = min((step / (epoch - begin) for epoch, step in pairs if epoch > begin), default=0.0)
        if max(shortest, 1) < longest:
            return True
    return False


def _is_paced(spans: Sequence[tuple[int, int]]) -> bool:
    return spans[-1][0] - spans[0][0] >= _PACE_NS * (len(spans) - 1)


def _counts_saves(
    first: Piece, spans: Sequence[tuple[int, int]], saves: Mapping[tuple[int, ...], Collection[int]]
) -> bool:
    """Whether a number beside a word such as checkpoint may count saves, as far as other numbers and times tell.

    Below one instant or one worded number that all share, it may as well count the ranks of one save.
    """
    if len(spans) > 1 and not _is_paced(spans):
        return False
    is_of_save = any(number.word == TIME_WORD for name in first.names[:-1] for number in name.numbers)
    return not is_of_save and (len(saves) > 1 or () in saves)


def _appears_in_each(values: Sequence[AbstractSet[int]]) -> bool:
    """Whether the same several values are there in most checkpoints."""
    usual = max(values, key=values.count) if len(values) > 1 else frozenset[int]()
    return len(usual) > 1 and values.count(usual) > 1 and values.count(usual) * 2 >= len(values)
