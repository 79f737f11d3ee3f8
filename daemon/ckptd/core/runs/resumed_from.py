"""Find the checkpoint that an attempt resumed from: by the program's trace, the job's record, or its first checkpoint.

The newest checkpoint that existed when the attempt started need not be the one that it loaded: jobs load older ones, or
none. The first checkpoint that the attempt completes contains its progress at that time. The usual pace of the run
limits how much of this progress the attempt can have made itself. It must have loaded a checkpoint with the rest. If
several explanations are possible, none is chosen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import Attempt, Certainty, CheckpointRead, Resume, ResumeReason
from ckptd.core.runs import candidate_reads, declared_path, program_trace
from ckptd.core.runs.meant_restarts import doubt_fresh_start
from ckptd.core.runs.ownership import is_last_save
from ckptd.core.runs.progress_pace import (
    REGULAR,
    TOLERANCE,
    ProgressPace,
    Unit,
    choose_unit,
    measure_pace,
    read_progress,
    seconds_between,
)
from ckptd.core.runs.rotated_copies import date_by_original, date_put_back, is_previous, order_names
from ckptd.core.runs.saved_state import SavedState

LATENESS = timedelta(minutes=1)  # after its attempt's end, by which a save may be dated; also between two attempts
SHORTEST = 0.4  # of the expected time, in which nothing gets as far
SURE_COUNT = 3  # checkpoints of an attempt, after which further ones do not show more of what it resumed from


class _Case(NamedTuple):
    """One attempt, and what is on record of its run."""

    attempt: Attempt
    attempts: Sequence[Attempt]
    found: Sequence[SavedState]
    there: Sequence[SavedState]  # when it started
    own: Sequence[SavedState]  # what it completed, oldest first


def find_resume(
    attempt: Attempt,
    attempts: Sequence[Attempt],
    states: Iterable[SavedState],
    *,
    is_read: bool = True,
    declared: str | None = None,
    reads: Sequence[CheckpointRead] = (),
) -> Resume:
    """Return what an attempt resumed from.

    `attempts` and `states` are those of the run, in any order. `is_read` says that the directory was read completely;
    if it was not, checkpoints may have existed that are not recorded. `declared` is the path that the job recorded with
    `ckptd resumed`; it is used unless the progress of the attempt's first checkpoint contradicts it. `reads` says which
    candidates were read since the start; it decides if progress does not.
    """
    found = _credit_late_saves(attempt, attempts, _choose_states(states))
    own = list_own_states(attempt, attempts, found)
    there = _list_there(found, attempt, own)
    case = _Case(attempt, attempts, found, there, own)
    inferred = _read_trace(case) or _infer(case, is_read=is_read)
    if inferred.is_fresh and inferred.reason is ResumeReason.PROGRESS:
        inferred = doubt_fresh_start(inferred, own[:SURE_COUNT], there, {each.job.job_id for each in attempts})
    if inferred.certainty is Certainty.PROVEN:
        return inferred
    if declared is None:
        return _refine(inferred, case, reads)
    said = declared_path.describe(declared, there)
    if declared_path.is_contradicted(said, inferred):
        return replace(inferred, evidence={**inferred.evidence, "declared": declared})
    return said


def _refine(inferred: Resume, case: _Case, reads: Sequence[CheckpointRead]) -> Resume:
    """Choose by access times what progress leaves open, and keep them for the next time."""
    if not reads:
        return inferred
    if case.own:
        inferred = candidate_reads.choose(inferred, reads, case.attempt.started_at, case.own[0].completed_at)
    return replace(inferred, reads=tuple(reads))


def list_own_states(
    attempt: Attempt, attempts: Iterable[Attempt], states: Iterable[SavedState]
) -> tuple[SavedState, ...]:
    """Return what an attempt completed, oldest first; copies of one save follow each other."""
    later = [each.started_at for each in attempts if each.started_at > attempt.started_at]
    until = None if attempt.ended_at is None else min([attempt.ended_at + LATENESS, *later])
    name = (attempt.job, attempt.restart_count)
    own = [
        each
        for each in states
        if each.completed_at > attempt.started_at
        and not _is_undated_copy(each)
        and (each.attempt == name or (each.attempt is None and (until is None or each.completed_at <= until)))
    ]
    return tuple(sorted(own, key=lambda each: (each.completed_at, each.path)))


def _is_undated_copy(state: SavedState) -> bool:
    """Whether it is a copy of a state that is not on record: no save of the attempt that made it."""
    return state.appeared_at == state.completed_at


def _choose_states(states: Iterable[SavedState]) -> list[SavedState]:
    """Return the resumable states; where the run has none, everything that it saves."""
    found = date_put_back(date_by_original(states))
    proven = [each for each in found if each.is_state]
    return proven or found


def _credit_late_saves(attempt: Attempt, attempts: Sequence[Attempt], found: Sequence[SavedState]) -> list[SavedState]:
    """Credit saves that are too far for an attempt that has only just started to the attempt that ended before it.

    Slurm states starts and ends in whole seconds, and a program that saves when it is asked to end may finish that
    save after the next attempt of its run has started, which then loads it.
    """
    before = [
        each
        for each in attempts
        if each.started_at < attempt.started_at and each.ended_at and abs(each.ended_at - attempt.started_at) < LATENESS
    ]
    if not before:
        return list(found)
    last = max(before, key=lambda each: each.started_at)
    assert last.ended_at is not None
    name = (last.job, last.restart_count)
    late = {
        each
        for each in found
        if each.attempt in {None, name}
        and each.completed_at > attempt.started_at
        and is_last_save(each.completed_at, last.ended_at, attempt.started_at)
    }
    there = _list_there(found, attempt, ())
    for each in list_own_states(attempt, attempts, found):
        if each not in late and not _is_too_far(each, attempt, attempts, found, there):
            break
        late.add(each)
    return [
        replace(each, attempt=name, appeared_at=each.appeared_at or attempt.started_at) if each in late else each
        for each in found
    ]


def _is_too_far(
    state: SavedState,
    attempt: Attempt,
    attempts: Sequence[Attempt],
    found: Sequence[SavedState],
    there: Sequence[SavedState],
) -> bool:
    """Whether an attempt cannot have computed a state by then, whatever it had loaded."""
    unit = choose_unit(state, there)
    pace = _measure_pace(attempt, attempts, found, (), unit) if unit and there else None
    if unit is None or pace is None:
        return False
    sources, may_be_fresh = there, True
    if state.continued_count is not None:
        if all(each.continued_count != state.continued_count for each in there):
            return False
        sources = [each for each in there if each.continued_count == state.continued_count - 1]
        may_be_fresh = state.continued_count == 0
    values = [value for each in sources if (value := read_progress(each, unit)) is not None]
    saved = read_progress(state, unit)
    assert saved is not None
    most = seconds_between(attempt, state.completed_at) / pace.seconds_per_unit / SHORTEST
    return all(not 0 <= saved - value <= most for value in [*values, *([0.0] if may_be_fresh else [])])


def _list_there(found: Iterable[SavedState], attempt: Attempt, own: Sequence[SavedState]) -> list[SavedState]:
    """Return the states that were on disk when an attempt started, of each path the last one.

    With them is what was put back before the attempt completed one of its `own`: a job may do that itself. A scan sees
    later that a file was overwritten, so that what it held before is on record until then. What was written completely
    only after the start replaces nothing: either may have been loaded.
    """
    newest: dict[tuple[str, bool], SavedState] = {}
    for each in sorted(found, key=lambda each: each.there_since):
        if _was_there(each, attempt) or (own and _was_put_back(each, attempt, own[0])):
            newest[each.path, max(each.there_since, each.completed_at) > attempt.started_at] = each
    return list(newest.values())


def _was_there(state: SavedState, attempt: Attempt) -> bool:
    is_own = state.attempt == (attempt.job, attempt.restart_count)
    return not is_own and state.there_since <= attempt.started_at and not _is_gone(state, attempt.started_at)


def _was_put_back(state: SavedState, attempt: Attempt, first: SavedState) -> bool:
    """Whether a state from before an attempt appeared between its start and its first own checkpoint."""
    return state.completed_at <= attempt.started_at < state.there_since <= first.completed_at


def _is_gone(state: SavedState, instant: datetime) -> bool:
    return state.deleted_at is not None and state.deleted_at <= instant


def _read_trace(case: _Case) -> Resume | None:
    """Return what the attempt's first checkpoint proves by the program's own count or ids; None if it proves nothing.

    It proves a start without a checkpoint, or that one of several was loaded. Progress may then show which of them.
    """
    attempt, attempts, _, there, own = case
    if not own or any(_overlap(attempt, other, own[0].completed_at) for other in attempts):
        return None
    trace = program_trace.read(own[0], there)
    if trace is None:
        return None
    evidence, possible = trace.evidence, trace.possible
    if trace.is_fresh:
        return Resume(certainty=Certainty.PROVEN, reason=ResumeReason.PROGRAM, evidence=evidence)
    if not possible:  # of a program that was continued from what is not on record
        return None
    candidates = tuple(each.candidate for each in sorted(possible, key=lambda each: (each.completed_at, each.path)))
    if len(candidates) == 1:
        [only] = candidates
        return Resume(
            certainty=Certainty.PROVEN,
            reason=ResumeReason.PROGRAM,
            path=only.path,
            saved_at=only.saved_at,
            evidence=evidence,
        )
    by_progress = _infer(case._replace(there=possible), is_read=True, may_start_fresh=False)
    if by_progress.is_known and by_progress.path is not None:
        return replace(by_progress, evidence={**evidence, **by_progress.evidence})
    left = by_progress.candidates if by_progress.reason is ResumeReason.AMBIGUOUS else candidates
    unknown = Resume(certainty=Certainty.UNKNOWN, reason=ResumeReason.PROGRAM, evidence=evidence, candidates=left)
    paths = {each.path for each in left}
    originals = [each for each in left if not is_previous(each.path, paths)]
    if len(originals) > 1:
        return unknown
    [only] = originals
    return replace(unknown, certainty=Certainty.INFERRED, path=only.path, saved_at=only.saved_at)


def _infer(case: _Case, *, is_read: bool, may_start_fresh: bool = True) -> Resume:
    attempt, attempts, found, there, own = case
    everything = tuple(each.candidate for each in sorted(there, key=lambda each: (each.completed_at, each.path)))
    unknown = Resume(
        certainty=Certainty.UNKNOWN, reason=ResumeReason.NOT_SAVED, candidates=everything, may_be_fresh=True
    )
    if not there and not is_read:
        return replace(unknown, reason=ResumeReason.NOT_READ)
    fresh = Resume(certainty=Certainty.INFERRED, reason=ResumeReason.EMPTY)
    if not own:
        return unknown if there else fresh
    first = own[0]
    if any(_overlap(attempt, other, first.completed_at) for other in attempts):
        return replace(unknown, reason=ResumeReason.CONCURRENT)
    unit = choose_unit(first, there)
    if unit is None:
        return replace(unknown, reason=ResumeReason.NO_PROGRESS) if there else fresh
    pace = _measure_pace(attempt, attempts, found, own, unit)
    if pace is None:
        return replace(unknown, reason=ResumeReason.NO_RATE) if there else fresh
    return _match(attempt, first, unit, pace, there, may_start_fresh=may_start_fresh)


def _overlap(attempt: Attempt, other: Attempt, until: datetime) -> bool:
    """Whether another attempt ran at the same time, so that what was saved may be its work."""
    if (other.job, other.restart_count) == (attempt.job, attempt.restart_count) or other.started_at >= until:
        return False
    return other.ended_at is None or other.ended_at - LATENESS > attempt.started_at


def _match(
    attempt: Attempt,
    first: SavedState,
    unit: Unit,
    pace: ProgressPace,
    there: Sequence[SavedState],
    *,
    may_start_fresh: bool,
) -> Resume:
    """Return which of the checkpoints that were there lies as far back as the attempt can have come since."""
    saved = read_progress(first, unit)
    assert saved is not None
    elapsed = seconds_between(attempt, first.completed_at)
    reach = _reach_of(pace, elapsed)
    values = [(value, each) for each in there if (value := read_progress(each, unit)) is not None]
    fitting = {value for value, _ in values if reach.least <= saved - value <= reach.most}
    is_fresh = may_start_fresh and _may_start_fresh(saved, elapsed, pace, reach.most)
    if reach.is_one_interval and len(fitting) + is_fresh > 1:
        fitting, is_fresh = _narrow(saved, pace, fitting, is_fresh=is_fresh)
    evidence = {
        "unit": unit,
        "first_saved": saved,
        "seconds_after_start": round(elapsed),
        "interval": pace.interval,
        "seconds_per_interval": round(pace.interval * pace.seconds_per_unit),
    }
    chosen = [each for value, each in values if value in fitting] if fitting or is_fresh else list(there)
    # what does not state its progress may be a copy of what fits
    chosen += [each for each in there if read_progress(each, unit) is None and each not in chosen]
    candidates = tuple(each.candidate for each in sorted(chosen, key=lambda each: (each.completed_at, each.path)))
    if len(fitting) + is_fresh != 1:
        return Resume(
            certainty=Certainty.UNKNOWN,
            reason=ResumeReason.AMBIGUOUS if fitting else ResumeReason.CONTRADICTION,
            evidence=evidence,
            candidates=candidates,
            may_be_fresh=is_fresh or not fitting,
        )
    if is_fresh:
        return Resume(certainty=Certainty.INFERRED, reason=ResumeReason.PROGRESS, evidence=evidence)
    paths = {each.path for each in there}
    loaded = max(
        (each for value, each in values if value in fitting),
        key=lambda each: (each.completed_at, not is_previous(each.path, paths), *order_names(each)),
    )
    return Resume(
        certainty=Certainty.INFERRED,
        reason=ResumeReason.PROGRESS,
        path=loaded.path,
        saved_at=loaded.completed_at,
        evidence={**evidence, "loaded": next(iter(fitting))},
        candidates=candidates,
        equals=tuple(sorted({each.path for value, each in values if value in fitting and _is_copy(each, loaded)})),
    )


def _is_copy(state: SavedState, other: SavedState) -> bool:
    """Whether one attempt saved both at the same progress, as `last.ckpt` beside what it is a copy of."""
    if state.path == other.path or state.is_state is not other.is_state:
        return False
    if state.attempt != other.attempt and (
        None not in {state.attempt, other.attempt} or abs(state.completed_at - other.completed_at) > LATENESS
    ):
        return False
    pairs = ((state.step, other.step), (state.epoch, other.epoch))
    return all(one is None or another is None or one == another for one, another in pairs)


class _Reach(NamedTuple):
    """How far an attempt can have come before its first save, in the run's unit of progress."""

    least: float
    most: float
    is_one_interval: bool  # a regular run had time for one interval and not for two


def _reach_of(pace: ProgressPace, elapsed: float) -> _Reach:
    fewest, most_seconds = pace.range_per_unit
    slow, usual = (
        max(elapsed - share * pace.startup_seconds, 0.0) / seconds
        for share, seconds in ((1 + TOLERANCE, most_seconds), (1 - TOLERANCE, pace.seconds_per_unit))
    )
    possible = elapsed / fewest  # startup may take no time: what the first one read is in caches now
    least = max((1 - TOLERANCE) * min(pace.interval, slow), TOLERANCE * pace.interval)
    most = (1 + TOLERANCE) * max(pace.interval, possible)
    may_save_at_once = usual < SHORTEST * pace.interval and not pace.saves_after_an_interval
    if possible < SHORTEST * pace.interval:  # too soon for an interval: it saved what it had loaded, or little more
        least, most = 0.0, possible / SHORTEST
    elif may_save_at_once:
        least = 0.0
    return _Reach(least, most, pace.is_regular and not may_save_at_once and slow <= 2 * pace.interval)


def _may_start_fresh(saved: float, elapsed: float, pace: ProgressPace, most: float) -> bool:
    """Whether a start from the beginning gets that far in that time; the first one of the run shows how far."""
    if pace.first is None:
        return saved <= most
    progress, seconds = pace.first
    if elapsed < SHORTEST * max(seconds - pace.startup_seconds, 0.0):
        return False
    since = max(elapsed - seconds, 0.0) / pace.seconds_per_unit
    return saved <= progress + (1 + TOLERANCE) * since + TOLERANCE * pace.interval


def _narrow(saved: float, pace: ProgressPace, fitting: set[float], *, is_fresh: bool) -> tuple[set[float], bool]:
    """Return what lies exactly one interval back, where the run saves at regular progress; all where nothing does."""
    slack = REGULAR * pace.interval
    exact = {value for value in fitting if abs(saved - value - pace.interval) <= slack}
    begins = pace.first[0] if pace.first else pace.interval
    is_first = is_fresh and abs(saved - begins) <= slack
    return (exact, is_first) if exact or is_first else (fitting, is_fresh)


def _measure_pace(
    attempt: Attempt, attempts: Sequence[Attempt], found: Sequence[SavedState], own: Sequence[SavedState], unit: Unit
) -> ProgressPace | None:
    """Return how the run gets on; None where nothing tells."""
    earlier = (
        (each, list_own_states(each, attempts, found))
        for each in sorted(attempts, key=lambda each: each.started_at)
        if (each.job, each.restart_count) != (attempt.job, attempt.restart_count)
    )
    return measure_pace(attempt, own, earlier, lambda each: not any(_was_there(state, each) for state in found), unit)
