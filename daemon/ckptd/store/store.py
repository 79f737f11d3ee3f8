"""The database: core values in, core values out, one short transaction per call.

If the daemon is killed, completed transactions stay and the one in progress is rolled back. Every call raises
StoreError if the database fails.
"""

from collections.abc import Callable
from functools import partial
from typing import Self

from ckptd.store import database_errors, engine, leases, schema
from ckptd.store.audit import AuditStore
from ckptd.store.backfill import BackfillStore
from ckptd.store.checkpoints import CheckpointStore
from ckptd.store.claims import ClaimStore
from ckptd.store.clusters import ClusterStore
from ckptd.store.comparisons import ComparisonStore
from ckptd.store.continuity import Continuity
from ckptd.store.declared_shares import DeclaredShareStore
from ckptd.store.ended_runs import EndedRunStore
from ckptd.store.expiry import ExpiryStore
from ckptd.store.flags import FlagStore
from ckptd.store.histories import HistoryReader
from ckptd.store.jobs import JobStore
from ckptd.store.joined_runs import JoinedRunStore
from ckptd.store.leases import LeaseStore
from ckptd.store.located_runs import LocatedRunStore
from ckptd.store.lost_work import LostWorkStore
from ckptd.store.lost_work_sums import LostWorkSumReader
from ckptd.store.mentions import MentionStore
from ckptd.store.notice_rows import NoticeReader
from ckptd.store.outbox import OutboxStore
from ckptd.store.prune_records import PruneRecordStore
from ckptd.store.restart_state import RestartStateStore
from ckptd.store.runs import RunStore
from ckptd.store.settled_scans import SettledScanStore
from ckptd.store.store_reader import StoreReader
from ckptd.store.summed_checkpoints import SummedCheckpointStore
from ckptd.store.summed_days import SummedDayStore
from ckptd.store.topic_counts import TopicCountStore
from ckptd.store.transactions import Database
from ckptd.store.verification_tickets import VerificationTicketStore


class Store(StoreReader):
    """One database, one attribute for each module of this package. `Store.open` checks that its tables are current."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.audit: AuditStore = AuditStore(database)
        self.backfill = BackfillStore(database)
        self.checkpoints = CheckpointStore(database)
        self.claims = ClaimStore(database)
        self.clusters: ClusterStore = ClusterStore(database)
        self.comparisons = ComparisonStore(database)
        self.declared_shares = DeclaredShareStore(database)
        self.ended_runs = EndedRunStore(database)
        self.expiry = ExpiryStore(database)
        self.flags: FlagStore = FlagStore(database)
        self.histories = HistoryReader(database)
        self.jobs: JobStore = JobStore(database)
        self.joined_runs = JoinedRunStore(database)
        self.leases = LeaseStore(database)
        self.located_runs = LocatedRunStore(database)
        self.lost_work: LostWorkStore = LostWorkStore(database)
        self.lost_work_sums = LostWorkSumReader(database)
        self.mentions: MentionStore = MentionStore(database)
        self.notices = NoticeReader(database)
        self.outbox = OutboxStore(database)
        self.prune_records: PruneRecordStore = PruneRecordStore(database)
        self.restart_state: RestartStateStore = RestartStateStore(database)
        self.runs: RunStore = RunStore(database)
        self.settled_scans = SettledScanStore(database)
        self.summed_checkpoints = SummedCheckpointStore(database)
        self.summed_days = SummedDayStore(database)
        self.topic_counts = TopicCountStore(database)
        self.verification_tickets = VerificationTicketStore(database)

    @classmethod
    def open(cls, url: str, *, upgrade: bool = False, read_password: Callable[[], str] | None = None) -> Self:
        """Open a database; with `upgrade`, create or upgrade its tables first. See `engine.create_engine`.

        Raises:
            SchemaError: its tables are older (without `upgrade`) or newer than this version's.
            StoreError: it cannot be reached, or the address is invalid.

        """
        database = engine.create_engine(url, read_password)
        try:
            if upgrade:
                schema.upgrade(database)
            schema.check(database)
        except database_errors.StoreError:
            database.dispose()
            raise
        return cls(Database(database))

    def with_lease(self, cluster: str, epoch: int, continuity: Continuity | None = None) -> "Store":
        """Return the same database for the holder of a lease: its writes fail after another process took the lease.

        With the `continuity` of the term, they also fail in a database that took the place of this one.
        """
        fence = partial(leases.check_epoch, cluster=cluster, epoch=epoch, continuity=continuity)
        return Store(self.database.with_fence(fence, epoch))

    def close(self) -> None:
        """Close every connection; a later call opens new ones. A forked child must use new connections."""
        self.database.close()
