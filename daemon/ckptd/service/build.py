"""Builds the parts of the daemon from its configuration; the other `build_` modules serve the commands, too."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.client import AgentClient
from ckptd.checkpoints.agent.scan_client import ScanLimits
from ckptd.checkpoints.agent.watcher_client import WatcherClient
from ckptd.checkpoints.scanning.locate import SiteRule
from ckptd.config import Config, build_overrides, build_rules
from ckptd.config.local_cluster import read_local_cluster
from ckptd.core.discovery.file_system_budgets import FileSystemBudget
from ckptd.core.job_actions.action_policy import ActionKind, ActionPermits
from ckptd.core.model import FileClock, PurgeRule, QueueSnapshot, Unknown
from ckptd.core.queue.poll_gaps import BackfillWindow
from ckptd.core.runs import shared_files
from ckptd.errors import CkptdError
from ckptd.service.agent_policy import build_node_scans
from ckptd.service.agent_start import start_agent
from ckptd.service.build_notify import build_policy
from ckptd.service.build_retention import build_retention
from ckptd.service.build_send import build_post
from ckptd.service.build_verification import build_job_executor, find_verify_place
from ckptd.service.lease_term import LeasedAgent, LeasedChannel, LeaseTerm
from ckptd.service.open_database import make_state_directory, open_store
from ckptd.service.privileges import become_service_user, name_only_user
from ckptd.service.watcher_start import start_watcher
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.interface import JobSource
from ckptd.slurm.programs import Programs
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.sources import open_source
from ckptd.steps.parts import Parts, Runner
from ckptd.store.store import Store
from ckptd.web.access import AccessRules

MISSED_POLLS = 3  # after so many, the queue's state is too old for decisions


@dataclass(frozen=True, kw_only=True, slots=True)
class Helpers:
    """The processes that keep privileges; they are started before the main process gives up its own."""

    agent: AgentClient
    watcher: WatcherClient | None
    only_user: str | None  # started as an ordinary user, the daemon watches that user's own jobs

    def reload(self) -> None:
        """Let both read the configuration again.

        Raises:
            CkptdError: the agent keeps the previous one.

        """
        self.agent.reload()
        if self.watcher:
            self.watcher.reload()

    def close(self) -> None:
        self.agent.close()
        if self.watcher:
            self.watcher.close()


def start_helpers(config: Config, config_path: Path | None) -> Helpers:
    """Start the agent and the watcher, then become the service's user for good.

    Raises:
        CkptdError: the agent must not trust the configuration file, or the service's user cannot be used.

    """
    only_user = name_only_user()
    make_state_directory(config.state_directory)
    helpers = Helpers(
        agent=start_agent(config_path, is_leased=True),
        watcher=start_watcher(config_path) if config.scan.inotify else None,
        only_user=only_user,
    )
    try:
        helpers.agent.wait_until_ready()
        become_service_user(config.service.user, config.state_directory)
    except BaseException:
        helpers.close()
        raise
    return helpers


class OtherClusterError(CkptdError):
    """The configured cluster is not the one of this host, and the database has both."""


@dataclass(kw_only=True, slots=True)
class OpenCluster:
    """What stays open until the daemon ends: a reload builds new parts that use it."""

    helpers: Helpers
    store: Store
    cluster: str
    runner: Runner
    source: JobSource
    source_settings: tuple[object, ...]
    term: LeaseTerm | None = None  # under which this process acts; None: it does not act, or is a test

    def find_source(self, config: Config) -> JobSource:
        """Return the open job source, or a new one if its settings have changed.

        Raises:
            CkptdError: the source cannot be opened as configured; the old one stays.

        """
        settings = _list_source_settings(config)
        if settings != self.source_settings:
            self.source = build_source(config, self.helpers.only_user)
            self.source_settings = settings
        return self.source


def open_cluster(config: Config, helpers: Helpers, runner: Runner, now: datetime) -> OpenCluster | Unknown:
    """Open the database and the job source; Unknown while the cluster's name is not known.

    Raises:
        CkptdError: the database or the cluster cannot be used as configured; the text says what to do.

    """
    source = build_source(config, helpers.only_user)
    store = open_store(config, is_upgraded=config.store.upgrade == "on-start")
    if config.slurm.cluster and config.slurm.source != "replay":
        check_cluster(config.slurm.cluster, Programs(timeout_seconds=config.slurm.timeout.total_seconds()), store)
    cluster = config.slurm.cluster or find_cluster(source, store, now)
    if isinstance(cluster, Unknown):
        store.close()
        return cluster
    return OpenCluster(
        helpers=helpers,
        store=store,
        cluster=cluster,
        runner=runner,
        source=source,
        source_settings=_list_source_settings(config),
    )


def build(config: Config, opened: OpenCluster) -> Parts:
    """Build what the steps work with, at the start and at every reload.

    Raises:
        CkptdError: something cannot be used as configured; the text says what to do.

    """
    helpers, term = opened.helpers, opened.term
    source = opened.find_source(config)
    agent = helpers.agent if term is None else LeasedAgent(helpers.agent, term)
    parts = build_parts(config, source, opened.store, agent, opened.cluster, opened.runner)
    post = build_post(config, parts)
    if term is not None:
        parts = replace(parts, require_lease=term.require)
        term.share(helpers.agent.show_lease)
        post = replace(post, channels={name: LeasedChannel(each, term) for name, each in post.channels.items()})
    jobs = config.verify_jobs
    return replace(
        parts,
        watcher=helpers.watcher,
        post=post,
        retention=build_retention(config),
        job_executor=build_job_executor(jobs, agent, opened.store),
        verify_place=find_verify_place(jobs),
    )


def build_parts(
    config: Config, source: JobSource, store: Store, agent: BatchRunner, cluster: str, runner: Runner
) -> Parts:
    """Build the parts that commands need, too: everything but mail and retention."""
    return Parts(
        cluster=cluster,
        runner=runner,
        source=source,
        store=store,
        agent=agent,
        rules=build_rules(config.health.rules),
        overrides=build_overrides(config.health),
        site_rules=tuple(SiteRule(**rule.model_dump()) for rule in config.watch),
        limits=build_limits(config),
        read_maintenance=source.read_maintenance,
        read_clock=source.read_clock,
        reads_batch_scripts=config.slurm.read_batch_scripts,
        site_variables=dict(config.scan.variables),
        node_scans=build_node_scans(config.node_scans),
        budgets=build_budgets(config),
        purge_rules=build_purge_rules(config),
        workspace_databases=config.scan.workspace_databases,
        shared=shared_files.declare(cluster, [(each.clusters, each.directories) for each in config.shared]),
        backfill_window=build_backfill_window(config),
        poll_interval=config.slurm.poll_interval,
        scan_interval=config.scan.interval,
        max_poll_age=max(config.slurm.poll_interval * MISSED_POLLS, timedelta(seconds=10)),
        min_job_duration=config.health.min_job_duration,
        permits=build_permits(config),
        programs=Programs(timeout_seconds=config.slurm.timeout.total_seconds()),
        notice_policy=build_policy(config),
        keep=config.store.keep,
        keep_checkpoints=config.store.keep_checkpoints,
    )


def _list_source_settings(config: Config) -> tuple[object, ...]:
    slurm = config.slurm
    return slurm.source, slurm.cluster, slurm.timeout, slurm.replay_path, slurm.rest_url, slurm.rest_token_file


def build_backfill_window(config: Config) -> BackfillWindow | None:
    """Return after which gap between polls ckptd queries accounting, and how far back."""
    slurm = config.slurm
    return BackfillWindow(after=slurm.backfill_after, most=slurm.backfill_max_age) if slurm.backfill else None


def find_cluster(source: JobSource, store: Store, now: datetime) -> str | Unknown:
    """Return the cluster's name from Slurm; if Slurm does not answer, from slurm.conf, or else the only one on record.

    Another cluster may share the database, so that the only one on record need not be this host's.
    """
    snapshot = source.read_queue(now)
    if isinstance(snapshot, QueueSnapshot):
        return snapshot.cluster
    if local := read_local_cluster():
        return local
    recorded = store.clusters.read_status()
    return recorded[0].cluster if len(recorded) == 1 else snapshot


def check_cluster(configured: str, programs: Programs, store: Store) -> None:
    """Check that Slurm here is not another cluster of the database; without an answer, the polls check it.

    Raises:
        OtherClusterError: it is; the daemon would take its jobs for those of the configured one.

    """
    name = ClusterFacts(programs, configured).read_other_name()
    if name in {status.cluster for status in store.clusters.read_status()}:
        raise OtherClusterError(
            f'slurm.cluster is "{configured}", but Slurm here is the cluster "{name}", which the database has, too: '
            "remove slurm.cluster, or let SLURM_CONF name the slurm.conf of the other cluster"
        )


def build_source(config: Config, only_user: str | None) -> JobSource:
    """Open the job source that the configuration names."""
    slurm = config.slurm
    return open_source(
        slurm.source,
        cluster=slurm.cluster,
        timeout_seconds=slurm.timeout.total_seconds(),
        only_user=only_user,
        replay_from=slurm.replay_path,
        rest=RestClient(
            url=slurm.rest_url,
            token_file=slurm.rest_token_file,
            timeout_seconds=slurm.timeout.total_seconds(),
        ),
    )


def build_access_rules(config: Config) -> AccessRules:
    """Return who may see what on the status page."""
    web = config.web
    return AccessRules(
        operators=frozenset(web.operators),
        local_users=web.local_users,
        trusted_proxies=web.trusted_proxies,
        proxy_account=web.proxy_account,
        user_header=web.user_header,
    )


def build_limits(config: Config) -> ScanLimits:
    """Return the limit of a scan or search."""
    return ScanLimits(deadline=config.scan.deadline)


def build_budgets(config: Config) -> tuple[FileSystemBudget, ...]:
    """Return the limits of scans and searches for each file system that has any."""
    most_entries = max(config.scan.max_entries, config.scan.discovery_entries)
    return tuple(FileSystemBudget(**each.model_dump(), most_entries=most_entries) for each in config.file_system)


def build_purge_rules(config: Config) -> tuple[PurgeRule, ...]:
    """Return which files the site deletes by itself, and when."""
    return tuple(
        PurgeRule(path=each.path, age=timedelta(days=each.days), by=FileClock(each.by)) for each in config.purge
    )


def build_permits(config: Config) -> ActionPermits:
    """Return which actions on jobs the site allows, and in which partitions."""
    section = config.actions
    return ActionPermits(
        partitions={
            ActionKind.SIGNAL: section.signal,
            ActionKind.HOLD: section.hold,
            ActionKind.SUMMARY: section.summary,
            ActionKind.RESUBMIT: section.resubmit,
        },
        signal_margin=section.signal_margin,
        min_loss=section.min_loss,
        max_resubmits=section.max_resubmits,
        max_per_cycle=section.max_per_cycle,
        max_per_hour=section.max_per_hour,
    )
