"""Reads jobs, flags and the status of clusters."""

from collections import ChainMap
from datetime import datetime

from ckptd.core.model import Flag, RunKey
from ckptd.core.model.records import ClusterStatus, JobRow
from ckptd.core.rows.text_escapes import encode_text
from ckptd.store import plain_reads
from ckptd.store.plain_reads import DecodedFlags, Select
from ckptd.store.plain_rows import decode_any
from ckptd.store.read_parts import Readable, ReadPart, selecting
from ckptd.store.run_rows import find_runs

NO_RUN = 0  # the number of no row


class ClusterReader(ReadPart):
    """Clusters: when they were polled and scanned, and by which daemon."""

    @selecting
    def read_status(self, select: Select) -> tuple[ClusterStatus, ...]:
        """Return the status of each cluster, by name."""
        return plain_reads.read_status(select)


class FlagReader(ReadPart):
    """Open and resolved flags."""

    def __init__(self, database: Readable) -> None:
        super().__init__(database)
        self._decoded: dict[str | None, DecodedFlags] = {}  # of all runs, by the cluster that they were read of

    @selecting
    def read(
        self,
        select: Select,
        cluster: str | None = None,
        *,
        include_resolved: bool = False,
        run: RunKey | None = None,
    ) -> tuple[Flag, ...]:
        """Return flags, oldest first; None for a cluster or run means all.

        Open flags of all runs are read again and again: those whose rows did not change are the same objects each time.
        """
        if run is not None or include_resolved:
            run_id = None if run is None else find_runs(select, [run]).get(run, NO_RUN)
            return plain_reads.read_flags(select, cluster=cluster, include_resolved=include_resolved, run_id=run_id)
        known = ChainMap(*self._decoded.values())
        decoded = plain_reads.read_open_flags(select, cluster, known)
        self._decoded = {**self._decoded, cluster: decoded}
        return tuple(flag for _, flag in decoded.values())


class JobReader(ReadPart):
    """Jobs that have started."""

    @selecting
    def list_open(
        self,
        select: Select,
        now: datetime,
        *,
        cluster: str | None = None,
        user: str | None = None,
        flagged_only: bool = False,
    ) -> tuple[JobRow, ...]:
        """Return the jobs that have started and not ended, with the time left at `now`."""
        return plain_reads.list_jobs(select, now, cluster=cluster, user=user, flagged_only=flagged_only)

    @selecting
    def read_directories(self, select: Select, cluster: str) -> dict[int, str]:
        """Return the known checkpoint directories of the jobs in the queue, by job id."""
        statement = """
            SELECT j.job_id, r.directory FROM jobs j JOIN runs r ON j.run_id = r.id
            WHERE j.cluster = :cluster AND j.in_queue
        """
        rows = select(statement, {"cluster": encode_text(cluster)})
        return {job_id: decode_any(directory) for job_id, directory in rows if directory.startswith("/")}
