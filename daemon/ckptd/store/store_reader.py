"""Everything that commands read of the database: the parts of `Store` that only read, without SQLAlchemy."""

from collections.abc import Iterator
from contextlib import contextmanager

from ckptd.store.audit_rows import AuditReader
from ckptd.store.end_rows import EndReader
from ckptd.store.histories import HistoryReader
from ckptd.store.light_reader import LightReader
from ckptd.store.listing_readers import ClusterReader, FlagReader, JobReader
from ckptd.store.loss_rows import LossReader
from ckptd.store.lost_work_sums import LostWorkSumReader
from ckptd.store.mention_rows import MentionReader
from ckptd.store.notice_rows import NoticeReader
from ckptd.store.prunable_runs import PrunableRunReader
from ckptd.store.read_parts import Readable, Snapshot
from ckptd.store.run_rows import RunReader


class StoreReader:
    """One database, one attribute for each kind of record that is read."""

    def __init__(self, database: Readable) -> None:
        self.audit = AuditReader(database)
        self.clusters = ClusterReader(database)
        self.flags = FlagReader(database)
        self.histories = HistoryReader(database)
        self.jobs = JobReader(database)
        self.lost_work = LossReader(database)
        self.lost_work_sums = LostWorkSumReader(database)
        self.mentions = MentionReader(database)
        self.notices = NoticeReader(database)
        self.prune_records = PrunableRunReader(database)
        self.restart_state = EndReader(database)
        self.runs = RunReader(database)


@contextmanager
def read_snapshot(reader: LightReader) -> Iterator[StoreReader]:
    """Read everything in one transaction: the database as it is now."""
    with reader.begin() as select:
        yield StoreReader(Snapshot(select))
