"""The daemon in the foreground: its schedule and its signals. It ends within seconds, whatever a step is doing."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path

from ckptd.config import Config, find_file, read_config
from ckptd.core.fleet.snapshot import Report
from ckptd.core.leadership import lease
from ckptd.core.model import Unknown
from ckptd.core.model.records import DaemonIdentity
from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.present.formatting import format_duration
from ckptd.service import control_group, freed_memory, gc_tuning, scan_watch, second_daemon, slow_start
from ckptd.service.agent_watch import AgentWatch
from ckptd.service.build import Helpers, OpenCluster, build, build_access_rules, open_cluster, start_helpers
from ckptd.service.config_troubles import refuse_troubles
from ckptd.service.lease_keeper import LeaseKeeper
from ckptd.service.lease_term import LeaseTerm
from ckptd.service.open_database import open_store
from ckptd.service.open_web import open_web, read_web_config
from ckptd.service.outgoing_heartbeat import OutgoingHeartbeat
from ckptd.service.reload import REMEDY, list_waiting, pin
from ckptd.service.scan_pool import ScanPool
from ckptd.service.schedule import Schedule
from ckptd.service.standby_report import StandbyReport
from ckptd.service.step_runner import StepRunner, write_lines
from ckptd.service.step_table import TABLE, Step, make_runner
from ckptd.service.summary_lines import describe_report, describe_start
from ckptd.service.systemd import Systemd
from ckptd.steps import poll
from ckptd.steps.parts import Parts, Runner
from ckptd.steps.results import StepResult
from ckptd.steps.state import State, begin
from ckptd.store.database_errors import DatabaseAwayError, StoreError
from ckptd.web.server import ListenError, WebServer
from ckptd.web.web_config import WebConfig

SECONDS_TO_STOP = 3.0
MAX_SCANNED_OWNERS = 8  # owners whose directories are scanned at the same time
MAX_SLOW_OWNERS = 32  # more owners, whose scans take long, for example because they stopped ckptd's children
SECONDS_TO_RETRY = 1.0  # the first time that the database or Slurm does not answer at the start
MAX_SECONDS_TO_RETRY = 15.0
WAIT_SECONDS = 0.5  # between two checks of signals, clock, lease and agent
MAX_AGENT_SILENCE = 60.0  # seconds; its loop never waits for a file system
RELOAD_FAILED = "configuration reload failed, keeping the previous one"
SCAN = "scan-directories"  # the scan of one owner, in metrics and in the log; the step `scan` only submits it

log = logging.getLogger("ckptd")


class Daemon:
    """Owns the running parts from `run` to its end."""

    def __init__(
        self,
        config: Config,
        config_path: Path | None,
        environment: Mapping[str, str],
        reload_asked: threading.Event | None = None,
    ) -> None:
        """Prepare the daemon; until it runs, the caller's handler of SIGHUP sets `reload_asked`."""
        self._started_with = config  # settings that need a restart keep these values
        self._config = config
        self._is_acting = False
        self._config_path = find_file(config_path)  # a default file that is gone later is an error
        self._environment = environment
        self._systemd = Systemd(environment)
        self._stop = threading.Event()
        self._reload = reload_asked or threading.Event()
        self._scan_pool = ScanPool(MAX_SCANNED_OWNERS, MAX_SCANNED_OWNERS + MAX_SLOW_OWNERS)
        self._scan_watch = scan_watch.ScanWatch()
        self._identity = DaemonIdentity(
            host=socket.gethostname(), pid=os.getpid(), version=version("ckptd"), started_at=_now()
        )
        self._web: WebServer | None = None
        self._web_config: WebConfig | None = None
        self._collector = ReportCollector(
            version("ckptd"), started_at=self._identity.started_at, flagged_limit=config.metrics.flagged_jobs
        )
        self._heartbeat = OutgoingHeartbeat(config.service.heartbeat_url)
        self._stepper = StepRunner(
            self._collector, self._systemd, self._heartbeat.record, is_stopping=self._stop.is_set
        )

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; return the exit status."""
        freed_memory.use_one_heap()
        helpers = start_helpers(self._started_with, self._config_path)
        try:
            return self._run_with(helpers)
        finally:
            helpers.close()

    def _run_with(self, helpers: Helpers) -> int:
        gc_tuning.avoid_long_pauses()
        self._listen_to_signals()
        opened = self._open_patiently(helpers)
        if opened is None:
            return 0
        self._opened = opened
        keeper = LeaseKeeper(open_store(self._started_with, is_upgraded=False), opened.cluster, lease.RUN)
        self._collector.record_leader(opened.cluster, is_leader=False)  # before the first scrape: it names the cluster
        self._web_config = read_web_config(self._started_with)
        self._web = web = self._open_web(keeper)
        term = None
        try:
            term = self._wait_for_lease(keeper)
        finally:
            if web and term is None:
                web.close()
        if term is None:
            return 0
        keeper.keep(term)
        self.begin(
            replace(opened, store=opened.store.with_lease(opened.cluster, term.epoch, term.continuity), term=term)
        )
        self._schedule.start()
        self._systemd.ready(f"watching {self._parts.cluster}")
        listen = self._started_with.web.listen
        started = describe_start(self._parts, version=version("ckptd"), listen=listen, lease_epoch=term.epoch)
        log.info("daemon started: %s", started)
        try:
            status = self._wait(term)
        finally:
            self._stop.set()
            self._systemd.stopping()
            self._schedule.stop()
            self._scan_pool.shutdown()
            if web:
                web.close()
        for step in reversed(TABLE):  # `send` first
            step.stop(self._state, SECONDS_TO_STOP)
        # let a step that records finish, because its transaction is short, but none that waits for Slurm or a disk
        is_quiet = self._state.record_lock.acquire(timeout=SECONDS_TO_STOP)
        helpers.close()
        if is_quiet and term.seconds_to_renew < SECONDS_TO_STOP:  # else the database would not answer this either
            keeper.release(term)
            self._finish_writing()
            self._parts.store.close()
        log.info("daemon stopped: cluster %s", opened.cluster)
        logging.shutdown()
        os._exit(status)

    def _finish_writing(self) -> None:
        """Leave a SQLite database in one file: people copy that one alone."""
        try:
            if not self._opened.store.database.finish_writing():
                log.warning("the database is in use: a copy needs its file that ends with -wal, too")
        except StoreError as error:
            log.warning("the database could not be left in one file: %s", error)

    def _open_web(self, keeper: LeaseKeeper) -> WebServer | None:
        """Open the page before the lease is there, because a standby shows it, too.

        Raises:
            LeaseHeldError: it cannot be opened, and the daemon that acts, which may have its address, is to be named.
            CkptdError: it cannot be opened as configured.

        """
        try:
            return open_web(self._started_with, self._web_config, self._collector.exposition, lambda: self._config)
        except ListenError:
            second_daemon.find_and_refuse(keeper, self._started_with.service.standby, self._stop.wait)
            raise

    def _wait_for_lease(self, keeper: LeaseKeeper) -> LeaseTerm | None:
        """Wait as a standby until the lease is free; None when told to stop.

        Raises:
            LeaseHeldError: another daemon acts for the cluster, and this one is not to wait.

        """
        report = StandbyReport(self._systemd, keeper.cluster)
        while True:
            try:
                term = keeper.try_take()
                if term is not None:
                    report.note_takeover()
                    return term
                second_daemon.refuse(keeper, self._started_with.service.standby)
                if not keeper.is_exclusive:
                    keeper.record_standby()
                report.note_rival(keeper.describe_rival())
            except StoreError as error:
                report.note_trouble(error)
            self._show_process(keeper.cluster, is_leader=False)
            self._systemd.alive()
            if self._reload.is_set():
                self._reload.clear()
                self.reload()
            if self._stop.wait(timeout=keeper.times.watch_interval):
                keeper.forget_standby()
                return None

    def begin(self, opened: OpenCluster) -> None:
        """Build the parts, and read from the database what the previous daemon knew."""
        self._opened = opened
        self._parts = build(self._config, opened)
        self._state = begin(self._parts, _now())
        for step in TABLE:
            step.begin(self._parts, self._state, _now())
        self._schedule = Schedule(self._run, self._parts)
        self._is_acting = True

    def _run(self, step: Step) -> None:
        """Run a step with the current parts."""
        self._stepper.run(step.name, partial(step.run, self._parts, self._state))

    def make_runner(self) -> Runner:
        """Return what the steps can ask this process for."""
        return make_runner(
            poll=self._poll_early,
            submit=self._submit_scan,
            scan_soon=lambda: self._schedule.run_soon("scan"),
            read_elapsed=_read_elapsed,
            is_stopping=self._stop.is_set,
            still_wants=lambda site: self._parts.retention == site,
            note_alive=self._systemd.alive,
            note_scanned=self._scan_watch.note_answer,
            show=self._show,
            identity=self._identity,
        )

    def _open_patiently(self, helpers: Helpers) -> OpenCluster | None:
        """Open database and job source; None on a stop.

        Wait for a database that does not answer, and for Slurm if only it knows the cluster's name.
        """
        wait, logged = SECONDS_TO_RETRY, ""
        while True:
            try:
                with slow_start.extend(self._systemd):
                    opened = open_cluster(self._started_with, helpers, self.make_runner(), _now())
                if not isinstance(opened, Unknown):
                    return opened
                trouble = f"Slurm cannot be queried: {opened.reason}"
            except DatabaseAwayError as error:
                trouble = str(error)
            if trouble != logged:
                log.warning("start delayed: %s; trying again until it answers", trouble)
                self._systemd.ready(f"waiting: {trouble}")
                logged = trouble
            self._systemd.alive()
            if self._stop.wait(timeout=wait):
                return None
            wait = min(wait * 2, MAX_SECONDS_TO_RETRY)

    def _wait(self, term: LeaseTerm) -> int:
        watch = AgentWatch(self._opened.helpers.agent, round(MAX_AGENT_SILENCE / WAIT_SECONDS))
        watch.start()
        try:
            return self._wait_beside(watch, term)
        finally:
            watch.stop()

    def _wait_beside(self, watch: AgentWatch, term: LeaseTerm) -> int:
        while not self._stop.wait(timeout=WAIT_SECONDS):
            if self._reload.is_set():
                self._reload.clear()
                self.reload()
            jump = self._schedule.repair(_now(), _read_elapsed())
            if jump is not None:
                log.warning("clock jumped by %+.0f s; running all steps now", jump.total_seconds())
            self._show_process(term.cluster, is_leader=term.is_valid)
            failure = self._describe_failure(watch, term)
            if failure:
                log.error("%s", failure)
                return 1
        return 0

    def _describe_failure(self, watch: AgentWatch, term: LeaseTerm) -> str | None:
        """Return why only another process can go on; None: this one can."""
        if (loss := term.describe_loss()) is not None:
            return loss
        if self._opened.helpers.agent.is_gone:
            return "agent exited; stopping the daemon, because only a restart can start it with its privileges"
        if watch.is_silent():
            return (
                f"agent has not answered for {MAX_AGENT_SILENCE:.0f} s; stopping the daemon, because only a restart"
                " can replace it"
            )
        limit = scan_watch.find_limit(self._config.scan.interval, self._config.scan.deadline)
        # without a valid lease, the scans wait for the database, as its renewals do
        if term.is_valid and self._scan_watch.is_silent(round(limit.total_seconds() / WAIT_SECONDS)):
            return (
                f"no scan has answered for {format_duration(limit)}; stopping the daemon, because all of them are stuck"
            )
        return None

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._stop.set())
        signal.signal(signal.SIGHUP, lambda _number, _frame: self._reload.set())

    def _poll_early(self, _parts: Parts, state: State) -> None:
        """Poll Slurm now instead of when it is due next."""
        write_lines(poll.run(self._parts, state, _now()).lines)
        self._heartbeat.record("poll")
        self._schedule.begin_interval("poll")

    def _submit_scan(self, work: Callable[[], None]) -> None:
        """Scan one owner's directories in a thread of their own."""

        def scan(_now: datetime) -> StepResult:
            try:
                work()
            finally:
                self._scan_watch.end()
            return StepResult()

        self._scan_watch.begin()
        try:
            self._scan_pool.submit(partial(self._stepper.run, SCAN, scan))
        except RuntimeError:
            self._scan_watch.end()
            if not self._stop.is_set():  # else there is nobody left to scan
                raise

    def _show(self, report: Report) -> None:
        self._collector.record_memory(control_group.read_memory())
        self._collector.publish(report)
        if not self._stepper.is_database_away:  # else what is shown is why
            self._systemd.status(describe_report(report))

    def _show_process(self, cluster: str, *, is_leader: bool) -> None:
        """Show what a standby has to show, too."""
        self._collector.record_leader(cluster, is_leader=is_leader)
        if self._web_config:
            self._collector.record_certificate(self._web_config.certificate_expires_at)

    def _record_failed_reload(self) -> None:
        self._systemd.status(RELOAD_FAILED)
        self._collector.record_reload(None, _now())

    def reload(self) -> None:
        """Apply the new configuration between two steps; an invalid one is reported, and the old one stays in force.

        The state of the steps stays: only the parts that they work with are built again.
        """
        try:
            wanted = read_config(self._config_path, self._environment)
            refuse_troubles(wanted)
            config = pin(self._started_with, wanted)
            parts = build(config, self._opened)
            access = self._web.make_access(build_access_rules(config)) if self._web else None
            self._opened.helpers.reload()  # the last that may refuse
        except CkptdError as error:
            log.error("%s: %s", RELOAD_FAILED, "; ".join(str(error).splitlines()))  # noqa: TRY400 - the text says it all
            self._record_failed_reload()
            return
        except Exception:  # an error while reading a file must not end the daemon
            log.exception(RELOAD_FAILED)
            self._record_failed_reload()
            return
        self._config = config
        if self._web and access:
            self._web.change_access(access)
        self._heartbeat.url = config.service.heartbeat_url
        if self._is_acting:
            self._change_parts(parts)
        logging.getLogger().setLevel(config.service.log_level.upper())
        self._collector.record_reload(config.metrics.flagged_jobs, _now())
        if waiting := list_waiting(self._started_with, wanted):
            log.warning("these settings changed and need a restart (%s): %s", REMEDY, ", ".join(waiting))
        log.info("configuration reloaded")

    def _change_parts(self, parts: Parts) -> None:
        """Use these parts, and their intervals, for every step that starts from here on."""
        with self._state.record_lock:
            self._parts = parts
            for step in TABLE:
                step.change_parts(parts, self._state, _now())
        self._schedule.change_parts(parts)


def _now() -> datetime:
    return datetime.now(UTC)


def _read_elapsed() -> timedelta:
    return timedelta(seconds=time.monotonic())
