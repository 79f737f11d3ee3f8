"""The tracked jobs of single runs, from the queue as of the last poll, which is sorted once for all owners' scans."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ckptd.core.model import RunKey
from ckptd.core.queue import TrackedJob
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import State


@dataclass(slots=True)
class _SortedJobs:
    """State of this module alone: a queue and its jobs by run, replaced together."""

    found: tuple[PolledQueue, Mapping[RunKey | None, list[TrackedJob]]] = field(
        default_factory=lambda: (PolledQueue(), {})
    )


def list_tracked(state: State, run: RunKey) -> Sequence[TrackedJob]:
    """Return the tracked jobs of a run."""
    queue, memory = state.latest(PolledQueue), state.own(_SortedJobs, _SortedJobs)
    known, by_run = memory.found
    if known is not queue:
        by_run = defaultdict(list)
        for each in queue.tracked.values():
            by_run[each.run].append(each)
        memory.found = queue, by_run
    return by_run.get(run, ())
