"""Lists the open jobs again and again, and reads only of changed runs what they have saved."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ckptd.core.model.records import JobRow
from ckptd.store import plain_reads
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import list_numbers
from ckptd.store.read_parts import Readable
from ckptd.store.row_values import split


class OpenJobs:
    """The jobs that have started and not ended. Use it in one thread at a time.

    Most of the work of a listing is to sum up what each run has saved over all of its checkpoints. The sum is kept with
    the revision of the run, which rises with each change.
    """

    def __init__(self, database: Readable) -> None:
        self._database = database
        self._saved: dict[int, tuple[int | None, Sequence[Any] | None]] = {}  # by run: its revision, and the row

    def list(self, now: datetime) -> tuple[JobRow, ...]:
        """Return the jobs, by cluster and job id, with the time left at `now`."""
        with self._database.selecting() as select:
            return plain_reads.list_jobs(select, now, read_saved=self._read_saved)

    def _read_saved(self, select: Select, runs: str, values: Mapping[str, object]) -> dict[int, Sequence[Any]]:
        rows = select(f"SELECT r.id, r.revision FROM runs r WHERE r.id IN ({runs})", values)  # noqa: S608
        revisions = {int(row_id): int(revision) for row_id, revision in rows}
        known = {row_id: self._saved.get(row_id, (None, None)) for row_id in revisions}
        changed = [row_id for row_id, revision in revisions.items() if known[row_id][0] != revision]
        for chunk in split(changed):
            found = plain_reads.read_saved(select, list_numbers(chunk), {})
            known |= {row_id: (revisions[row_id], found.get(row_id)) for row_id in chunk}
        self._saved = known
        return {row_id: row for row_id, (_, row) in known.items() if row is not None}
