"""Records a job's checkpoint directory once it is found, with the job's run, user settings and lost work."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from ckptd.core.model import NamedLocation, RunKey
from ckptd.core.model.records import LocationRecord, RevisionRise
from ckptd.core.runs.history import EPOCH
from ckptd.store import checkpoint_writers, locations, lost_work, restart_state, runs
from ckptd.store.revision_rises import list_rises, lock_revisions
from ckptd.store.transactions import StorePart, reading


class LocatedRunStore(StorePart):
    """Runs whose directory has been found."""

    def record(self, found: Collection[LocationRecord], now: datetime) -> dict[RunKey, RevisionRise]:
        """Assign jobs to the runs of the directories that were found for them; record new runs.

        Attempts that have not ended, or that ended while their job had no directory, move with the job; those that
        ended in another directory stay there. Flags and notices of a run without a directory move with it. If a run
        continues in another directory, everything moves except the checkpoints. Return the runs that were on record
        before and whose checkpoints are as they were, with their revisions.
        """
        if not found:
            return {}
        with self.database.writing() as connection:
            before = lock_revisions(connection, runs.find_runs(connection, {each.run for each in found}).values())
            return list_rises(connection, before, without=_record(connection, found, now))

    @reading
    def read_copies(self, connection: sa.Connection, cluster: str) -> dict[RunKey, tuple[NamedLocation, ...]]:
        """Return the further locations of every run of a cluster that has any."""
        return locations.read_all(connection, cluster)


def _record(connection: sa.Connection, found: Collection[LocationRecord], now: datetime) -> set[int]:
    """Record locations; return the runs whose checkpoints changed."""
    absorbing = runs.assign_runs(connection, found, now)
    locations.record_copies(connection, found, now)
    rows = runs.find_runs(connection, {each.run for each in found})
    settings = [
        (rows[each.run], each.settings_directory, each.user_settings)
        for each in found
        if each.user_settings is not None
    ]
    restart_state.record_user_settings(connection, settings)
    joined = {rows[each.run] for each in found if each.jobs or each.continues}
    rewritten = checkpoint_writers.correct_writers(connection, joined)
    continued = {rows[each.run] for each in found if each.continues}
    lost_work.reopen_since(connection, continued, EPOCH)  # earlier starts may have saved there, too
    lost_work.write_lines(connection, joined)
    return absorbing | rewritten
