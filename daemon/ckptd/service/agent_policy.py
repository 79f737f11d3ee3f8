"""Reads the agent's policy from the configuration file, which only root may have written.

An agent that runs as an ordinary user has no privileges to protect: then the file may belong to anyone.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ckptd.checkpoints.agent.identities import read_identities
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.config import Config, find_file, read_config
from ckptd.config.local_cluster import read_local_cluster
from ckptd.config.node_scans_table import NodeScansSection
from ckptd.core.node_scans.step_policy import NodeScanPolicy
from ckptd.core.retention import PolicyMode
from ckptd.core.verification.job_policy import VerifyJobPolicy
from ckptd.service.trusted_file import check_trusted


def read_policy(path: Path | None, environment: Mapping[str, str], *, is_person: bool = False) -> RequestPolicy:
    """Read the file and return the agent's policy, for an agent started by a person's command or by the daemon.

    Raises:
        ConfigError: the file cannot be read, is invalid, or somebody other than root may write it.

    """
    chosen = find_file(path)
    if chosen is not None and os.geteuid() == 0:
        check_trusted(chosen)
    return replace(build_policy(read_config(chosen, environment)), is_person=is_person)


def build_policy(config: Config) -> RequestPolicy:
    """Return the agent's policy as the configuration sets it."""
    scan, agent, retention = config.scan, config.agent, config.retention
    return RequestPolicy(
        identities=read_identities(agent.uid_min, agent.deny_users, agent.deny_groups),
        allowed_roots=tuple(map(str, scan.allowed_roots)),
        quota_command=scan.quota_command,
        workspace_databases=tuple(map(str, scan.workspace_databases)),
        write_grace_seconds=scan.write_grace.total_seconds(),
        max_depth=scan.max_depth,
        max_entries=scan.max_entries,
        discovery_depth=scan.discovery_depth,
        discovery_entries=scan.discovery_entries,
        signal_partitions=config.actions.signal,
        hold_partitions=config.actions.hold,
        resubmit_partitions=config.actions.resubmit,
        max_resubmits=config.actions.max_resubmits,
        verify_jobs=_build_verify_jobs(config),
        node_scans=build_node_scans(config.node_scans),
        max_requests_per_minute=agent.max_requests_per_minute,
        may_move=any((policy.mode or retention.mode) is PolicyMode.ENFORCE for policy in retention.policy),
        hold_seconds=retention.hold.total_seconds(),
        no_room_hold_seconds=None if retention.no_room_hold is None else retention.no_room_hold.total_seconds(),
        clock_tolerance_seconds=retention.guards.clock_tolerance.total_seconds(),
    )


def _build_verify_jobs(config: Config) -> VerifyJobPolicy:
    section = config.verify_jobs
    return VerifyJobPolicy(
        partition=section.partition or "",
        account=section.account or "",
        qos=section.qos or "",
        time_limit_minutes=max(1, round(section.time_limit.total_seconds() / 60)),
        nice=section.nice,
        max_running=section.max_running,
        max_tasks=section.max_tasks,
        max_jobs=section.max_per_user,
        python=str(section.python or sys.executable),
        directory=section.directory,
        scan_entries=section.scan_beyond,
        cluster=read_local_cluster() or "",  # slurm.cluster may change with a reload, and must be this one
    )


def build_node_scans(section: NodeScansSection) -> NodeScanPolicy:
    """Return which locations only nodes see, and what steps there may be."""
    return NodeScanPolicy(
        directories=tuple(map(str, section.directories)),
        partitions=section.partitions,
        interval_seconds=section.interval.total_seconds(),
        seconds=max(1, round(section.time_limit.total_seconds())),
        max_running=section.max_running,
        python=str(section.python or sys.executable),
    )
