"""Compares what the ledger says that attempts have lost with what they lost in the made-up world."""

from dataclasses import dataclass, field

from ckptd.core.model import JobState
from simulation.run_truth import HOUR


@dataclass
class LostWork:
    """Sums in seconds, of the attempts of runs whose directory is known."""

    true_unsaved: float = 0.0
    true_redone: float = 0.0
    unsaved: float = 0.0
    redone: float = 0.0  # at least
    off: float = 0.0  # by how much single attempts are wrong, summed without sign
    outside_count: int = 0  # attempts whose redone work is outside the bounds that are given, by more than one interval
    unknown_count: int = 0  # attempts of which no bound is given
    attempt_count: int = 0
    unclaimed: float = 0.0  # work that was lost where nobody knows where the job saves: nothing is said of it
    worst: list = field(default_factory=list)

    @property
    def true_total(self):
        return self.true_unsaved + self.true_redone

    @property
    def error(self):
        return abs(self.unsaved + self.redone - self.true_total) / self.true_total if self.true_total else 0.0


def measure(watch):
    """Return how the ledger did. Where jobs run at the same time nobody can tell whose work it is: left out."""
    result = LostWork()
    for watched in watch.watched:
        run = watched.run
        if run.kind in {"shares", "array-outputs"}:
            continue
        for number, execution in enumerate(run.executions):
            truth = true_loss(run, number)
            told = watched.lost.get((execution.job_id, execution.restart_count))
            if told is None:
                result.unclaimed += sum(truth)
            else:
                _add(result, watched, execution, truth, told)
    return result


def _add(result, watched, execution, truth, told):
    unsaved, low, high = told
    result.attempt_count += 1
    result.true_unsaved += truth[0]
    result.true_redone += truth[1]
    result.unsaved += unsaved
    result.redone += low or 0.0
    result.unknown_count += low is None
    off = abs(unsaved - truth[0]) + abs((low or 0.0) - truth[1])
    result.off += off
    slack = watched.run.interval
    if low is not None and not low - slack <= truth[1] <= high + slack:
        result.outside_count += 1
    if off > HOUR / 2:
        result.worst.append((watched.run, execution, truth, told))


def true_loss(run, number):
    """Return how many seconds of work an execution did not save, and how many of those that it saved were done again.

    Saved work is done again once a later execution has saved something that does not build on it.
    """
    execution = run.executions[number]
    if execution.state is JobState.COMPLETED:
        return 0.0, 0.0
    own = [w for w in _list_own(run, number) if w.gone > execution.end]
    saved_at = max((w.end for w in own), default=execution.start)
    unsaved = worked(execution, saved_at, execution.end)
    if not own:
        return unsaved, 0.0
    later = range(number + 1, len(run.executions))
    used = [_used_until(run, number, other) for other in later if _list_own(run, other)]
    if not used:
        return unsaved, 0.0
    return unsaved, worked(execution, max(*used, execution.start), saved_at)


def worked(execution, since, until):
    pause = execution.suspended
    idle = max(min(until, pause[1]) - max(since, pause[0]), 0.0) if pause else 0.0
    return max(until - since - idle, 0.0)


def _list_own(run, number):
    """Return what an execution completed; of a run without states what it wrote."""
    return [write for write in run.saves or run.writes if write.execution == number and write.is_whole]


def _used_until(run, number, later):
    """Return the instant up to which a later execution builds on one's work, through those between."""
    loaded = run.executions[later].loaded
    while loaded is not None and loaded.execution > number:
        loaded = run.executions[loaded.execution].loaded
    return loaded.end if loaded is not None and loaded.execution == number else 0.0
