"""The daemon in the foreground: its schedule, its signals, and an end within seconds in the middle of anything."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from types import FrameType

from ckptd import steps
from ckptd.config import Config, read_config
from ckptd.core.fleet.snapshot import Report
from ckptd.core.job_actions import action_policy
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import Daemon as Identity
from ckptd.core.model.records import Expired
from ckptd.core.notices.outbox import Outbox
from ckptd.core.text.formatting import format_count
from ckptd.errors import CkptdError
from ckptd.metrics.collector import ReportCollector
from ckptd.service import gc_tuning
from ckptd.service.build import (
    Helpers,
    Opened,
    build,
    build_access_rules,
    build_acting,
    open_cluster,
    start_helpers,
)
from ckptd.service.clock_jumps import ClockWatch
from ckptd.service.job_action_log import ActsTold
from ckptd.service.open_database import open_store
from ckptd.service.reload import REMEDY, list_waiting, pin
from ckptd.service.schedule import EXPIRE, EXPIRE_INTERVAL, SEND, make_scheduler, set_pace, wake
from ckptd.service.step_runner import Step, Stepper
from ckptd.service.systemd import Systemd
from ckptd.service.web_record import build_record
from ckptd.steps import Parts, act
from ckptd.steps.prune import planning
from ckptd.steps.prune import step as pruning
from ckptd.steps.send import Sender
from ckptd.web.server import WebServer
from ckptd.web.web_config import WebConfig

ACT_INTERVAL = timedelta(seconds=5)
CATCH_UP_INTERVAL = timedelta(seconds=5)  # after a time without a look at the queue
LOOK_TICK = timedelta(seconds=1)
SEND_INTERVAL = timedelta(seconds=5)
REPEAT_INTERVAL = timedelta(hours=1)
PUBLISH_INTERVAL = timedelta(seconds=5)
HOUSEKEEPING_INTERVAL = timedelta(seconds=30)
COLLECT_INTERVAL = timedelta(hours=1)
SECONDS_TO_STOP = 3.0
MAX_LOOKERS = 8  # owners whose directories are looked at side by side
SECONDS_TO_RETRY = 5.0

log = logging.getLogger("ckptd")


class Daemon:
    """Owns the running parts from `run` to its end."""

    def __init__(self, config: Config, config_path: Path | None, environment: Mapping[str, str]) -> None:
        self._started_with = config  # what needs a restart stays as it was then
        self._config_path = config_path
        self._environment = environment
        self._systemd = Systemd(environment)
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._is_pruning = threading.Lock()
        self._lookers = futures.ThreadPoolExecutor(MAX_LOOKERS, thread_name_prefix="look")
        self._has_looked = threading.Event()
        self._outbox = Outbox()
        self._acts = ActsTold()
        self._identity = Identity(
            host=socket.gethostname(), pid=os.getpid(), version=version("ckptd"), started_at=_now()
        )
        self._web: WebServer | None = None
        self._collector = ReportCollector(
            version("ckptd"), started_at=self._identity.started_at, flagged_limit=config.metrics.flagged_jobs
        )
        self._stepper = Stepper(self._collector, self._systemd)

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; return the exit status."""
        helpers = start_helpers(self._started_with)
        try:
            return self._run_with(helpers)
        finally:
            helpers.close()

    def _run_with(self, helpers: Helpers) -> int:
        gc_tuning.give_way()
        self._listen_to_signals()
        opened = self._open_patiently(helpers)
        if opened is None:
            return 0
        self.begin(opened)
        self._web = web = self._open_web()
        self._scheduler.start()
        self._systemd.ready(f"watching {self._parts.cluster}")
        log.info("daemon started: cluster %s", self._parts.cluster)
        try:
            status = self._wait()
        finally:
            self._stop.set()
            self._systemd.stopping()
            self._scheduler.shutdown(wait=False)
            self._lookers.shutdown(wait=False, cancel_futures=True)
            if web:
                web.close()
        self._sender.close(SECONDS_TO_STOP)
        # removals stop after the one in progress, which is put back; one that hangs is recovered at the next start
        self._is_pruning.acquire(timeout=SECONDS_TO_STOP)
        # a step that records is let finish: its transaction is short; one that waits for Slurm or a disk is not
        is_quiet = self._state.lock.acquire(timeout=SECONDS_TO_STOP)
        helpers.close()
        if is_quiet:
            self._parts.store.close()
        logging.shutdown()
        os._exit(status)

    def begin(self, opened: Opened) -> None:
        """Build the parts, and read from the record what a daemon before this one knew."""
        self._opened, self._helpers = opened, opened.helpers
        self._parts = build(self._started_with, opened)
        self._state = steps.begin(self._parts, _now())
        assert self._parts.post is not None
        self._sender = Sender(post=self._parts.post, clock=_now)
        self._pruning = pruning.recall(self._parts.store, self._parts.cluster)
        self._scheduler = make_scheduler(self._paces(), self._stepper.run)

    def _open_web(self) -> WebServer | None:
        """Listen, with connections to the database of its own: a page never waits for a step, nor a step for a page."""
        web = self._started_with.web
        if not web.listen:
            return None
        web_config = WebConfig(web.config_file) if web.config_file else None
        store = open_store(self._started_with, is_upgraded=False)

        def tell_refused(run: RunKey) -> tuple[str, ...]:
            site = self._parts.retention
            assert site is not None
            return planning.tell_refused(store, site, run)

        rules = build_access_rules(self._started_with)
        return WebServer(web.listen, self._collector.exposition, build_record(store), rules, web_config, tell_refused)

    def _open_patiently(self, helpers: Helpers) -> Opened | None:
        """Open what is watched, waiting for Slurm where only it knows the cluster's name; None when told to stop."""
        while isinstance(opened := open_cluster(self._started_with, helpers, _now()), Unknown):
            log.warning("start delayed: Slurm: %s", opened.reason)
            self._systemd.ready(f"waiting for Slurm: {opened.reason}")
            if self._stop.wait(timeout=SECONDS_TO_RETRY):
                return None
        return opened

    def _wait(self) -> int:
        clock = ClockWatch()
        while not self._stop.wait(timeout=0.5):
            if self._reload.is_set():
                self._reload.clear()
                self.reload()
            jump = clock.jumped(_now(), timedelta(seconds=time.monotonic()))
            if jump is not None:
                log.warning("clock jumped by %+.0f s; running all steps now", jump.total_seconds())
                wake(self._scheduler)
            if self._helpers.agent.is_gone:
                log.error("agent exited; stopping the daemon, because only a restart can start it with its privileges")
                return 1
        return 0

    def _listen_to_signals(self) -> None:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self._stop.set()

        def reload(_number: int, _frame: FrameType | None) -> None:
            self._reload.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGHUP, reload)

    def _paces(self) -> dict[str, tuple[Step, timedelta]]:
        """Name each step, and how often it is due."""
        return {
            "poll": (self._poll, self._parts.poll_interval),
            "tick": (self._look, LOOK_TICK),
            "catch-up": (self._catch_up, CATCH_UP_INTERVAL),
            "act": (self._act, ACT_INTERVAL),
            SEND: (self._send, SEND_INTERVAL),
            "repeat": (self._repeat, REPEAT_INTERVAL),
            "publish": (self._publish, PUBLISH_INTERVAL),
            "housekeeping": (self._keep_house, HOUSEKEEPING_INTERVAL),
            "collect": (_collect, COLLECT_INTERVAL),
            "prune": (self._prune, self._prune_interval()),
            EXPIRE: (self._expire, EXPIRE_INTERVAL),
        }

    def _prune_interval(self) -> timedelta:
        assert self._parts.retention is not None
        return self._parts.retention.interval

    def _poll(self, now: datetime) -> None:
        self._read_queue(now)
        self._decide()

    def _read_queue(self, now: datetime) -> None:
        trouble_before = self._state.slurm_trouble
        steps.poll(self._parts, self._state, now)
        if self._state.slurm_trouble != trouble_before:
            log.warning("poll: Slurm: %s", self._state.slurm_trouble or "answers again")

    def _poll_early(self) -> None:
        """Read the queue now instead of when it is due next."""
        self._read_queue(_now())
        if not self._stop.is_set():  # else the scheduler has ended
            set_pace(self._scheduler, "poll", self._parts.poll_interval)

    def _catch_up(self, now: datetime) -> bool:
        """Make up for a time without a look at the queue; say how that goes, once."""
        gap, trouble = self._state.unseen.gap, self._state.unseen.trouble
        count = steps.catch_up(self._parts, self._state, now)
        if count:
            log.info("backfilled %d ended executions from accounting", count)
        if self._state.unseen.trouble not in {None, trouble} and gap:
            log.warning("backfill failed: jobs since %s are unknown: %s", gap.since, self._state.unseen.trouble)
        return count > 0

    def _look(self, now: datetime) -> bool:
        if self._helpers.watcher:
            self._state.watchlist.hasten_directories(self._helpers.watcher.take_changed(), now)
        count = steps.look(self._parts, self._state, now, self._submit_look)
        if self._has_looked.is_set():
            self._has_looked.clear()
            self._decide()
        if self._helpers.watcher:
            self._helpers.watcher.watch(self._watched_directories())
        return count > 0

    def _submit_look(self, work: Callable[[], None]) -> None:
        """Look at one owner's directories beside everything else; the next tick decides on what was found."""

        def look(_now: datetime) -> None:
            work()
            self._has_looked.set()

        try:
            self._lookers.submit(self._stepper.run, "look", look)
        except RuntimeError:
            if not self._stop.is_set():  # else there is nobody left to look
                raise

    def _watched_directories(self) -> set[PurePosixPath]:
        with self._state.lock:
            return {PurePosixPath(each.key.directory) for each in self._state.watchlist.all if each.key.is_located}

    def _decide(self) -> None:
        began = time.monotonic()
        failed_before = self._state.failed_rules
        for flag in steps.decide(self._parts, self._state, _now()).opened:
            finding = flag.finding
            log.warning("flag opened: %s: job %s of %s", finding.rule, finding.job_id, ascii(finding.user))
        for (run, rule), error in self._state.failed_rules.items():
            if (run, rule) not in failed_before:
                log.error("rule %s failed for the run in %s", rule, ascii(run.directory), exc_info=error)
        if self._state.failed_rules:
            self._collector.count_failure("decide")
        self._collector.observe_step("decide", timedelta(seconds=time.monotonic() - began))

    def _act(self, now: datetime) -> bool:
        """Do what the site has opted in to; nothing on what may be old."""
        parts = build_acting(self._parts)
        if not parts.permits.allows_any or self._state.polled_at is None:
            self._acts.note(act.Acted())
            return False
        with self._state.lock:
            is_silent = self._state.slurm_trouble is not None
            marked, histories = self._state.marked, dict(self._state.histories)
            finished = steps.list_finished(self._parts, self._state, histories, now)
        if is_silent:
            self._acts.note(act.wait_for_slurm(parts, histories, finished, now))
            return False
        acted = act.act(parts, histories, finished, marked, now)
        with self._state.lock:
            for key, hold in action_policy.list_holds(acted.done):
                self._state.seen.note_hold(key, hold)
        self._acts.note(acted)
        return bool(acted.done)

    def _send(self, now: datetime) -> bool:
        return self._sender.send_due(now) > 0

    def _repeat(self, now: datetime) -> bool:
        return steps.repeat_notices(self._parts, self._state, now) > 0

    def _publish(self, now: datetime) -> None:
        self._systemd.alive()  # a database that does not answer is no reason to be started anew
        report = replace(
            steps.report(self._parts, self._state, now),
            outbox=self._outbox,
            messages_by_result=dict(self._sender.results),
            pruned=self._pruning.pruned,
            acts=dict(self._acts.counts),
            acts_put_off=dict(self._acts.put_off),
            unwatched_directories=len(self._helpers.watcher.unwatched) if self._helpers.watcher else 0,
        )
        self._collector.publish(report)
        self._systemd.status(describe(report))

    def _prune(self, now: datetime) -> bool:
        """Prune by the configuration in force; a reload that wants something else of retention stops the removals."""
        parts, site = self._parts, self._parts.retention
        assert site is not None

        def should_stop() -> bool:
            return self._stop.is_set() or self._parts.retention != site

        elapsed = timedelta(seconds=time.monotonic())
        with self._is_pruning:
            done = pruning.act(
                parts,
                self._state,
                site,
                self._pruning,
                now,
                elapsed,
                self._poll_early,
                should_stop=should_stop,
            )
        took = timedelta(seconds=time.monotonic()) - elapsed
        self._pruning.pruned = replace(self._pruning.pruned, step_duration=took)
        return done != pruning.Result()

    def _expire(self, now: datetime) -> bool:
        keep = self._parts.keep
        gone = steps.expire(self._parts, self._state, keep, now)
        if gone.run_count:
            log.info("expired %d runs that ended over %s ago", gone.run_count, keep)
        return gone != Expired()

    def _keep_house(self, now: datetime) -> None:
        self._parts.store.clusters.record_heartbeat(self._parts.cluster, self._identity, now)
        self._outbox = self._parts.store.outbox.read_waiting(self._parts.cluster, now)

    def _note_refused(self) -> None:
        self._systemd.status("configuration reload failed; keeping the previous one")
        self._collector.note_config(None, _now())

    def reload(self) -> None:
        """Take the new configuration between two steps; a wrong one leaves the old in force and says so.

        What the steps have learned stays: only the parts that they work with are built again.
        """
        try:
            wanted = read_config(self._config_path, self._environment)
            config = pin(self._started_with, wanted)
            parts = build(config, self._opened)
            if self._web:
                self._web.change_access(build_access_rules(config))
        except CkptdError as error:
            log.error("configuration reload failed: %s; keeping the previous one", error)  # noqa: TRY400 - the text says it all
            self._note_refused()
            return
        except Exception:  # a fault in reading a file must not end what watches everybody
            log.exception("configuration reload failed; keeping the previous one")
            self._note_refused()
            return
        self._change_parts(parts)
        logging.getLogger().setLevel(config.service.log_level.upper())
        self._collector.note_config(config.metrics.flagged_jobs, _now())
        if waiting := list_waiting(self._started_with, wanted):
            log.warning("these settings changed and need a restart (%s): %s", REMEDY, ", ".join(waiting))
        log.info("configuration reloaded")

    def _change_parts(self, parts: Parts) -> None:
        """Let every step that begins from now on work with these parts, at their intervals."""
        paces_before = self._paces()
        with self._state.lock:
            self._parts = parts
            self._state.watchlist.set_interval(parts.scan_interval, _now())
            assert parts.post is not None
            self._sender.post = parts.post
        for name, (_, pace) in self._paces().items():
            if pace != paces_before[name][1]:
                set_pace(self._scheduler, name, pace)


def describe(report: Report) -> str:
    """Summarise the state of the cluster in one sentence."""
    if report.slurm_trouble:
        return f"Slurm: {report.slurm_trouble}"
    jobs, flags = sum(report.jobs_by_state.values()), sum(report.flags_by_rule.values())
    runs = format_count(sum(report.runs_by_locator.values()), "run")
    stopped = "; pruning is paused because of the clock" if report.pruned.is_clock_doubted else ""
    return f"{format_count(jobs, 'job')}, {runs} watched, {format_count(flags, 'open flag')}{stopped}"


def _collect(_now: datetime) -> None:
    gc_tuning.collect()


def _now() -> datetime:
    return datetime.now(UTC)
