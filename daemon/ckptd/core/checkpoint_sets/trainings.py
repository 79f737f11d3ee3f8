"""Finds names that are those of several trainings in one place: then nobody can tell which saves are older ones.

Names such as `checkpoint_256/step_6000.pt` and `checkpoint_512/step_1000.pt` may count saves and steps of one training,
or be of two with other settings. Where the steps begin again with each value of the other number, they are of several.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from ckptd.core.checkpoint_sets.content_evidence import judge_content
from ckptd.core.checkpoint_sets.name_numbers import (
    DATE_WORD,
    EPOCH_WORDS,
    METRIC_WORDS,
    TIME_WORD,
    Meaning,
    is_condition,
)
from ckptd.core.checkpoint_sets.number_behaviour import (
    appears_in_each,
    are_written_at_once,
    are_written_in_turn,
    is_paced,
)
from ckptd.core.checkpoint_sets.pieces import Piece, Place, content_of

_UNEXPLAINED = frozenset((Meaning.OPEN, Meaning.SAVE, Meaning.BARE))
_COUNTED = frozenset((Meaning.PROGRESS, Meaning.SAVE))
_WORD = re.compile(r"([A-Za-z]+)[-_=]?$")
_STEP_WORDS = frozenset(("step", "steps", "globalstep", "gstep"))
_ITERATION_WORDS = frozenset(("iter", "iters", "iteration", "iterations", "itr"))
_WITH_STEP = frozenset(("cp2k", "gromacs", "lammps", "namd"))  # their content has it, whatever people name files by


def find_several(pieces: Sequence[Piece]) -> str | None:
    """Return why pieces whose paths differ only in numbers may be of several trainings, or None."""
    for place in pieces[0].places():
        if len({piece.number(place).text for piece in pieces}) > 1 and (why := _tells_apart(pieces, place)):
            return why
    if stage := next((place for place in pieces[0].places() if _is_stage(pieces, place)), None):
        number = pieces[0].number(stage)
        return f"the number beside `{number.word}` is not the step in the content, and may be that of a stage"
    return None


def _is_stage(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether the word `step` counts the stages of a simulation, as in `step1.cpt` at step 50,000."""
    number = pieces[0].number(place)
    if number.meaning is not Meaning.PROGRESS or number.word in EPOCH_WORDS or number.word in {DATE_WORD, TIME_WORD}:
        return False
    if pieces[0].checkpoint.format not in _WITH_STEP:
        return False
    said = [(piece.number(place).value, piece.checkpoint.content_step) for piece in pieces]
    return len({value for value, _ in said}) > 1 and all(step not in {None, value} for value, step in said)


def _branches(pieces: Sequence[Piece], place: Place, other: Place) -> bool:
    """Whether a number is the step at which a training began from another one, as in `from_step_2000/step_2300.pt`.

    The steps behind it are counted by the same word, or in checkpoints' names, and go on from it. Behind the word
    `from`, as in `decay_from_2000/step_2300.pt`, they may be counted by any.
    """
    first = pieces[0]
    outer, inner = first.number(place), first.number(other)
    if place >= other:
        return False
    if outer.word == "from":
        beyond = {piece.number(other).value - piece.number(place).value for piece in pieces}
        return inner.meaning in _COUNTED and inner.word not in {DATE_WORD, TIME_WORD} and min(beyond) >= 0
    if Meaning.PROGRESS is not outer.meaning or outer.word in {DATE_WORD, TIME_WORD}:
        return False
    is_of_step = inner.meaning is Meaning.SAVE and other[0] > place[0] and _counts_steps(pieces, place)
    if not is_of_step and (inner.meaning is not Meaning.PROGRESS or not _count_alike(outer.word, inner.word)):
        return False
    if _is_goal(pieces, place, other):
        return False
    beyond = {piece.number(other).value - piece.number(place).value for piece in pieces}
    return min(beyond) >= 0 and max(beyond) > 1  # `epoch_0/epoch_1.pt` counts the same epochs from 0 and from 1


def _is_goal(pieces: Sequence[Piece], place: Place, other: Place) -> bool:
    """Whether the second number may be how far the training shall go, as in `step_500_steps100000.pt`.

    So it is where the content says that the first one is its own step or epoch, and in one name where it says nothing
    and the second number is the same in all.
    """
    said = [(piece.number(place).value, *content_of(piece)) for piece in pieces]
    if any(all(value == each[kind] for value, *each in said) for kind in (0, 1)):
        return True
    is_silent = all(epoch is step is None for _, epoch, step in said)
    return is_silent and place[0] == other[0] and len({piece.number(other).value for piece in pieces}) == 1


def _counts_steps(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether a number counts steps, and not rounds of a training, which count in ones: `iter_7/checkpoint-3500`."""
    values = {piece.number(place).value for piece in pieces}
    is_in_ones = max(values) - min(values) == len(values) - 1
    return pieces[0].number(place).word in _STEP_WORDS | _ITERATION_WORDS and not is_in_ones


def _count_alike(word: str, other: str) -> bool:
    """Whether two words count the same: `step` and `global_step`, but not epochs and steps."""
    return word == other or any({word, other} <= words for words in (EPOCH_WORDS, _STEP_WORDS, _ITERATION_WORDS))


def _tells_apart(pieces: Sequence[Piece], place: Place) -> str | None:
    first = pieces[0]
    name, number = first.names[place[0]], first.number(place)
    if any(_branches(pieces, place, other) for other in first.places()):
        return f"the number beside `{number.word}` may be where trainings began that go on from one another"
    if is_condition(name, place[1]):
        is_counted = _is_of_content(pieces, place)
        return None if is_counted else "a number with the unit or letter of a temperature or pressure is in the names"
    is_date = number.word in {DATE_WORD, TIME_WORD}
    is_of_file = place[0] == len(first.names) - 1  # directories with other settings are other series
    is_setting = number.meaning is Meaning.METRIC and is_of_file and not _is_measured(name.texts[place[1]])
    is_planned = number.meaning is Meaning.PROGRESS and number.word not in EPOCH_WORDS  # `ddpm_steps50_epoch_6`
    if not (is_setting or is_planned or number.meaning in _UNEXPLAINED):
        return None
    if is_date and _falls(pieces, place):
        return "the dates in the names may be those of starts: they fall from one save to the next"
    others = [
        other
        for other in first.places()
        if other != place
        and (_counts(first, place, other) or judge_content(pieces, other)[0] or _may_count(pieces, place, other))
    ]
    if not others or (not is_date and not is_setting and judge_content(pieces, place)[0]):
        return None
    if any(_begins_again(pieces, place, other) for other in others):
        return f"the names may be of several trainings: steps or epochs begin again beside {number.text} and others"
    return None


def _is_measured(text: str) -> bool:
    word = _WORD.search(text)
    return word is not None and word[1].lower() in METRIC_WORDS


def _counts(piece: Piece, place: Place, other: Place) -> bool:
    """Whether another number counts progress: by its word, or in a later component by a word such as `checkpoint`."""
    number = piece.number(other)
    if number.word in {DATE_WORD, TIME_WORD}:
        return False
    return number.meaning is Meaning.PROGRESS or (number.meaning in _COUNTED and other[0] > place[0])


def _may_count(pieces: Sequence[Piece], place: Place, other: Place) -> bool:
    """Whether a number below a directory such as `ckpt_42` may count the epochs of one training, as in `3.pt`."""
    first = pieces[0]
    is_bare = first.number(other).meaning in {Meaning.OPEN, Meaning.BARE} and other[0] > place[0]
    return is_bare and first.number(place).meaning is Meaning.SAVE and _is_slower(pieces, place, other)


def _is_of_content(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether the content says the same step: in ones, or in thousands as in `net_100K.pth`."""
    said = [(piece.number(place).value, piece.checkpoint.content_step) for piece in pieces]
    return any(all(step == value * scale for value, step in said) for scale in (1, 1000))


def _begins_again(pieces: Sequence[Piece], place: Place, other: Place) -> bool:
    """Whether with at least half of a number's values, another number falls to where it began with the value before.

    After a rollback it goes on below where it was, not where it began. Ranks of one training have the same numbers.
    """
    found: dict[str, list[int]] = defaultdict(list)
    saves: dict[int, set[int]] = defaultdict(set)
    for piece in sorted(pieces, key=lambda piece: (piece.modified_ns, piece.path)):
        found[piece.number(place).text].append(piece.number(other).value)
        saves[piece.number(other).value].add(piece.number(place).value)
    if appears_in_each(list(saves.values())) and not _is_slower(pieces, place, other):
        return False
    pairs = list(pairwise(found.values()))
    again = sum(after[0] <= before[0] and after[0] < before[-1] for before, after in pairs)
    return again * 2 >= max(len(pairs), 1)


def _is_slower(pieces: Sequence[Piece], place: Place, other: Place) -> bool:
    """Whether a number that counts saves or steps, and no ranks, rises only after another one has risen for a while.

    So does 2 in `iter_2/epoch_5.pt`. The step in `epoch_2/step_500.pt` begins again with each epoch. The ranks of
    `checkpoint_200/ckpt_3.pt` are written at once.
    """
    if are_written_at_once(pieces, place):
        return False
    meaning = pieces[0].number(place).meaning
    if meaning is Meaning.SAVE:
        return are_written_in_turn(pieces, [other])
    return meaning is Meaning.PROGRESS and is_paced(pieces, place)


def _falls(pieces: Sequence[Piece], place: Place) -> bool:
    """Whether a number falls from one save to the next: a date that does is not that of the save."""
    ordered = sorted(pieces, key=lambda piece: (piece.modified_ns, piece.path))
    return any(before.number(place).value > after.number(place).value for before, after in pairwise(ordered))
