"""The record: core values in, core values out, one short transaction per call.

Every step of a cycle that writes is one transaction, so that a daemon killed at any point leaves the steps before it
whole and the one it was in undone. Any call raises StoreError where the database does not do it.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from datetime import date, datetime, timedelta
from typing import Self

import sqlalchemy as sa

from ckptd.core.discovery.nearby_candidates import Neighbour
from ckptd.core.discovery.path_mentions import JobMentions
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import (
    Attempt,
    Evidence,
    Flag,
    Job,
    JobKey,
    RecordedCheckpoint,
    RunHistory,
    RunKey,
    Unknown,
)
from ckptd.core.model.records import (
    AuditEntry,
    ClusterStatus,
    Daemon,
    EndedRun,
    Expired,
    JobRow,
    Located,
    Look,
    PrunableRun,
)
from ckptd.core.notices import Held, Notice, Recipient, Tally, Told
from ckptd.core.notices.outbox import Claim, NoticeState, Outbox, Outcome
from ckptd.core.queue import JobChanges, TrackedJob
from ckptd.core.queue.backfill import OnRecord, Plan
from ckptd.core.queue.poll_gaps import Gap
from ckptd.core.retention import SeenLinks
from ckptd.core.runs.lost_work import LedgerLine, LossKey, LossTotal
from ckptd.core.runs.observations import EndTally, Learned
from ckptd.core.runs.ownership import Known
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.store import (
    audit,
    backfill,
    checkpoints,
    claims,
    clusters,
    ended_runs,
    engine,
    errors,
    expiry,
    flags,
    jobs,
    located_runs,
    lost_work,
    mentions,
    outbox,
    plain_reads,
    prune_records,
    restart_state,
    runs,
    schema,
    topic_counts,
)
from ckptd.store.engine import select_through
from ckptd.store.histories import Histories

NO_RUN = 0  # the number of no row
WHOLE_HELD_COUNT = 100_000  # checkpoints that pruning may keep in memory


class Store:
    """One database. `Store.open` gives one whose tables are this program's."""

    def __init__(self, database: sa.Engine) -> None:
        self._engine = database
        self._histories = Histories()
        self._whole_histories = Histories(held_count=WHOLE_HELD_COUNT, is_whole=True)
        self._mentions = mentions.KnownMentions()

    @classmethod
    def open(cls, url: str, *, upgrade: bool = False) -> Self:
        """Open a database; with `upgrade` make or upgrade its tables first.

        Raises:
            SchemaError: its tables are older (without `upgrade`) or newer than this program's.
            StoreError: it cannot be reached or the address is none.

        """
        database = engine.create_engine(url)
        try:
            if upgrade:
                schema.upgrade(database)
            schema.check(database)
        except errors.StoreError:
            database.dispose()
            raise
        return cls(database)

    def close(self) -> None:
        """Close every connection; a later call opens new ones, which a child process must do."""
        self._engine.dispose()

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        return engine.begin(self._engine, is_writer=False)

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        return engine.begin(self._engine, is_writer=True)

    # what a cycle observes

    def read_tracked(self, cluster: str) -> dict[int, TrackedJob]:
        """Return the jobs on record that the queue may still show, by job id. `queue.apply` keeps them up to date.

        `last_seen_at` is the last good poll: record a poll that is doubted as Unknown.
        """
        with self._reading() as connection:
            return jobs.read_tracked(connection, cluster)

    def record_jobs(self, changes: JobChanges) -> None:
        """Write what one look at the queue changed. Vanished jobs are left as they are: settle them first."""
        if changes.is_empty and not changes.updated:
            return
        with self._writing() as connection:
            jobs.record_jobs(connection, changes)

    def record_poll(
        self,
        cluster: str,
        at: datetime,
        unknown: Unknown | None = None,
        gap: Gap | None = None,
        *,
        has_mentions: bool = False,
    ) -> None:
        """Write that the queue was looked at, or why it could not be; and of what time accounting has still to tell.

        `has_mentions`: what the jobs name was recorded before.
        """
        with self._writing() as connection:
            clusters.record_poll(connection, cluster, at, unknown, gap, has_mentions=has_mentions)

    def record_heartbeat(self, cluster: str, daemon: Daemon, at: datetime) -> None:
        """Write that a daemon keeps this cluster's record now."""
        with self._writing() as connection:
            clusters.record_heartbeat(connection, cluster, daemon, at)

    def record_located(self, found: Collection[Located], now: datetime) -> None:
        """Make jobs part of the runs of directories that became known, made here where they are new.

        Attempts that have not ended, or that ended while their job had no directory, come along; those that ended in
        another directory stay there. Flags and notices of a run that was only a name for the job follow it.
        """
        if found:
            with self._writing() as connection:
                located_runs.record_located(connection, found, now)

    def read_ends(self, cluster: str, since: datetime) -> tuple[EndTally, ...]:
        """Return the attempts that ended since then, summed up by size, partition and cause."""
        with self._reading() as connection:
            return restart_state.read_ends(connection, cluster, since)

    def delete_old(self, cluster: str, before: datetime) -> Expired:
        """Delete some of what ended before an instant; never a run with a checkpoint on disk or in the trash."""
        with self._writing() as connection:
            return expiry.delete_old(connection, cluster, before)

    def read_learned(self, cluster: str, *, ended_since: datetime, timed_out_since: datetime) -> Learned:
        """Return what a new start takes up: ends since the one instant, limits since the other, room."""
        with self._reading() as connection:
            return restart_state.read_learned(
                connection, cluster, ended_since=ended_since, timed_out_since=timed_out_since
            )

    def read_recorded(self, run: RunKey) -> tuple[RecordedCheckpoint, ...]:
        """Return a run's present checkpoints and its latest gone ones, oldest first: what a look is merged with."""
        return self.read_recorded_of([run]).get(run, ())

    def read_recorded_of(self, keys: Collection[RunKey]) -> dict[RunKey, tuple[RecordedCheckpoint, ...]]:
        """Return the same of many runs, of those that are on record."""
        with self._reading() as connection:
            return checkpoints.read_recorded(connection, keys)

    def read_last_looks(self, cluster: str, keys: Collection[RunKey]) -> dict[RunKey, Known]:
        """Return what is known of the last look at each run that is on record, with its attempts, oldest first."""
        with self._reading() as connection:
            return checkpoints.read_last_looks(connection, cluster, keys)

    def record_looks(self, looks: Collection[Look]) -> None:
        """Write what looks at runs' directories found, all of it or nothing."""
        if looks:
            with self._writing() as connection:
                checkpoints.record_looks(connection, looks)

    def record_searches(self, found: Mapping[RunKey, Unknown | None]) -> None:
        """Write why searches could not tell where runs' checkpoints are; None: one saw everything, and found none."""
        if found:
            with self._writing() as connection:
                checkpoints.record_searches(connection, found)

    # what ran while nobody looked

    def read_gap(self, cluster: str) -> tuple[datetime | None, Gap | None]:
        """Return the last good look at the queue, and of what time accounting has still to tell."""
        with self._reading() as connection:
            return backfill.read_gap(connection, cluster)

    def record_gap(self, cluster: str, gap: Gap | None) -> None:
        """Write of what time accounting has still to tell; None: of none."""
        with self._writing() as connection:
            backfill.record_gap(connection, cluster, gap)

    def read_on_record(self, cluster: str, job_ids: Collection[int]) -> dict[int, list[OnRecord]]:
        """Return all jobs that had these ids, the first seen first: ids wrap."""
        with self._reading() as connection:
            return backfill.read_on_record(connection, cluster, job_ids)

    def record_past(self, plan: Plan, awaiting: Collection[JobKey]) -> None:
        """Write what accounting told; the directories of some jobs have yet to be found and read."""
        with self._writing() as connection:
            backfill.record_past(connection, plan, awaiting)

    def read_awaiting(self, cluster: str) -> dict[JobKey, TrackedJob]:
        """Return the jobs whose directories have yet to be found and read, without their attempts."""
        with self._reading() as connection:
            return backfill.read_awaiting(connection, cluster)

    def finish_looks(self, keys: Collection[JobKey]) -> None:
        """Write that the directories of jobs that were awaiting it were found and read, as far as that is possible."""
        if keys:
            with self._writing() as connection:
                backfill.finish_looks(connection, keys)

    def read_neighbours(self, cluster: str, uid: int, since: datetime) -> tuple[Neighbour, ...]:
        """Return one user's jobs that ran at any time since an instant, and when."""
        with self._reading() as connection:
            return backfill.read_neighbours(connection, cluster, uid, since)

    # what a cycle decides

    def read_histories(
        self,
        cluster: str,
        keys: Collection[RunKey] | None = None,
        *,
        active_only: bool = False,
        forgets_others: bool = False,
    ) -> list[RunHistory]:
        """Return what rules may know of runs: of all the cluster's where `keys` is None.

        Active runs are those with an open job or an open flag: a flag must resolve when its run's jobs have ended.
        With `forgets_others` no other run stays in memory.
        A history holds the newest checkpoints only (`histories.CHECKPOINT_LIMIT`); `read_recorded` gives all.
        """
        with self._reading() as connection:
            found = self._histories.read(connection, cluster, keys, is_active_only=active_only)
        if forgets_others and keys is not None:
            self._histories.forget_others(keys)
        return found

    def read_open_flags(self, cluster: str) -> tuple[Flag, ...]:
        """Return the flags of a cluster that hold now, oldest first."""
        with self._reading() as connection:
            return plain_reads.read_flags(select_through(connection), cluster=cluster)

    def read_flag_jobs(self, flags: Collection[Flag]) -> dict[tuple[RunKey, int | None], Job]:
        """Return the jobs that flags are about, as last seen, by run and job id."""
        if not flags:
            return {}
        with self._reading() as connection:
            return outbox.read_jobs_of(connection, flags)

    def read_told(self, topics: Collection[str]) -> dict[tuple[Recipient, str], Told]:
        """Return what was told, or waits to be told, of each topic to each recipient."""
        if not topics:
            return {}
        with self._reading() as connection:
            return outbox.read_told(connection, topics)

    def record_flags(self, changes: FlagChanges, now: datetime, notices: Collection[Notice] = ()) -> tuple[Flag, ...]:
        """Write the edges of one decision and the notices of them in one transaction; return the opened flags.

        The opened ones get their numbers here; all others carry the number they were read with.
        """
        if not changes:
            return ()
        with self._writing() as connection:
            opened = flags.record_flags(connection, changes, now)
            outbox.insert_notices(connection, notices)
            return opened

    # lost work

    def read_guessed(self, cluster: str, since: datetime) -> tuple[Attempt, ...]:
        """Return the attempts that ended since then for a cause that only accounting can tell for sure."""
        with self._reading() as connection:
            return jobs.read_guessed(connection, cluster, since)

    def correct_attempts(self, attempts: Collection[Attempt]) -> None:
        """Write what accounting told later of attempts on record; their lines of the ledger follow."""
        if attempts:
            with self._writing() as connection:
                jobs.correct_attempts(connection, attempts)

    def read_unlooked(self, cluster: str, since: datetime) -> tuple[RunKey, ...]:
        """Return the runs whose directory nobody has seen since an attempt of theirs ended, at `since` or later."""
        with self._reading() as connection:
            return lost_work.read_unlooked(connection, cluster, since)

    def read_losses(self, run: RunKey) -> tuple[LedgerLine, ...]:
        """Return what each ended attempt of a run lost, oldest end first."""
        with self._reading() as connection:
            return lost_work.read_lines(connection, run)

    def sum_losses_by_day(
        self,
        cluster: str,
        *,
        first: date | None = None,
        last: date | None = None,
        final_before: datetime | None = None,
    ) -> dict[date, dict[LossKey, LossTotal]]:
        """Return the lost work of each day (UTC, bounds included) by cause and partition.

        With `final_before` only of lines that will hardly change any more: settled, or ended before then.
        """
        with self._reading() as connection:
            return lost_work.sum_by_day(connection, cluster, lost_work.Days(first, last), final_before=final_before)

    # what a cycle does

    def append_audit(self, entry: AuditEntry) -> int:
        """Write an act before it happens; return its number."""
        with self._writing() as connection:
            return audit.append_audit(connection, entry)

    def find_audited(self, cluster: str, plan_ids: Collection[str]) -> frozenset[str]:
        """Return those of the plans' or acts' names under which an act is on record, however it went."""
        with self._reading() as connection:
            return audit.find_audited(connection, cluster, plan_ids)

    def read_moved(self, keys: Collection[RunKey]) -> dict[RunKey, dict[str, int]]:
        """Return, by run, the size of what was moved to the trash, by the id of its act."""
        with self._reading() as connection:
            return audit.read_moved(connection, keys)

    def read_outcomes(self, cluster: str, action: str, keys: Collection[RunKey]) -> dict[RunKey, dict[str, str | None]]:
        """Return, by run, how acts of a kind went, by their names; None of those that have not ended."""
        with self._reading() as connection:
            return audit.read_outcomes(connection, cluster, action, keys)

    def count_audited_by_owner(self, cluster: str, actor: str, since: datetime) -> dict[tuple[str, int], int]:
        """Return how many acts of an actor began since then, by action and by the owner of the run (-1: none)."""
        with self._reading() as connection:
            return plain_reads.count_audited_by_owner(select_through(connection), cluster, actor, since)

    def finish_audit(
        self, audit_id: int, outcome: str, finished_at: datetime, details: Mapping[str, Evidence] | None = None
    ) -> None:
        """Write how an act went, and where there are details those in place of its intent's."""
        with self._writing() as connection:
            audit.finish_audit(connection, audit_id, outcome, finished_at, details)

    def undo_audit(self, audit_id: int, outcome: str, finished_at: datetime) -> None:
        """Write why nothing was done of an act, and give its name back: another may be tried under it."""
        with self._writing() as connection:
            audit.undo_audit(connection, audit_id, outcome, finished_at)

    def record_notices(self, notices: Collection[Notice]) -> None:
        """Record notices that no edge of a flag causes."""
        if notices:
            with self._writing() as connection:
                outbox.insert_notices(connection, notices)

    def read_unaddressed(self, cluster: str) -> tuple[Notice, ...]:
        """Return the notices that wait for the address of their user, oldest first."""
        with self._reading() as connection:
            return outbox.read_unaddressed(connection, cluster)

    def replace_notices(self, old: Collection[Notice], new: Collection[Notice]) -> None:
        """Take back notices that nobody has claimed and record others in their place, at once."""
        with self._writing() as connection:
            outbox.replace_notices(connection, old, new)

    def claim_notices(
        self,
        cluster: str,
        channels: Collection[str],
        now: datetime,
        lease: timedelta,
        mail_only_to: Collection[str] | None = None,
    ) -> Claim | None:
        """Take the notices of the next message that is due; after `lease` another sender takes them for cut off.

        Mail goes to no others than `mail_only_to`, where that is given.
        """
        with self._writing() as connection:
            return claims.claim(connection, cluster, channels, now, lease, mail_only_to)

    def give_up_notices(self, cluster: str, channels: Collection[str], now: datetime) -> int:
        """End what was tried for days or waits for none of the site's channels; return how many notices that is."""
        with self._writing() as connection:
            return claims.give_up(connection, cluster, channels, now)

    def read_tallies(self, notices: Collection[Notice]) -> dict[str, Tally]:
        """Return by topic how many jobs are flagged now or were since the first of these notices."""
        with self._reading() as connection:
            return topic_counts.read_tallies(connection, notices)

    def finish_notices(
        self,
        claim: Claim,
        outcome: Outcome,
        now: datetime,
        left_out: Mapping[int, NoticeState] | None = None,
        instead: Collection[Notice] = (),
    ) -> None:
        """Write what became of a claimed message; `left_out` are its notices, by number, that were not told.

        `instead` are recorded at once in place of those that were refused.
        """
        with self._writing() as connection:
            claims.finish(connection, claim, outcome, left_out or {}, now, instead)

    def read_outbox(self, cluster: str, now: datetime) -> Outbox:
        """Return what waits to be sent."""
        with self._reading() as connection:
            return outbox.read_outbox(connection, cluster, now)

    def read_mailed_at(self, cluster: str, since: datetime) -> list[tuple[str, datetime]]:
        """Return to whom, and when, each mail went since then, oldest first."""
        with self._reading() as connection:
            return outbox.read_mailed_at(connection, cluster, since)

    def read_last_sent_at(self, cluster: str) -> datetime | None:
        """Return when a message left last, through any channel."""
        with self._reading() as connection:
            return outbox.read_last_sent_at(connection, cluster)

    def read_held(self, cluster: str, admins: Collection[str], now: datetime) -> Held:
        """Count the mail that is due to others than administrators."""
        with self._reading() as connection:
            return outbox.read_held(connection, cluster, admins, now)

    def finish_prune(self, entry: AuditEntry, first_seen_at: datetime, *, is_pruned: bool) -> None:
        """Write the end of an act and, at once, that it left its checkpoint in the trash or put it back."""
        with self._writing() as connection:
            prune_records.finish_prune(connection, entry, first_seen_at, is_pruned=is_pruned)

    def record_changes(self, run: RunKey, changes: CheckpointChanges) -> None:
        """Write what is known of some checkpoints beside a look at all of them."""
        with self._writing() as connection:
            checkpoints.record_changes(connection, run, changes)

    def read_prunable(self, cluster: str, keys: Collection[RunKey] | None = None) -> list[PrunableRun]:
        """Return what pruning must know of runs: where `keys` is None, of those with two checkpoints or more."""
        with self._reading() as connection:
            wanted = prune_records.list_plural(connection, cluster) if keys is None else keys
            found = self._whole_histories.read(connection, cluster, wanted, is_active_only=False)
            return prune_records.add_facts(connection, cluster, found)

    def read_revisions(self, cluster: str) -> dict[RunKey, int]:
        """Return a number for every run whose directory is known, which changes when anything of the run does."""
        with self._reading() as connection:
            return prune_records.read_revisions(connection, cluster)

    def record_mentions(self, cluster: str, changed: Collection[JobMentions], gone: Collection[int] = ()) -> None:
        """Write what jobs name that changed, and that others left the queue."""
        if changed or gone:
            with self._writing() as connection:
                mentions.record(connection, cluster, changed, gone)

    def read_mentions(self, cluster: str) -> list[JobMentions]:
        """Return what every job in the queue names."""
        with self._reading() as connection:
            return self._mentions.read(connection, cluster)

    def read_mentions_doubt(self, cluster: str) -> str | None:
        """Return why it is not known what jobs name now, None where it is."""
        with self._reading() as connection:
            return mentions.read_doubt(connection, cluster)

    def read_job_directories(self, cluster: str) -> dict[int, str]:
        """Return where the runs of the jobs in the queue keep their checkpoints, by job, as far as that is known."""
        with self._reading() as connection:
            return mentions.read_directories(connection, cluster)

    def read_links(self, uids: Collection[int]) -> dict[int, list[SeenLinks]]:
        """Return the links that the last scans of these owners' runs saw, by owner."""
        with self._reading() as connection:
            return mentions.read_links(connection, uids)

    def read_work_dirs(self, keys: Collection[RunKey]) -> dict[RunKey, tuple[str, ...]]:
        """Return the working directories of each run's jobs, of the newest first."""
        with self._reading() as connection:
            return mentions.read_work_dirs(connection, keys)

    def read_writing_runs(self) -> Mapping[RunKey, bool]:
        """Return every run of all clusters whose directory is known, and whether a job was seen writing there."""
        with self._reading() as connection:
            return mentions.read_writing_runs(connection)

    def list_run_keys(self) -> tuple[RunKey, ...]:
        """Return every run on record whose directory is known, of all clusters."""
        with self._reading() as connection:
            return prune_records.list_run_keys(connection)

    def set_pinned(self, run: RunKey, path: str, *, is_pinned: bool) -> int:
        """Pin or unpin the present checkpoints at a path; return how many there are."""
        with self._writing() as connection:
            return checkpoints.set_pinned(connection, run, path, is_pinned=is_pinned)

    # what people see

    def read_flags(
        self, cluster: str | None = None, *, include_resolved: bool = False, run: RunKey | None = None
    ) -> tuple[Flag, ...]:
        """Return flags, oldest first; of all clusters, of all runs where None."""
        with self._reading() as connection:
            run_id = None if run is None else runs.find_runs(connection, [run]).get(run, NO_RUN)
            return plain_reads.read_flags(
                select_through(connection), cluster=cluster, include_resolved=include_resolved, run_id=run_id
            )

    def list_jobs(
        self, now: datetime, *, cluster: str | None = None, user: str | None = None, flagged_only: bool = False
    ) -> tuple[JobRow, ...]:
        """Return the jobs that have started and not ended, with the time left at `now`."""
        with self._reading() as connection:
            return plain_reads.list_jobs(
                select_through(connection), now, cluster=cluster, user=user, flagged_only=flagged_only
            )

    def list_ended_runs(self, user: str, limit: int) -> tuple[EndedRun, ...]:
        """Return a user's runs that have ended, the latest first, at most `limit`."""
        with self._reading() as connection:
            return ended_runs.list_ended_runs(connection, user, limit)

    def find_runs_of_job(
        self, job_id: int, cluster: str | None = None, task_id: int | None = None
    ) -> tuple[RunKey, ...]:
        """Return the runs that a job id, or a task of an array, is or was part of, the latest first: ids wrap."""
        with self._reading() as connection:
            return runs.find_runs_of_job(connection, job_id, cluster, task_id)

    def find_runs_at(self, directory: str, cluster: str | None = None) -> tuple[RunKey, ...]:
        """Return the runs of a directory, one for each user who has used it."""
        with self._reading() as connection:
            return runs.find_runs_at(connection, directory, cluster)

    def read_status(self) -> tuple[ClusterStatus, ...]:
        """Return how recent the record of each cluster is, by name."""
        with self._reading() as connection:
            return plain_reads.read_status(select_through(connection))

    def read_audit(
        self,
        cluster: str,
        *,
        run: RunKey | None = None,
        unfinished_only: bool = False,
        begun_since: datetime | None = None,
        limit: int = 1000,
    ) -> tuple[AuditEntry, ...]:
        """Return the newest acts, newest first."""
        with self._reading() as connection:
            return audit.read_audit(
                connection,
                cluster,
                run=run,
                is_unfinished_only=unfinished_only,
                begun_since=begun_since,
                limit=limit,
            )
