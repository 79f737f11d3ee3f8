"""Turns claims into checkpoints: examines each, then combines the results of claims that refer to each other."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.formats import FORMATS, checkpoint_names, keras_names
from ckptd.checkpoints.formats.interface import NO_CHECKSUM, Claim, DamagedError, Examination, TooLargeError
from ckptd.checkpoints.scanning.name_series import mark_strangers
from ckptd.checkpoints.scanning.open_files import list_open_for_writing
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.core.checkpoint_sets.name_numbers import Meaning, parse_name
from ckptd.core.checkpoint_sets.pieces import render
from ckptd.core.model import Checkpoint, CheckpointState, Level
from ckptd.core.model.checkpoints import NOT_GROUPED, UnfrozenCheckpoint, freeze, to_instant

WRITE_GRACE = timedelta(seconds=60)
_MAX_REASON = 1_000
_MAX_UNSAFE = 100
_MAX_NAME = 200
_WORDED = frozenset((Meaning.PROGRESS, Meaning.SAVE))
_COUNTED = _WORDED | {Meaning.BARE}
_NO_METRICS: Mapping[str, float] = {}


class _Opinion(NamedTuple):
    """The base names of what a training's checkpoints call its best, by each metric, and whether any still exists."""

    best: tuple[str, ...]
    is_there: bool


def examine_claim(claim: Claim, reader: Reader, level: Level) -> Examination:
    """Examine one claim; every failure becomes its state and reason."""
    each = FORMATS[claim.format]
    state = CheckpointState.UNKNOWN
    if level is Level.LISTED:
        return Examination(state=state, reason="only listed").shown_as(each.role_unread.by_format)
    try:
        return each.examine(claim, reader, level)
    except DamagedError as error:
        state, reason = CheckpointState.DAMAGED, str(error)
    except TooLargeError as error:
        reason = str(error)
    except (OSError, NotRegularError) as error:
        reason = f"could not be read: {error}"
    except MemoryError:
        reason = "its reader needs more memory than it may have"
    except RecursionError:
        reason = "its content is nested too deeply to read"
    except Exception as error:  # noqa: BLE001 - one hostile file must not end the scan of the others
        reason = f"its reader failed: {type(error).__name__}: {error}"
    return Examination(state=state, reason=reason).shown_as(each.role_unread.by_format)


def assemble(
    claims: Sequence[Claim],
    examinations: Sequence[Examination | Checkpoint],
    *,
    root: PurePosixPath,
    level: Level,
    now: datetime,
    write_grace: timedelta = WRITE_GRACE,
) -> Iterator[Checkpoint]:
    """Combine the facts from each claim's names and content, and from claims that refer to each other.

    A checkpoint among the examinations is the result of an earlier scan of the same files.
    """
    claims = mark_strangers(claims)
    best = _best_names(claims, examinations, root.name)
    epochs = _epochs_by_step(claims, examinations)
    unchanged_since_ns = int((now - write_grace).timestamp() * 1e9)
    writers: frozenset[tuple[int, int]] | None = None
    for claim, result in zip(claims, examinations, strict=True):
        opinion = None
        if best and (said := best.get(_place(claim))):
            opinion = said.get(_name_training(_name(claim)))
        if isinstance(result, Checkpoint):
            if opinion is None and _is_as_before(claim, result):
                yield result
                continue
            found = _examination_of(result)
        else:
            found = result
        is_best = _is_best(claim, result, opinion)
        changed_ns = modified_ns(claim)
        state, reason = _classify(claim, found, level, is_fresh=changed_ns > unchanged_since_ns)
        if state is CheckpointState.DAMAGED:
            writers = list_open_for_writing() if writers is None else writers
            if any((file.device, file.inode) in writers for file in claim.files):
                state, reason = CheckpointState.WRITING, f"a process has it open for writing; so far: {reason}"
        epoch = found.epoch
        if epoch is None and claim.name_epoch is not None:
            epoch = _name_epoch(claim, found)
        if epoch is None and epochs and found.step is not None:
            epoch = epochs.get((*_place(claim), found.step))
        yield _checkpoint(claim, found, changed_ns, root=root, level=level, said=(state, reason, is_best, epoch))


def _epochs_by_step(
    claims: Sequence[Claim], examinations: Sequence[Examination | Checkpoint]
) -> dict[tuple[str, str, int], float]:
    """Return the epoch at each step of a format and directory, where all that tell one agree.

    A copy such as `best` or `last` often has the step in its content and the epoch only in the name of its twin.
    """
    epochs: dict[tuple[str, str, int], float] = {}
    disputed = set()
    for claim, found in zip(claims, examinations, strict=True):
        if found.step is None:
            continue
        epoch = found.epoch
        if epoch is None and claim.name_epoch is not None:
            epoch = _name_epoch(claim, found)
        if epoch is not None:
            place = (*_place(claim), found.step)
            if epochs.setdefault(place, epoch) != epoch:
                disputed.add(place)
    return {place: epoch for place, epoch in epochs.items() if place not in disputed}


def _is_best(claim: Claim, found: Examination | Checkpoint, opinion: _Opinion | None) -> bool | None:
    """Tell whether a checkpoint is the best: as the content of its training says, or else its name or own content."""
    if opinion is not None and opinion.is_there:
        return _name(claim) in opinion.best or None
    if opinion is not None:
        return claim.is_best
    # the name was asked when the checkpoint was first found, and what the content has said since outweighs it
    return found.is_best or (claim.is_best if isinstance(found, Examination) else None) or None


def _name_epoch(claim: Claim, found: Examination | Checkpoint) -> float | None:
    """Return the epoch that the name states; no number that no word explains, where the content calls it a step."""
    if claim.name_epoch is None or found.step != claim.name_epoch:
        return claim.name_epoch
    name = _name(claim)
    said = keras_names.epoch_of_name(name)
    return checkpoint_names.parse_name(name).epoch if said is None else said


def _is_as_before(claim: Claim, found: Checkpoint) -> bool:
    """Tell whether names and markers around a checkpoint say the same of it as when it was found complete."""
    is_plain = claim.damage is claim.in_progress is claim.temporary is claim.note is None
    return is_plain and (claim.is_newest, claim.is_listed) == (found.is_newest, found.is_listed)


def _examination_of(found: Checkpoint) -> Examination:
    return Examination(
        epoch=found.content_epoch,
        step=found.content_step,
        role=found.role,
        role_evidence=found.role_evidence,
        is_result=found.is_result,
        is_best=found.is_best,
        metrics=found.metrics,
        goal_epoch=found.goal_epoch,
        goal_step=found.goal_step,
        unsafe=found.unsafe,
        continued_count=found.continued_count,
        continued_from_step=found.continued_from_step,
        computation=found.computation,
        has_checksum=found.level is Level.FULL and found.reason is None,
        unchecked=found.reason if found.reason and found.reason.startswith(NO_CHECKSUM) else None,
    )


def _best_names(
    claims: Sequence[Claim], examinations: Sequence[Examination | Checkpoint], root_name: str
) -> dict[tuple[str, str], dict[str, _Opinion]]:
    """Return what the content of checkpoints calls the best in each place, by the training that it is of.

    Each checkpoint names them as of its time; of those that name some of the same training, the furthest is believed.
    Of one that is read again, because its permissions changed, that is an old opinion where others are further.
    """
    if not any(isinstance(found, Examination) and found.best_paths for found in examinations):
        return {}
    furthest: dict[tuple[tuple[str, str], str], int] = {}
    for claim, found in zip(claims, examinations, strict=True):
        if isinstance(found, Checkpoint) and found.step is not None:
            own = _place(claim), _name_training(_name(claim))
            furthest[own] = max(found.step, furthest.get(own, found.step))
    opinions: dict[tuple[str, str], dict[str, tuple[int, int, tuple[str, ...]]]] = {}
    for claim, found in zip(claims, examinations, strict=True):
        if isinstance(found, Examination) and found.best_paths:
            step = found.step if found.step is not None else claim.name_step
            if step is not None and step < furthest.get((_place(claim), _name_training(_name(claim))), step):
                continue
            said = opinions.setdefault(_place(claim), {})
            for training, names in _best_of_trainings(claim, found.best_paths, root_name).items():
                opinion = (-1 if step is None else step, modified_ns(claim), names)
                said[training] = max(opinion, said.get(training, opinion))
    there = {(_place(claim), _name(claim)) for claim in claims}
    return {
        place: {
            training: _Opinion(names, any((place, name) in there for name in names))
            for training, (_, _, names) in said.items()
        }
        for place, said in opinions.items()
    }


def _best_of_trainings(claim: Claim, paths: Iterable[str], root_name: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the best beside a checkpoint that says so, by training.

    Where it names some in a directory of this name and some in others, these are those of other directories.
    """
    directory = claim.path.split("/")[-2] if "/" in claim.path else root_name
    parted = [path.rpartition("/") for path in paths]
    here = [name for parent, _, name in parted if parent == directory] or [name for _, _, name in parted]
    found: dict[str, tuple[str, ...]] = {}
    for name in here:
        training = _name_training(name)
        found[training] = (*found.get(training, ()), name)
    return found


def _name_training(text: str) -> str:
    """Return what is alike in the names of one training's checkpoints: all but progress and measured values."""
    name = parse_name(text)
    is_worded = any(number.meaning in _WORDED for number in name.numbers)
    counts = _COUNTED if is_worded else _COUNTED | {Meaning.OPEN}
    marks = {(0, at): "#" for at, number in enumerate(name.numbers) if number.meaning in counts}
    return render([name], marks, metric="~")


def _place(claim: Claim) -> tuple[str, str]:
    return claim.format, claim.path.rpartition("/")[0]


def _name(claim: Claim) -> str:
    return claim.path.rpartition("/")[2]


def modified_ns(claim: Claim) -> int:
    """Return when a claim's files last changed; some file systems hold instants that no calendar knows."""
    files = claim.files
    return files[0].modified_ns if len(files) == 1 else max((file.modified_ns for file in files), default=0)


def _classify(claim: Claim, found: Examination, level: Level, *, is_fresh: bool) -> tuple[CheckpointState, str | None]:
    """Distinguish unfinished saves from interrupted ones, and note what could not be checked."""
    state, reason = found.state, found.reason
    if state is CheckpointState.COMPLETE and claim.damage:
        state, reason = CheckpointState.DAMAGED, claim.damage
    if state is CheckpointState.DAMAGED and claim.unlisted:
        state, reason = CheckpointState.UNKNOWN, f"{claim.unlisted}; as far as it was read: {reason}"
    if claim.in_progress or (claim.temporary and is_fresh):
        return CheckpointState.WRITING, claim.in_progress or claim.temporary
    if state is CheckpointState.DAMAGED:
        if is_fresh:
            return CheckpointState.WRITING, f"it changed recently and may still be written; as it is now: {reason}"
        return state, f"{claim.temporary}: {reason}" if claim.temporary else reason
    reason = reason or claim.temporary or claim.note
    if reason is None and level is Level.FULL and state is CheckpointState.COMPLETE:
        reason = found.unchecked or (None if found.has_checksum else NO_CHECKSUM)
    return state, reason


# one object for equal sets: a directory may have 100,000 files of one owner
_share_uids: Callable[[tuple[int, ...]], frozenset[int]] = functools.lru_cache(maxsize=1024)(frozenset)


Said = tuple[CheckpointState, str | None, bool | None, float | None]  # state, reason, is_best, epoch


def _checkpoint(
    claim: Claim, found: Examination, changed_ns: int, *, root: PurePosixPath, level: Level, said: Said
) -> Checkpoint:
    state, reason, is_best, epoch = said
    prefix = claim.path.rfind("/") + 1
    files = claim.files
    made = UnfrozenCheckpoint(
        path=root / claim.path,
        format=claim.format,
        files=tuple([file.path[prefix:] for file in files]),
        identities=tuple([file.identity for file in files]),
        owner_uids=_share_uids(tuple({file.uid for file in files})),
        size_bytes=sum([file.size_bytes for file in files]),
        modified_at=to_instant(changed_ns),
        state=state,
        reason=reason and _clip(reason, _MAX_REASON),
        level=level,
        epoch=epoch,
        step=found.step if found.step is not None else claim.name_step,
        name_epoch=claim.name_epoch,
        name_step=claim.name_step,
        is_best=is_best,
        is_newest=claim.is_newest,
        is_listed=claim.is_listed,
        metrics={**claim.name_metrics, **found.metrics} if claim.name_metrics or found.metrics else _NO_METRICS,
        goal_epoch=found.goal_epoch,
        goal_step=found.goal_step,
        unsafe=tuple([_clip(name, _MAX_NAME) for name in found.unsafe[:_MAX_UNSAFE]]) if found.unsafe else (),
        content_epoch=found.epoch,
        content_step=found.step,
        role=found.role,
        role_evidence=_clip(found.role_evidence, _MAX_NAME),
        is_result=found.is_result,
        continued_count=found.continued_count,
        continued_from_step=found.continued_from_step,
        computation=found.computation and _clip(found.computation, _MAX_REASON),
        grouping=NOT_GROUPED,
        parts=(),
    )
    return freeze(made)


def _clip(text: str, length: int) -> str:
    """Shorten a text, because a hostile file can make it long."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
