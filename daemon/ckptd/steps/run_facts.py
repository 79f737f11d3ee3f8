"""What was seen over several polls and scans, gathered for the rules; a new start reads it from the record again."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta

from ckptd.core.model import (
    Attempt,
    EndCause,
    Hold,
    InterruptionTally,
    JobKey,
    RoomSample,
    RunKey,
    RunRecord,
    Scan,
)
from ckptd.core.queue import TrackedJob
from ckptd.core.runs import observations
from ckptd.core.runs.interruptions import Owner, Pool
from ckptd.core.runs.observations import EndTally, Learned

ROOM_GAP = timedelta(minutes=10)  # between two samples of the room that are kept
ROOM_COUNT = 18


class Seen:
    """Gathers facts for rules. It holds no clock; all of it can be had again from `Learned`."""

    def __init__(self, learned: Learned | None = None) -> None:
        learned = learned or Learned()
        self._room = dict(learned.room)
        self._holds: dict[JobKey, Hold] = {}
        for key, hold in learned.holds:
            self.note_hold(key, hold)
        self.take_ends(learned.ends)

    def take_ends(self, ends: Iterable[EndTally]) -> None:
        """Count ends anew from the record: neither limits nor what users and operators did break work off."""
        self._interruptions: dict[int, dict[Owner, InterruptionTally]] = {}  # by size and owner
        self._pools: dict[int, Pool] = {}  # by size, until the next end
        self._preempted: Counter[str] = Counter()
        for tally in ends:
            self._add(tally)

    def note_ended(
        self,
        attempts: Iterable[Attempt],
        before: Iterable[Attempt] = (),
        *,
        owner_of: Callable[[JobKey], Owner] = lambda _: None,
    ) -> None:
        """Count attempts that ended; `before` are those among them as they were counted until now, if they were."""
        for attempt in before:
            if attempt.ended_at is not None:
                self._add(observations.tally_of(attempt, -1, owner_of(attempt.job)))
        for attempt in attempts:
            if attempt.ended_at is not None:
                self._add(observations.tally_of(attempt, 1, owner_of(attempt.job)))

    def _add(self, tally: EndTally) -> None:
        size = observations.size_class(tally.node_count)
        by_owner = self._interruptions.setdefault(size, {})
        by_owner[tally.uid] = observations.add_tally(by_owner.get(tally.uid, observations.NOTHING), tally)
        self._pools.pop(size, None)
        if tally.cause is EndCause.PREEMPTION and tally.partition:
            self._preempted[tally.partition] += tally.attempt_count

    def sample_room(self, key: RunKey, scan: Scan) -> tuple[RoomSample, ...] | None:
        """Return the samples of the room with this look's as the last; None where it comes too soon, or tells none."""
        if scan.room_bytes is None or scan.quota_trouble is not None:  # a quota unseen once would look like a fall
            return None
        samples = self._room.get(key, ())
        if samples and abs(scan.scanned_at - samples[-1].at) < ROOM_GAP:
            return None
        earlier = [sample for sample in samples if sample.at < scan.scanned_at]  # a clock may be set back
        return (*earlier, RoomSample(scan.scanned_at, scan.room_bytes))[-ROOM_COUNT:]

    def note_room(self, key: RunKey, samples: tuple[RoomSample, ...]) -> None:
        """Note the samples of the room at a run's directory."""
        self._room[key] = samples

    def note_hold(self, key: JobKey, hold: Hold) -> None:
        """Note that a job is held; what earlier holds broke off stays so."""
        broken_off = hold.broken_off
        if known := self._holds.get(key):
            broken_off |= known.broken_off
        self._holds[key] = hold._replace(broken_off=broken_off)

    def note_released(self, jobs: Iterable[TrackedJob]) -> None:
        """Note which jobs were let go on from a hold, unless they were held again since."""
        for known in jobs:
            hold = self._holds.get(known.key)
            if known.released_restart is not None and (hold is None or hold.next_restart <= known.released_restart):
                self.note_hold(known.key, Hold(known.released_restart))

    def keep(self, keys: Iterable[RunKey]) -> None:
        """Forget all other runs."""
        wanted = set(keys)
        self._room = {key: value for key, value in self._room.items() if key in wanted}

    def list_room(self, key: RunKey) -> tuple[RoomSample, ...]:
        """Return the samples of the free space at a run's directory, oldest first."""
        return self._room.get(key, ())

    def find_holds(self, attempts: Iterable[Attempt]) -> dict[JobKey, Hold]:
        """Return the latest hold of each job of these attempts that was held."""
        return {each.job: self._holds[each.job] for each in attempts if each.job in self._holds}

    def is_preempted(self, partition: str) -> bool:
        """Whether jobs of a partition have been preempted."""
        return self._preempted[partition] > 0

    def find_interruptions(self, history: RunRecord) -> InterruptionTally | None:
        """Return what interrupted jobs of a run's size on its cluster; None where none of them has ended."""
        size = observations.size_class(max((job.node_count for job in history.jobs), default=1))
        if size not in self._interruptions:
            return None
        if size not in self._pools:
            self._pools[size] = Pool(self._interruptions[size])
        return self._pools[size].of(history.key.uid)
