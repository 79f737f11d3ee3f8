"""What looks at a run's checkpoint directory show, and when one may show something new."""

from datetime import datetime
from pathlib import PurePosixPath
from zlib import crc32

from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Level, Role, RunKey, Scan, Unknown
from simulation.polls import TICK, at_tick, first_tick, instant
from simulation.queue import CLUSTER, UID
from simulation.run_truth import GIGABYTE, MINUTE, Run

AFTER_BEGIN, AFTER_END = 1, 2  # seconds until the kernel's word of a save brings a look


class Directory:
    """The directory of one run. Looks are made in the order of time."""

    def __init__(self, run: Run):
        self._run = run
        self._path = PurePosixPath(f"/scratch/alice/{run.number}")
        self._located = RunKey(CLUSTER, UID, str(self._path))
        self._unlocated = RunKey(CLUSTER, UID, f"job:{run.executions[0].job_id}@{instant(run.start).isoformat()}")
        self.is_found = run.located_by != "discovery"
        self._made = {}  # each state of a checkpoint is made once
        self._begun_count = 0
        self._there = []  # the writes of those begun whose files were not gone when looked at last

    @property
    def key(self) -> RunKey:
        return self._located if self.is_found else self._unlocated

    def look(self, now: float) -> Scan | Unknown:
        """Return what a look shows. A search finds the directory once something was written there."""
        run = self._run
        if not self.is_found and run.writes and now >= run.writes[0].begin:
            self.is_found = True
        if not self.is_found:
            return Scan(directory=self._path, scanned_at=instant(now), checkpoints=())
        if run.unreadable and run.unreadable[0] <= now < run.unreadable[1]:
            return Unknown(what=self.key.directory, reason="it did not answer in time")
        while self._begun_count < len(run.writes) and run.writes[self._begun_count].begin <= now:
            self._there.append(run.writes[self._begun_count])
            self._begun_count += 1
        self._there = [write for write in self._there if now < write.gone]
        is_full = run.free_drops_at is not None and now >= run.free_drops_at
        return Scan(
            directory=self._path,
            scanned_at=instant(now),
            checkpoints=tuple(self._checkpoint(write, now) for write in self._there),
            leftovers=tuple(write.name for write in self._there if write.is_leftover),
            free_bytes=run.size if is_full else 1000 * GIGABYTE,
            total_bytes=10_000 * GIGABYTE,
            filesystem_type="lustre",
        )

    def last_read_at(self, moment: float) -> datetime:
        """Return when it was read last before a moment: it is read at every tick, unless it does not answer."""
        hidden = self._run.unreadable
        tick = int(moment // TICK)
        if hidden and hidden[0] <= tick * TICK < hidden[1]:
            tick = first_tick(hidden[0]) - 1
        return at_tick(tick)

    def _checkpoint(self, write, now):
        state = CheckpointState.COMPLETE if write.is_whole else CheckpointState.DAMAGED
        changed = write.end
        is_rotten = write.corrupt_from is not None and now >= write.corrupt_from
        if now < write.end or (not write.is_whole and now < write.end + MINUTE):
            state, changed = CheckpointState.WRITING, min(now, write.end)
        elif is_rotten:
            state = CheckpointState.DAMAGED
        known = self._made.get((write.name, state, changed))
        if known is None:
            known = self._made[write.name, state, changed] = Checkpoint(
                path=self._path / write.name,
                format="numpy" if write.role is Role.DATA else "torch",
                role=write.role,
                files=(write.name,),
                identities=(FileIdentity(1, crc32(write.name.encode()), write.size, int(changed * 1e9)),),
                owner_uids=frozenset({UID}),
                size_bytes=write.size,
                modified_at=instant(changed if write.modified is None else write.modified),
                state=state,
                reason=None if state is not CheckpointState.DAMAGED else "cut off",
                level=Level.FULL if is_rotten else Level.STRUCTURE,
                step=write.step if write.shown_step is None else write.shown_step,
                metrics={} if write.value is None else {"val_loss": write.value},
                goal_step=int(self._run.work) if self._run.states_goal else None,
            )
        return known


def is_same(before: Scan, after: Scan) -> bool:
    """Whether a look saw what the one before it saw."""
    if len(before.checkpoints) != len(after.checkpoints) or before.leftovers != after.leftovers:
        return False
    return all(one is other for one, other in zip(before.checkpoints, after.checkpoints, strict=True))


def list_turns(run: Run) -> set[int]:
    """Return the ticks at which a look may show something new: while a save goes on that is every one."""
    moments = [*(run.unreadable or ())]
    moments += [run.free_drops_at] if run.free_drops_at is not None else []
    ticks = set()
    for write in run.writes:
        ticks.update(range(first_tick(write.begin), first_tick(write.end) + 1))
        moments += [write.end + AFTER_END] if run.has_inotify else []
        moments += [write.end + MINUTE] if not write.is_whole else []
        moments += [write.corrupt_from] if write.corrupt_from is not None else []
        moments += [write.gone] if write.gone < float("inf") else []
    return ticks.union(map(first_tick, moments))
