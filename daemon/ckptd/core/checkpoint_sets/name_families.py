"""Decides which numbers in similar names count progress and which count members of one checkpoint.

The evidence is, in this order: the content, the framework's convention, the word beside the number, and how the numbers
behave. If there is none, or it is contradictory, the grouping is unknown, and the checkpoints are never pruned.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ckptd.core.checkpoint_sets import trainings
from ckptd.core.checkpoint_sets.content_evidence import FEW, STRIDE, find_stuck, judge_content, relate
from ckptd.core.checkpoint_sets.name_numbers import (
    DATE_WORD,
    EPOCH_WORDS,
    MEMBER_LETTERS,
    RANK_DIRECTORY,
    TIME_WORD,
    Meaning,
    split_words,
)
from ckptd.core.checkpoint_sets.number_behaviour import appears_in_each, is_paced, judge_behaviour
from ckptd.core.checkpoint_sets.pieces import (
    Piece,
    Place,
    Shape,
    content_of,
    counts_ranks,
    list_values,
    member_marks,
    rank_directories,
    render,
    values_at,
    variants_of,
)

# Formats whose framework itself puts its progress or its save counter into the name.
_CONVENTIONS = split_words(
    "huggingface-trainer accelerate megatron deepspeed orbax tensorflow tensorflow-v1 flax lammps "
    "lightgbm xgboost dragon"
)
_NAMED_BY_STEP = frozenset(("lammps",))  # whose number in the name is the step; temperatures stand there as well
_UNDECIDED = frozenset((Meaning.SAVE, Meaning.BARE, Meaning.OPEN))


@dataclass(frozen=True, slots=True)
class Family:
    """Pieces whose paths differ only in numbers, and what each of these numbers counts."""

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
        """Why it is unknown what the numbers count; None if it is known."""
        return self.contradiction or next(iter(self.undecided.values()), None)

    def member_marks(self, piece: Piece) -> dict[Place, str]:
        """Return a `*` for each member number, for a path that several members share."""
        return member_marks(piece.names, len(piece.names) - 1) | dict.fromkeys(self.members, "*")


def make_families(pieces: Iterable[Piece]) -> list[Family]:
    """Group pieces whose paths differ only in numbers, and decide what these numbers count."""
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
    kinds |= {place: Meaning.MEMBER for place in places if _is_letter_of_members(pieces, place, kinds)}
    kinds |= {place: Meaning.OPEN for place in places if kinds[place] is Meaning.MEMBER and _is_own_step(pieces, place)}
    progress = [place for place in places if kinds[place] is Meaning.PROGRESS and not _is_date_of_run(first, place)]
    members = [
        place
        for place in places
        if kinds[place] is Meaning.MEMBER and (place[0] == len(shape) - 1 or place[0] in ranks)
    ]
    has_word = any(first.number(place).word not in {DATE_WORD, TIME_WORD} for place in progress)
    evidence = f"the word `{first.number(progress[-1]).word}` is beside the number" if progress else ""
    contradiction = trainings.find_several(pieces)
    if progress and not contradiction:
        contradiction = (
            _contradiction(pieces, progress)
            or _find_ranks(pieces, progress)
            or _find_experts(pieces, progress)
            or _find_shared_word(pieces, progress)
            or _find_one_of(pieces, progress)
            or _find_planned(pieces, progress)
        )
    left: list[Place] = []
    undecided: dict[Place, str] = {}
    is_without_step = _is_without_step(pieces)
    for place in (place for place in places if kinds[place] in _UNDECIDED):
        if is_without_step and _is_misnamed(pieces, place):
            undecided[place] = f"the step in the content of {first.checkpoint.format} is another number"
            continue
        verdict, why = judge_content(pieces, place)
        if verdict is None and _is_convention(pieces, place):
            verdict, why = True, f"the names of {first.checkpoint.format} count it"
        if verdict is True:
            progress.append(place)
            evidence = evidence or why
        else:
            left.append(place)
    unclear, why = _decide_by_behaviour(pieces, left, progress, members)
    undecided |= unclear
    return Family(
        shape,
        pieces,
        tuple(sorted(progress)),
        tuple(sorted(members)),
        evidence or why,
        has_word,
        contradiction,
        undecided,
    )


def _decide_by_behaviour(
    pieces: list[Piece], places: list[Place], progress: list[Place], members: list[Place]
) -> tuple[dict[Place, str], str]:
    """Add places to `progress` or `members` by how their numbers behave beside those already there.

    Returns:
        The places that stay undecided, each with the reason; and the evidence for the first that is progress, or "".

    """
    undecided: dict[Place, str] = {}
    evidence = ""
    for place in places:
        is_varying = len(set(values_at(pieces, place))) > 1
        if not is_varying and not _is_save_place(pieces[0], place):
            continue  # the same number in all names is a part of their text
        verdict, why = judge_behaviour(pieces, place, progress, stuck=find_stuck(pieces, place))
        if verdict is True and any(_begin_again(pieces, place, each) for each in progress):
            verdict, why = None, "the epochs in the names begin again as another number rises"
        if verdict is True:
            progress.append(place)
            evidence = evidence or why
        elif verdict is False:
            members.append(place)
        else:
            undecided[place] = why
    return undecided, evidence


def _begin_again(pieces: Sequence[Piece], place: Place, other: Place) -> bool:
    """Whether epochs begin again as another number rises, such as the 7 and 13 of `checkpoint_13/epoch_1.pt`."""
    if pieces[0].number(other).word not in EPOCH_WORDS:
        return False
    return relate((piece.number(place).value, piece.number(other).value) for piece in pieces) == "mixed"


def _is_letter_of_members(pieces: Sequence[Piece], place: Place, kinds: Mapping[Place, Meaning]) -> bool:
    """Whether the number behind a letter such as `w` counts members: of one progress, or written at once."""
    at, index = place
    name = pieces[0].names[at]
    number = name.numbers[index]
    if number.meaning is not Meaning.OPEN or number.word not in MEMBER_LETTERS or len(name.numbers) > 1:
        return False
    if Meaning.PROGRESS in kinds.values():
        return True
    return len({piece.number(place).value for piece in pieces}) > 1 and not is_paced(pieces, place)


def _is_own_step(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether a number beside a word such as `chain` is the step in the content of each, too large to be by chance."""
    return all(piece.number(place).value == content_of(piece)[1] for piece in pieces) and (
        max(piece.number(place).value for piece in pieces) >= STRIDE
    )


def _is_date_of_run(piece: Piece, place: Place) -> bool:
    return piece.number(place).word in {DATE_WORD, TIME_WORD} and place[0] < len(piece.names) - 1


def _is_save_place(piece: Piece, place: Place) -> bool:
    """Whether a number may also be that of a first save: `ckpt_100.pt`, or a directory named `100`."""
    number = piece.number(place)
    return number.meaning is Meaning.SAVE or (number.meaning is Meaning.BARE and place[0] < len(piece.names) - 1)


def _find_experts(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return that directories such as `ep_0` may be of expert-parallel ranks: they were written at the same time."""
    name = pieces[0].names[progress[0][0]]
    is_directory = progress[0][0] < len(pieces[0].names) - 1 and RANK_DIRECTORY.fullmatch(render([name], {}))
    if len(progress) > 1 or not is_directory or pieces[0].number(progress[0]).word != "ep":
        return None
    if judge_content(pieces, progress[0])[0] or is_paced(pieces, progress[0]):
        return None
    return "the number beside `ep` may be that of an expert-parallel rank"


def _find_shared_word(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return that a word between two numbers may explain the first, as in `ckpt_3_epoch_0.pt` of epoch 3 and rank 0.

    The second is progress where the content says so, or where it rises with the time of writing beside one first.
    """
    first = pieces[0]
    for at, index in progress:
        number = first.number((at, index))
        joint = first.names[at].texts[index].strip("-_=. ").lower()
        is_between = index > 0 and joint == number.word and first.number((at, index - 1)).meaning in _UNDECIDED
        if not is_between or judge_content(pieces, (at, index))[0]:
            continue
        beside: dict[int, list[Piece]] = defaultdict(list)
        for piece in pieces:
            beside[piece.number((at, index - 1)).value].append(piece)
        several = [found for found in beside.values() if len({piece.number((at, index)).value for piece in found}) > 1]
        if not several or not all(is_paced(found, (at, index)) for found in several):
            return f"it is unclear which number the word `{number.word}` explains"
    return None


def _find_planned(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return that `epochs30` may be how many epochs there shall be: beside it, the steps begin again."""
    planned = [place for place in progress if pieces[0].number(place).word == "epochs"]
    for place in planned:
        for other in progress:
            pairs = ((piece.number(place).value, piece.number(other).value) for piece in pieces)
            if other != place and relate(pairs) == "mixed":
                return "the number beside `epochs` may be how many there shall be"
    return None


def _find_one_of(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return that `epoch_3_of_8.pt` may be a shard: neither its content nor the times of writing tell."""
    first = pieces[0]
    for at, index in progress:
        rest = first.names[at].numbers[index + 1 : index + 2]
        if (
            rest
            and rest[0].word == "of"
            and not (judge_content(pieces, (at, index))[0] or is_paced(pieces, (at, index)))
        ):
            return "the number before `of` may be that of a shard"
    return None


def _is_misnamed(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether a program names its files by the step, and this number is another one, such as a temperature."""
    if pieces[0].checkpoint.format not in _NAMED_BY_STEP or place[0] < len(pieces[0].names) - 1:
        return False
    return any(piece.checkpoint.content_step not in {None, piece.number(place).value} for piece in pieces)


def _is_without_step(pieces: Sequence[Piece]) -> bool:
    """Whether none of the numbers in the names is the step in the content, and they differ."""
    if pieces[0].checkpoint.format not in _NAMED_BY_STEP:
        return False
    differing = [place for place in pieces[0].places() if len(set(values_at(pieces, place))) > 1]
    return bool(differing) and all(_is_misnamed(pieces, place) for place in differing)


def _is_convention(pieces: Sequence[Piece], place: Place) -> bool:
    found = pieces[0].checkpoint
    is_last = place[0] == len(pieces[0].names) - 1
    if not is_last or found.format not in _CONVENTIONS:
        return False
    if _is_misnamed(pieces, place):
        return False
    return all(piece.number(place).value in _numbers_by_convention(piece, place) for piece in pieces)


def _numbers_by_convention(piece: Piece, place: Place) -> set[float | None]:
    """Return the numbers that the framework itself wrote; `1.ckpt` is none, because it may also be a fold."""
    found = piece.checkpoint
    is_of_user = found.format == "tensorflow" and piece.number(place).meaning is Meaning.BARE
    return {found.name_step} if is_of_user else {found.name_step, found.name_epoch}


def _contradiction(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return how the content contradicts the words beside the numbers, or None."""
    numbers = list_values(pieces, progress)
    for kind, word in ((1, "step"), (0, "epoch")):
        contents = [content_of(piece)[kind] for piece in pieces]
        pairs = [(number, said) for number, said in zip(numbers, contents, strict=True) if said is not None]
        if not pairs:
            continue
        numbered = {value: at for at, value in enumerate(sorted({value for value, _ in pairs}))}
        relation = relate((numbered[value], said) for value, said in pairs)
        if relation == "mixed":
            return f"the number in the names and the {word} in the content contradict each other"
        is_framework = all(_is_convention(pieces, place) for place in progress)
        if relation != "constant" or is_framework:
            continue
        if _names(pieces, progress, word):
            return f"the names differ in the {word} while the content is at the same {word}"
        if word == "epoch" and _are_no_steps(pieces, progress, pairs[0][1]):
            return "the numbers in the names may be those of trainings: the content of all is at the same epoch"
    return None


def _are_no_steps(pieces: Sequence[Piece], progress: Sequence[Place], epoch: float) -> bool:
    """Whether names at one epoch differ in numbers below it, or in dates, and no step in the content explains that.

    So do the rounds 0 to 4 of 90 epochs each in `round_3.pt`, and trainings of each night in `model_2026-11-20.pt`.
    """
    if epoch < FEW or any(content_of(piece)[1] is not None for piece in pieces):
        return False
    varying = [place for place in progress if len({piece.number(place).value for piece in pieces}) > 1]
    dates = [place for place in varying if pieces[0].number(place).word in {DATE_WORD, TIME_WORD}]
    others = [place for place in varying if place not in dates]
    return bool(varying) and all(piece.number(place).value < epoch for piece in pieces for place in others)


def _names(pieces: Sequence[Piece], progress: Sequence[Place], kind: str) -> bool:
    """Whether the names differ in a number beside a word for this measure, epoch or step."""
    varying = [place for place in progress if len({piece.number(place).value for piece in pieces}) > 1]
    words = {pieces[0].number(place).word for place in varying}
    return bool(words) and all((word in EPOCH_WORDS) is (kind == "epoch") for word in words)


def _find_ranks(pieces: Sequence[Piece], progress: Sequence[Place]) -> str | None:
    """Return the reason if a number with a word, after another number, may count ranks; otherwise None.

    In `epoch_7/5300_ba_0.pt` to `epoch_7/5300_ba_3.pt`, the batch is 5300. A step that restarts in each epoch and is
    always saved looks the same; only the content can show the difference.
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
    if len(values) > 1 and not appears_in_each(values):
        return None
    if any(len(set(said.values())) > 1 for said in saves.values()):
        return None
    return f"the number beside `{pieces[0].number(last).word}` may be that of a rank: it counts from {first} in each"
