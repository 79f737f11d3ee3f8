"""One life after another of the daemon in the chaos run: the real steps, with a clock and a database that can fail.

A life ends when the agent dies, when it is killed between or within transactions, or when the database is away at its
start. What it knew beyond the database is lost with it.
"""

import random
import sqlite3
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from ckptd.core.model import Severity, Unknown
from ckptd.core.notices import NoticeMode, NoticePolicy
from ckptd.errors import CkptdError
from ckptd.notify.rendering import Renderer
from ckptd.service.step_table import EXPIRE, STEPS, TABLE, make_runner
from ckptd.steps import poll
from ckptd.steps.parts import SendParts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.prune import step as prune
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts, make_rules
from support.prune_facts import CLUSTER, MINUTE, make_policy, make_site
from support.shared_agent import get_agent

POLICY = NoticePolicy(
    mode=NoticeMode.ON, user_rule="{user}@example.org", windows=dict.fromkeys(Severity, timedelta(minutes=15))
)
PRUNE_EVERY = 10  # minutes
EXPIRE_EVERY = 24 * 60
MAX_PAGES = 2**32 - 2  # of SQLite
LEFT_OUT = {EXPIRE, "collect-garbage", "release-memory", "verify", "act", "prune", "backfill"}


class KilledError(BaseException):
    """The daemon was killed here."""


class ChaosDaemon:
    """The daemon, alive or not."""

    def __init__(self, root, database, slurm, channel, seed: random.Random, **scan):
        self.root, self.slurm, self._channel, self._seed = root, slurm, channel, seed
        self._database, self._scan = database, {"write_grace": "60s", **scan}
        self.now = self.elapsed = None
        self.state = self.parts = self.store = None
        self.is_database_away = self.is_database_full = self.is_database_halted = False
        self.kill_after = None  # transactions of its own
        self._is_at_work = False  # otherwise it is the judge who reads
        self.lives = self.failures = 0
        self._memory = prune.PruneSlice()
        self._agent = None

    @property
    def is_without_database(self):
        """Whether transactions may fail."""
        return self.is_database_away or self.is_database_full or self.is_database_halted

    @property
    def is_alive(self):
        return self.state is not None

    def start(self, now, elapsed):
        """Begin a life; it ends at once if the database is away, or if it is killed."""
        self.now, self.elapsed = now, elapsed
        self.lives += 1
        self._agent = get_agent(**self._scan)
        try:
            self.store = open_record(self._database)
        except CkptdError:
            return
        sa.event.listen(self.store.database._engine, "begin", self._begin)
        sa.event.listen(self.store.database._engine, "commit", self._commit)
        post = SendParts(
            cluster=CLUSTER,
            store=self.store,
            channels={"mail": self._channel},
            renderer=Renderer(),
            read_mutes=lambda places: [frozenset() for _ in places],
            policy=POLICY,
        )
        self.parts = make_parts(
            CLUSTER,
            self.slurm,
            self.store,
            self._agent,
            rules=make_rules(),
            notice_policy=POLICY,
            post=post,
            min_job_duration=10 * MINUTE,
            max_poll_age=10 * MINUTE,
            read_clock=self.slurm.read_clock,
            runner=make_runner(
                poll=lambda parts, state: poll.poll_now(parts, state, self.now), read_time=lambda: self.now
            ),
        )
        self._memory = prune.PruneSlice()
        try:
            with self._work():
                self.state = begin(self.parts, now)
        except (CkptdError, KilledError):
            self.end()

    def end(self):
        """End the life: only the database and the disk remain."""
        if self.store:
            self.store.close()
        self.state = self.parts = self.store = None
        self.kill_after = None

    def lose_agent(self):
        """The agent dies, and the daemon with it."""
        self._agent.close()
        self.end()

    def tick(self, now, elapsed, minute):
        """Run the steps once at this time by the daemon's clock; return errors that no step may raise."""
        self.now, self.elapsed = now, elapsed
        errors = []
        try:
            with self._work():
                self._run_all(minute, errors)
        except KilledError:
            self.end()
        return errors

    @contextmanager
    def _work(self):
        self._is_at_work = True
        try:
            yield
        finally:
            self._is_at_work = False

    def _run_all(self, minute, errors):
        for line in TABLE:
            if line.name not in LEFT_OUT:
                for _ in range(line.once):
                    self._run(line.name, line.run, errors)
        self._run("backfill", STEPS["backfill"].run, errors)
        if minute % PRUNE_EVERY == 0:
            self._run("prune", self._prune, errors)
        if minute % EXPIRE_EVERY == 0:
            self._run(EXPIRE, STEPS[EXPIRE].run, errors)

    def _prune(self, parts, state, now):
        site = make_site(self.root, make_policy())
        return prune.act(parts, state, site, self._memory, now, self.elapsed)

    def _run(self, name, run, errors):
        try:
            result = run(self.parts, self.state, self.now)
        except CkptdError:
            self.failures += 1
        except Exception as error:  # noqa: BLE001 - the judge reports it
            errors.append(f"step {name} raised {type(error).__name__}: {error}")
        else:
            lines = getattr(result, "lines", ())
            errors += [f"step {name}: {line.text}: {line.error!r}" for line in lines if line.error is not None]

    def is_queued(self, run):
        """Whether a job of this run waits or runs, as recorded."""
        tracked = self.state.latest(PolledQueue).tracked.values()
        return any(known.run == run and known.is_open for known in tracked)

    def is_blind(self, run):
        """Whether the last poll, or the last scan of this run, failed."""
        queued = self.state.latest(PolledQueue)
        watched = self.state.watchlist.get(run)
        return bool(queued.slurm_trouble) or (watched is not None and isinstance(watched.last, Unknown))

    def _begin(self, connection):
        self._count()
        self._fail()
        if connection.dialect.name == "sqlite":
            pages = 1 if self.is_database_full else MAX_PAGES  # it keeps those that it has
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def _commit(self, _connection):
        if self.is_database_away and self._seed.random() < 0.5:
            self._fail()
        self._count()

    def _count(self):
        if self._is_at_work and self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after <= 0:
                raise KilledError

    def _fail(self):
        if self.is_database_away and self._seed.random() < 0.7:
            raise sa.exc.OperationalError("", {}, sqlite3.OperationalError("disk I/O error"))
