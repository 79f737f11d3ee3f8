"""Examines claims in limited children: a file that crashes its reader or exceeds the limits affects only itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from operator import attrgetter
from typing import Any

from ckptd.checkpoints.agent.limited_child import ChildLimits, ChildReporter, LimitedChild, RunningChild
from ckptd.checkpoints.formats import FORMATS
from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.scanning.claiming import GoOn
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.recognition import examine_claim
from ckptd.checkpoints.scanning.shared_parser import Memory
from ckptd.core.model import CheckpointState, Level, Role
from ckptd.core.model.checkpoints import UNREAD

Progress = Callable[[int], None]  # gets the number of bytes read so far

# an enumeration's own lookup takes ten times as long
_STATES = {each.value: each for each in CheckpointState}
_ROLES = {each.value: each for each in Role}


def examine_in_child(
    claims: Sequence[Claim],
    reader: Reader,
    level: Level,
    *,
    limits: ChildLimits,
    progress: Progress | None = None,
    begun: RunningChild | None = None,
) -> Iterator[Examination]:
    """Examine each claim in order; after a failure, continue with the next claim in a new child.

    The first claim is always read; after `limits.until`, the rest is UNREAD. `begun` is a child that examines these
    claims already; its caller closes it.
    """
    done = 0
    failed: dict[int, str] = {}  # by the number of the claim
    while done < len(claims):
        if done and limits.is_time_over():
            unread = {each.name: _unknown(UNREAD).shown_as(each.role_unread.by_format) for each in FORMATS.values()}
            yield from (unread[claim.format] for claim in claims[done:])
            return
        if done in failed:
            yield _unknown(failed[done])
            done += 1
            continue
        with ExitStack() as stack:
            running = begun or stack.enter_context(_start(claims, done, failed, reader, level, limits, progress))
            begun, child, before = None, running.child, _BLANK
            for answer in running.answers:
                try:
                    read = decode_all(answer, before, len(claims) - done)
                except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
                    child.fail(error)
                    break
                before = read[-1]
                for found in read:
                    yield found
                    done += 1
                if done == len(claims):
                    return
            if running.is_shared:
                continue
            step = child.step
            failed[step if done <= step < len(claims) and step not in failed else done] = (
                child.failure or "its reader ended too early"
            )


def examine_after_claiming(
    select: Callable[[Sequence[Claim]], Sequence[Claim]], reader: Reader, level: Level, limits: ChildLimits
) -> GoOn:
    """Return what the child that made the claims does next: examine those that are selected."""

    def go_on(claims: Sequence[Claim], teller: ChildReporter) -> None:
        teller.begin(0, limits.seconds)
        _examine(select(claims), 0, {}, reader, level, limits.keep_reserve().begin_reading(), teller)

    return go_on


def examine_for_parent(
    memory: Memory,
    reader: Reader,
    teller: ChildReporter,
    numbers: Sequence[int],
    level: Level,
    limits: ChildLimits,
) -> None:
    """Examine some of the claims that a shared child has made, by their places among them."""
    teller.begin(0, limits.seconds)
    claims = [memory["claims"][number] for number in numbers]
    _examine(claims, 0, {}, reader, level, limits.begin_reading(), teller)


def _start(  # noqa: PLR0913, PLR0917 - all that the child needs
    claims: Sequence[Claim],
    start: int,
    failed: dict[int, str],
    reader: Reader,
    level: Level,
    limits: ChildLimits,
    progress: Progress | None,
) -> RunningChild:
    child = LimitedChild(
        lambda teller: _examine(claims, start, failed, reader, level, limits, teller),
        limits,
        lambda step: _seconds(claims[step], level, limits) if 0 <= step < len(claims) else limits.seconds,
        [reader.descriptor],
    )
    return RunningChild(child, None if progress is None else lambda: progress(child.read_bytes_read()))


def _examine(  # noqa: PLR0913, PLR0917 - it runs in the child, with all that it needs
    claims: Sequence[Claim],
    start: int,
    failed: dict[int, str],
    reader: Reader,
    level: Level,
    limits: ChildLimits,
    teller: ChildReporter,
) -> None:
    answers = _Answers(teller)
    for number in range(start, len(claims)):
        if number > start and limits.is_time_over():
            return
        claim = claims[number]
        teller.begin(number, _seconds(claim, level, limits))
        found = _unknown(failed[number]) if number in failed else examine_claim(claim, reader, level)
        answers.add(found)


def _unknown(reason: str) -> Examination:
    return Examination(state=CheckpointState.UNKNOWN, reason=reason)


def _seconds(claim: Claim, level: Level, limits: ChildLimits) -> float:
    if level is not Level.FULL:
        return limits.seconds
    return limits.seconds + sum(file.size_bytes for file in claim.files) / limits.full_bytes_per_second


class _Answers:
    """Answers with examinations; of one that differs from the one before it in epoch and step alone, with these."""

    def __init__(self, teller: ChildReporter) -> None:
        self._teller = teller
        self._before = _BLANK
        self._is_plain = True  # the one before has nothing that is sent each time

    def add(self, found: Examination) -> None:
        before = self._before
        if self._is_plain and found[2:] == before[2:] and _has_same_types(found, before):
            self._teller.answer_row(found.epoch, found.step)
        else:
            self._teller.answer(encode(found, before))
            self._is_plain = not (found.metrics or any(_get_lists(found)))
        self._before = found


def _has_same_types(found: Examination, before: Examination) -> bool:
    """Whether two equal examinations are equal in JSON: a goal of 1.0 is not sent as 1."""
    return type(found.goal_epoch) is type(before.goal_epoch)


def encode(found: Examination, before: Examination) -> dict[str, Any]:
    """Encode an examination as JSON types, without what the one before it has as well.

    The files of a series have most of it alike, and a directory may have 100,000 of them. Lists and metrics are sent
    each time: a hostile child could send long ones once, and its parent would copy them for every checkpoint.
    """
    data: dict[str, Any] = {
        name: value
        for name, value, other in zip(_PLAIN, _get_plain(found), _get_plain(before), strict=True)
        if value is not other and (value != other or type(value) is not type(other))  # 1.0 is not sent as 1
    }
    data |= {name: value for name, value in zip(_LISTS, _get_lists(found), strict=True) if value}
    if found.metrics:
        data["metrics"] = dict(found.metrics)
    return data


def decode_all(answer: Any, before: Examination, most: int) -> list[Examination]:
    """Decode one answer: an examination, or the columns of at most so many that differ in epoch and step alone.

    Raises:
        AttributeError, KeyError, TypeError, ValueError, OverflowError: the answer is not of `_Answers`' form.

    """
    if not isinstance(answer, list):
        return [decode(answer, before)]
    epochs, steps = answer
    if not 0 < len(epochs) <= most:
        raise ValueError("no answers, or more answers than questions")
    rest = decode({}, before)[2:]
    return [
        _new_tuple(Examination, (_decode_epoch(epoch), _decode_step(step), *rest))
        for epoch, step in zip(epochs, steps, strict=True)
    ]


def decode(data: dict[str, Any], before: Examination) -> Examination:
    """Decode an examination that differs so from the one before it.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: the data is not of `encode`'s form.

    """
    told = {name: _DECODERS[name](value) for name, value in data.items() if name in _DECODERS}
    if not (told or before.metrics or any(_get_lists(before))):
        return before
    return Examination(**dict(zip(_PLAIN, _get_plain(before), strict=True)) | told)  # `replace` takes twice as long


def _number(value: Any) -> float:
    """Keep whole numbers ints, as JSON does."""
    return int(value) if isinstance(value, int) else float(value)  # a truth value is an int, too


def _optional(decode_value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else decode_value(value)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple([str(text) for text in values])


_decode_epoch, _decode_step = _optional(_number), _optional(int)
_new_tuple = tuple.__new__  # at once, where a directory has a hundred thousand files
_BLANK = Examination()
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "state": _STATES.__getitem__,
    "reason": _optional(str),
    "epoch": _decode_epoch,
    "step": _decode_step,
    "is_best": _optional(bool),
    "best_paths": _texts,
    "goal_epoch": _optional(_number),
    "goal_step": _optional(int),
    "unsafe": _texts,
    "has_checksum": bool,
    "unchecked": _optional(str),
    "role": _ROLES.__getitem__,
    "role_evidence": str,
    "is_result": bool,
    "continued_count": _optional(int),
    "continued_from_step": _optional(int),
    "computation": _optional(str),
    "metrics": lambda metrics: {str(name): float(value) for name, value in metrics.items()},
}
_LISTS = ("unsafe", "best_paths")
_PLAIN = tuple(name for name in _DECODERS if name not in {*_LISTS, "metrics"})
_get_plain, _get_lists = attrgetter(*_PLAIN), attrgetter(*_LISTS)
