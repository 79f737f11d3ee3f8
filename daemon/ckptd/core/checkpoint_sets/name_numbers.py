"""Splits the names of checkpoints into text and numbers, and finds the meaning of each number from the word beside it.

The words come from the sources of frameworks and simulation codes, and from scripts of their users.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class Meaning(StrEnum):
    """What a number in a name counts."""

    PROGRESS = "progress"  # epochs, steps: differs from one checkpoint to the next
    MEMBER = "member"  # ranks, shards: differs within one checkpoint
    COUNT = "count"  # how many members there are, as in `-of-00004` and `world_size_4`
    VARIANT = "variant"  # folds, seeds, trials, versions: trainings of their own
    METRIC = "metric"  # a measured value
    SAVE = "save"  # beside a word such as checkpoint: progress where nothing contradicts
    BARE = "bare"  # the name is nothing but the number
    OPEN = "open"  # no word that is known here


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TIME_WORD = "time"  # an instant beside a word such as checkpoint
DATE_WORD = "date"  # any other instant; in the name of a directory both tell runs apart: `outputs/2026-11-20`
EPOCH_WORDS = split_words("epoch epochs ep e")
_STEP_WORDS = split_words(
    "step steps globalstep gstep iter iters iteration iterations itr ba update updates generation generations "
    "round rounds kimg"
)
_WEAK_WORDS = split_words(
    "e s it gen batch batches"
)  # subjects, seeds and batch sizes as often: the content must agree
_MEMBER_WORDS = split_words(
    "rank ranks r shard shards part parts partition tp pp dp mp zero layer expert proc processor "
    "process node host gpu device dev worker w thread chunk piece segment chain member replica walker pid"
)
CONTIGUOUS_WORDS = split_words("rank ranks r shard shards part parts proc processor")
# That name weights and results as often where a name begins with them: `w.03-0.44.weights.h5` is of epoch 3.
MEMBER_LETTERS = frozenset(word for word in _MEMBER_WORDS if len(word) == 1)
_COUNT_WORDS = split_words("of size nranks nprocs")
_VARIANT_WORDS = split_words(
    "fold folds cv split seed trial run exp experiment version v ensemble agent client task config cfg lr bs "
    "try attempt job env variant stage phase temperature pressure"
)
METRIC_WORDS = split_words(
    "acc accuracy loss score auc bleu ppl mse mae rmse reward psnr ssim iou miou wer cer fid top val metric map"
)
_SAVE_WORDS = split_words("checkpoint checkpoints ckpt ckpts chkpt chk cp snapshot restart save saved recovery")
_PARALLEL_WORDS = split_words("tp pp dp mp tensor pipeline")

_PARALLEL_RANK = re.compile(r"(?:mp|tp|pp|ep|dp|cp)[-_]rank[-_]?$", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,11}){1,3}$")
_NUMBER = re.compile(
    r"(?P<time>(?<!\d)\d{4}-\d{2}-\d{2}(?:[T_ -]\d{2}[:_-]?\d{2}(?:[:_-]?\d{2})?)?|(?<!\d)\d{8}[-_T]\d{4,6}(?!\d))"
    r"|(?P<fraction>\d+\.\d+(?!\d|\.\d)(?:[eE][-+]?\d+)?)"  # in `m.5.0.39` that of epoch 5 is 0.39
    r"|(?P<whole>\d+)"
)
_ALL_DIGITS_ALIKE = str.maketrans("123456789", "0" * 9)
_CP2K = re.compile("cp2k", re.IGNORECASE)
_WORD_BEFORE = re.compile(r"([A-Za-z]+)[-_=. ]{0,2}$")
_WORD_BEHIND = re.compile(r"[-_]?(?:global_)?([A-Za-z]+)(?![A-Za-z]|[-_=.]?\d)")
_UNIT = re.compile(r"(?:K|bar|atm|[kMG]Pa)(?![A-Za-z0-9])")
_QUANTITY = re.compile(r"(?<![A-Za-z])[TP][-_=]?$")
_WORD_JOINED = re.compile(r"([A-Za-z]+)(?=[-_=.])")  # that is nearer to the number before it than to the next
_PADDED_SHARD = 5  # digits of `model-00001-of-00002.safetensors`
_PADDED_RANK = 3  # digits of all but the first number of `mp_rank_00_001`
_MAX_DIGITS = 18
_MAX_NUMBERS = 16
_LONGEST = 255
_new_tuple = tuple.__new__  # at once, where a directory has a hundred thousand names


class NameNumber(NamedTuple):
    """One number in a name. `word` is the one that determines its meaning; "" if there is none."""

    value: int
    text: str
    meaning: Meaning
    word: str


class Name(NamedTuple):
    """One component of a path: texts around numbers, always one text more than numbers."""

    texts: tuple[str, ...]
    numbers: tuple[NameNumber, ...]


class _Split(NamedTuple):
    """Where the numbers of a name are, and what they mean."""

    spans: tuple[tuple[int, int], ...]
    numbers: tuple[NameNumber, ...]


@lru_cache(maxsize=131_072)
def parse_name(name: str) -> Name:
    """Split one component of a path. Digits in a suffix such as `.h5`, and all digits of very long names, are text."""
    if len(name) > _LONGEST:
        return Name((name,), ())
    spans, alike = _split(name if "cp2k" in name.lower() else name.translate(_ALL_DIGITS_ALIKE))
    texts: list[str] = []
    numbers: list[NameNumber] = []
    at = 0
    for (begin, end), (_, _, meaning, word) in zip(spans, alike, strict=True):
        text = name[begin:end]
        numbers.append(_new_tuple(NameNumber, (_value(text), text, meaning, word)))
        texts.append(name[at:begin])
        at = end
    texts.append(name[at:])
    return _new_tuple(Name, (tuple(texts), tuple(numbers)))


def _value(text: str) -> int:
    if text.isdigit():
        return int(text[:_MAX_DIGITS])
    return 0 if "." in text else int(re.sub(r"\D", "", text)[:_MAX_DIGITS])


@lru_cache(maxsize=8_192)
def _split(name: str) -> _Split:
    """Find the numbers of a name; for all names that differ only in the digits themselves the result is the same."""
    suffix = _SUFFIX.search(name)
    stem = name[: suffix.start()] if suffix else name
    texts: list[str] = []
    numbers: list[NameNumber] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for found in _NUMBER.finditer(stem):
        if len(numbers) == _MAX_NUMBERS or len(found[0]) > _MAX_DIGITS + 8:
            break
        if found[0][0] == "2" and _CP2K.match(stem, max(0, found.start() - 2)):
            continue  # its digit is part of a program's name, and no number of a checkpoint `cp2`
        numbers.append(_number(found, stem))
        texts.append(stem[at : found.start()])
        spans.append(found.span())
        at = found.end()
    texts.append(name[at:])
    return _Split(tuple(spans), tuple(_resolve_meanings(numbers, texts)))


def _number(found: re.Match[str], stem: str) -> NameNumber:
    if found.lastgroup == "fraction":
        return NameNumber(0, found[0], Meaning.METRIC, "")
    digits = found[0] if found.lastgroup == "whole" else re.sub(r"\D", "", found[0])
    value = int(digits[:_MAX_DIGITS])
    before = _WORD_BEFORE.search(stem, 0, found.start())
    word = before[1].lower() if before and not _is_of_number_before(before, stem) else ""
    if found.lastgroup == "time":
        return NameNumber(value, found[0], Meaning.PROGRESS, TIME_WORD if word in _SAVE_WORDS else DATE_WORD)
    if word in _WEAK_WORDS:
        return NameNumber(value, found[0], Meaning.OPEN, word)
    if meaning := _meaning(word):
        return NameNumber(value, found[0], meaning, word)
    behind = _WORD_BEHIND.match(stem, found.end()) or _WORD_JOINED.match(stem, found.end())
    after = behind[1].lower() if behind else ""
    if len(after) > 1 and _meaning(after) is Meaning.PROGRESS:
        return NameNumber(value, found[0], Meaning.PROGRESS, after)
    if word in _SAVE_WORDS:
        return NameNumber(value, found[0], Meaning.SAVE, word)
    return NameNumber(value, found[0], Meaning.BARE if found[0] == stem else Meaning.OPEN, word)


def _is_of_number_before(before: re.Match[str], stem: str) -> bool:
    """Whether a word is nearer to the number before it: `step` in `100step_0.pt`."""
    is_joined = before.start() > 0 and stem[before.start() - 1].isdigit() and before.end() > before.end(1)
    return is_joined and _meaning(before[1].lower()) is Meaning.PROGRESS


def _meaning(word: str) -> Meaning | None:
    if word in EPOCH_WORDS or word in _STEP_WORDS:
        return Meaning.PROGRESS
    if word in _MEMBER_WORDS:
        return Meaning.MEMBER
    if word in _COUNT_WORDS:
        return Meaning.COUNT
    if word in _VARIANT_WORDS:
        return Meaning.VARIANT
    return Meaning.METRIC if word in METRIC_WORDS else None


def _resolve_meanings(numbers: list[NameNumber], texts: Sequence[str]) -> Iterator[NameNumber]:
    """Set meanings that depend on other numbers of the name: `3-of-8` is a member, and so is `ep` beside tp or pp.

    Epoch 3 of 8 is progress; shards are numbered with five digits.

    So are the further numbers of `mp_rank_00_001`, which have three digits; in `rank0_1000` the second may be anything.
    A letter that begins the name and explains its only count, as in `w.03-0.44`, leaves open what it counts.
    """
    if _is_only_letter(numbers, texts):
        numbers = [numbers[0]._replace(meaning=Meaning.OPEN), *numbers[1:]]
    if len(numbers) == 1:
        yield numbers[0]
        return
    is_parallel = any(number.word in _PARALLEL_WORDS for number in numbers)
    is_parallel_rank = is_padded = False
    for at, number in enumerate(numbers):
        is_expert = is_parallel and number.word in {"ep", "cp"}
        is_one_of = at + 1 < len(numbers) and numbers[at + 1].word == "of"
        is_one_of = is_one_of and (number.meaning is not Meaning.PROGRESS or len(number.text) >= _PADDED_SHARD)
        is_more = is_parallel_rank and not number.word and texts[at] in {"_", "-"}
        is_more = is_more and (not is_padded or len(number.text) == _PADDED_RANK)
        is_first = bool(_PARALLEL_RANK.search(texts[at]))
        is_padded = len(number.text) > 1 if is_first else is_padded
        is_parallel_rank = is_more or is_first
        yield number._replace(meaning=Meaning.MEMBER) if is_expert or is_one_of or is_more else number


def is_condition(name: Name, index: int) -> bool:
    """Whether a number with no known word is a temperature or a pressure, as in `npt_300K.cpt` and `T300/restart`."""
    if name.numbers[index].meaning is not Meaning.OPEN or SAVE_WORD.search("".join(name.texts)):
        return False
    return bool(_UNIT.match(name.texts[index + 1]) or _QUANTITY.search(name.texts[index]))


def _is_only_letter(numbers: Sequence[NameNumber], texts: Sequence[str]) -> bool:
    if not numbers or numbers[0].meaning is not Meaning.MEMBER or numbers[0].word not in MEMBER_LETTERS:
        return False
    return texts[0][0].lower() == numbers[0].word and all(each.meaning is Meaning.METRIC for each in numbers[1:])


# Words of the things that one save writes side by side.
COMPONENT = re.compile(
    r"(?<![A-Za-z])(?:(?:pytorch_|adapter_|lit_)?model|net|nets|network|netg|netd|generator|discriminator|gen|disc|actor"
    r"|critic|policy|value|encoder|decoder|teacher|student|weights|params|state|states|training_state|model_state"
    r"|trainer_state|optim|optimi[sz]er|opt|sched|scheduler|lr_?scheduler|rng|rng_state|random_states?|ema|momentum"
    r"|moments|adam|amp|scaler|grad_?scaler|buffers?|replay(?:_buffer)?|vec_?normalize|normalizer|loader|dataloader"
    r"|data_?loader|sampler|extra_?state|meta|metadata|training_args|args|hparams|config)(?![A-Za-z])",
    re.IGNORECASE,
)
# Of these, what holds other parameters than the model: an average of them, or a further network.
ANOTHER_NETWORK = re.compile(
    r"(?<![A-Za-z])(?:ema|netg|netd|generator|discriminator|gen|disc|actor|critic|policy|value|encoder|decoder|teacher"
    r"|student)(?![A-Za-z])",
    re.IGNORECASE,
)
# Of these, what is of no use without the model: the optimizer, random numbers, replay.
_AUXILIARY = (
    "optim|optimi[sz]er|opt|sched|scheduler|lr_?scheduler|rng|rng_state|random_states?|ema|momentum"
    "|moments|adam|amp|scaler|grad_?scaler|buffers?|replay(?:_buffer)?|vec_?normalize|normalizer|loader|dataloader"
    "|data_?loader|sampler|extra_?state|meta|metadata|training_args|args|hparams|config|custom_checkpoint"
)
AUXILIARY = re.compile(rf"(?<![A-Za-z])(?:{_AUXILIARY})(?![A-Za-z])", re.IGNORECASE)
# What is a part of a checkpoint even where its content proves nothing.
COMPANION = re.compile(rf"(?<![A-Za-z])(?:{_AUXILIARY}|params|weights|state|states)(?![A-Za-z])", re.IGNORECASE)
# Words of what is written beside checkpoints and is none.
RESULT = re.compile(
    r"(?<![A-Za-z])(?:samples?|preds?|predictions?|eval|evals|evaluations?|results?|embeddings?|emb|embs|features?|images?"
    r"|imgs?|figures?|plots?|generated|generations?|outputs?|fields?|metrics|logs?|completions?|rollouts?|trajectory"
    r"|dataset|data|tokens|tokenized|cache|vis|visual|renders?|summary|history|stats|probs|logits|labels|targets?|test"
    r"|valid|val)(?![A-Za-z])",
    re.IGNORECASE,
)
# A name that stands for one checkpoint among many.
SPECIAL = re.compile(
    r"(?<![A-Za-z])(?:best|last|latest|final|newest|exception|crash|interrupted|averaged?|ave|avg|swa)"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
SAVE_WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(sorted(_SAVE_WORDS))})(?![A-Za-z])", re.IGNORECASE)
# A directory of one rank, such as `mp_rank_00_001` or `processor3`, also below a word of several: `fold1_rank_0`.
_OF_VARIANT = rf"(?:(?:{'|'.join(sorted(_VARIANT_WORDS))})[-_=]?\d+(?:\.\d+)?[-_.]+)"
_OF_RANK = (
    r"(?:(?:world_size|ws|of|n)[_-]?\d+[_-])?(?:[_-]*(?:(?:mp|tp|pp|ep|dp|cp|fsdp|global|local|expert)[_-])*"
    r"(?:rank|shard|part|partition|proc|processor|process|node|worker|host|gpu|device)[_-]?\d+(?:_\d+)*)+"
    r"|\d+[_-]of[_-]\d+|(?:[_-]?(?:tp|pp|dp|mp|ep|cp)[_-]?\d+)+"
)
RANK_DIRECTORY = re.compile(rf"(?P<variant>{_OF_VARIANT}*)(?:{_OF_RANK})", re.IGNORECASE)
# A directory that holds one component of a training: `actor/step_100` and `critic/step_100` are one checkpoint, and so
# are those of `ppo_actor` and `ppo_critic`.
COMPONENT_DIRECTORY = re.compile(
    r"(?P<before>(?:.*[^A-Za-z])?)"
    r"(?:actor|critic|policy|value|reference|ref|reward|generator|discriminator|netg|netd|encoder|decoder|teacher"
    r"|student|model|optimi[sz]er|optim|scheduler|ema|rng)"
    r"(?P<behind>(?:[^A-Za-z].*)?)",
    re.IGNORECASE,
)
# What may count ranks in the name of a directory that says more, such as `llama_rank0`.
RANK_WORDS = (CONTIGUOUS_WORDS | _PARALLEL_WORDS) - {"r"}
