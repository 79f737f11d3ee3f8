"""Runs with parts on several clusters: which cluster acts for each, and what one part learns of the others."""

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from ckptd.core.model import Job, RunKey
from ckptd.store import adopted_checkpoints, checkpoints, lost_work, resumed_from, runs
from ckptd.store.engine import select_through
from ckptd.store.run_parts import list_joined, read_latest_starts, read_running
from ckptd.store.transactions import StorePart, reading, writing


class SharedRun(NamedTuple):
    """A run of one cluster that has attempts on others, too."""

    key: RunKey
    row_id: int
    acting: str  # the cluster whose daemon acts for it
    others: tuple[tuple[int, int], ...]  # row ids and revisions of the other parts
    writers: tuple[tuple[Job, str], ...] = ()  # jobs that run there, with their users

    @property
    def is_elsewhere(self) -> bool:
        """Whether another cluster's daemon acts for it."""
        return self.acting != self.key.cluster


class JoinedRunStore(StorePart):
    """Runs with parts on several clusters."""

    @reading
    def read(self, connection: sa.Connection, cluster: str) -> tuple[SharedRun, ...]:
        """Return the runs of a cluster that have attempts on another that shares their directory."""
        select = select_through(connection)
        joined = list_joined(select, cluster)
        latest = read_latest_starts(select, {part.row_id for each in joined for part in (each.own, *each.others)})
        found: list[SharedRun] = []
        for each in joined:
            if acting := each.find_acting(latest):
                revisions = tuple((part.row_id, part.revision) for part in each.others if part.row_id in latest)
                found.append(SharedRun(each.key, each.own.row_id, acting, revisions))
        writers = read_running(select, {row_id for each in found for row_id, _ in each.others})
        return tuple(
            each._replace(writers=tuple(job for row_id, _ in each.others for job in writers[row_id])) for each in found
        )

    @writing
    def follow(
        self,
        connection: sa.Connection,
        acting: Collection[int],
        left: Collection[int],
        parted: Collection[int] = (),
        *,
        is_first: bool = False,
    ) -> None:
        """Bring runs of this cluster up to date after their other parts changed.

        For those in `acting` this cluster acts, for those in `left` another one; those in `parted` have no other parts
        any more. Only rows of these runs change. With `is_first`, nobody has read them yet, and the revision rises only
        if they changed themselves: after a restart, no directory must be read again because of it.
        """
        everything = [*acting, *left, *parted]
        adopted = adopted_checkpoints.adopt(connection, acting, checkpoints.GONE_COUNT)
        runs.assign_kinds(connection, everything)
        runs.touch_runs(connection, adopted if is_first else [*acting, *parted])
        resumed_from.record_resumes(connection, acting)
        lost_work.write_lines(connection, everything)
        lost_work.write_redone(connection, everything)
