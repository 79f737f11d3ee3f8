"""Directories that became known: with them go a job's run, its owner's wishes, and the ledger of what it lost."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from ckptd.core.model.records import Located
from ckptd.store import checkpoint_writers, lost_work, restart_state, runs
from ckptd.store.transactions import Noun, writing_if_any


class LocatedRunStore(Noun):
    """Runs whose directory became known."""

    @writing_if_any
    def record(self, connection: sa.Connection, found: Collection[Located], now: datetime) -> None:
        """Make jobs part of the runs of the directories that were found; new runs are recorded here.

        Attempts that have not ended, or that ended while their job had no directory, move with the job; those that
        ended in another directory stay there. Flags and notices of a run that was only a name for the job follow it.
        """
        runs.assign_runs(connection, found, now)
        rows = runs.find_runs(connection, {each.run for each in found})
        told = [(rows[each.run], each.wished_in, each.wishes) for each in found if each.wishes is not None]
        restart_state.record_wishes(connection, told)
        joined = {rows[each.run] for each in found if each.jobs}
        checkpoint_writers.correct_writers(connection, joined)
        lost_work.write_lines(connection, joined)
