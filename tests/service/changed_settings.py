"""A configuration, and another value of every setting: what the tests of a reload change."""

import copy
from typing import get_args

from ckptd.config import Config, Section
from support.queue_facts import CLUSTER

BASE = {
    "slurm": {"source": "replay", "replay_path": "{root}/queue", "cluster": CLUSTER},
    "store": {"url": "sqlite:///{root}/ckptd.sqlite3"},
    "watch": [{"directory": "{{work_dir}}/ckpts"}],
    "file_system": [{"path": "/scratch", "parallel": 2}],
    "purge": [{"path": "/scratch", "days": 60}],
    "shared": [{"clusters": [CLUSTER, "beta"], "directories": ["/project"]}],
    "health": {"override": [{"partition": "gpu", "rules": {"at-risk": {"enabled": False}}}]},
    "retention": {"policy": [{"name": "tight", "last": 2, "within": "1d"}]},
    "mail": {
        "mode": "on",
        "sender": "ckptd@example.org",
        "recipient": "{{user}}@example.org",
        "admins": ["root@example.org"],
        "username": "ckptd",
        "password_file": "{root}/password",
    },
    "apprise": {"urls_file": "{root}/urls"},
    "service": {"log_level": "warning"},
}
CHANGED = {
    "verify_jobs.partition": "low",
    "verify_jobs.account": "checks",
    "verify_jobs.qos": "scavenger",
    "verify_jobs.time_limit": "3h",
    "verify_jobs.nice": 7,
    "verify_jobs.task_size": "1 GiB",
    "verify_jobs.max_tasks": 9,
    "verify_jobs.max_running": 2,
    "verify_jobs.max_per_user": 2,
    "verify_jobs.max_tries": 2,
    "verify_jobs.max_wait": "1d",
    "verify_jobs.scan_beyond": 1000,
    "verify_jobs.fallback": True,
    "verify_jobs.python": "/opt/ckptd/bin/python3",
    "verify_jobs.directory": "/scratch/checks/{{uid}}",
    "node_scans.directories": ["/local"],
    "node_scans.partitions": ["gpu*"],
    "node_scans.interval": "1h",
    "node_scans.time_limit": "2m",
    "node_scans.max_running": 1,
    "node_scans.python": "/opt/ckptd/bin/python3",
    "slurm.source": "squeue",
    "slurm.cluster": "another",
    "slurm.poll_interval": "10m",
    "slurm.timeout": "7s",
    "slurm.backfill": False,
    "slurm.backfill_after": "4m",
    "slurm.backfill_max_age": "2d",
    "slurm.replay_path": "{root}/another-queue",
    "slurm.rest_url": "http://slurm.example.org:6820",
    "slurm.rest_token_file": "{root}/token",
    "slurm.read_batch_scripts": True,
    "store.url": "sqlite:///{root}/another.sqlite3",
    "store.password_file": "{root}/password",
    "store.upgrade": "refuse",
    "store.keep": "100d",
    "store.keep_checkpoints": "9d",
    "scan.interval": "1m",
    "scan.write_grace": "5s",
    "scan.deadline": "9s",
    "scan.max_depth": 3,
    "scan.max_entries": 1000,
    "scan.variables": {"SCRATCH": "/scratch/{{user}}"},
    "scan.discovery_depth": 1,
    "scan.discovery_entries": 100,
    "scan.allowed_roots": ["/home"],
    "scan.inotify": False,
    "scan.quota_command": ["quota"],
    "scan.workspace_databases": ["/lustre/ws-database"],
    "file_system.0.path": "/lustre",
    "file_system.0.entries_per_second": 10_000,
    "file_system.0.parallel": 4,
    "purge.0.path": "/lustre",
    "purge.0.days": 14,
    "purge.0.by": "mtime",
    "shared.0.clusters": [CLUSTER, "gamma"],
    "shared.0.directories": ["/project", "/work"],
    "watch.0.directory": "{{home}}/ckpts",
    "watch.0.directories": ["{{home}}/ckpts", "{{home}}/copies"],
    "watch.0.partition": "gpu",
    "watch.0.account": "lab",
    "watch.0.user": "alice",
    "watch.0.qos": "long",
    "watch.0.job_name": "train*",
    "health.min_job_duration": "1h",
    "health.rules": {"at-risk": {"enabled": False}},
    "health.override.0.partition": "cpu",
    "health.override.0.account": "lab",
    "health.override.0.user": "alice",
    "health.override.0.rules": {"too-sparse": {"enabled": False}},
    "retention.mode": "enforce",
    "retention.hold": "9d",
    "retention.no_room_hold": "1d",
    "retention.min_age": "2h",
    "retention.verify": "full",
    "retention.verify_age": "2d",
    "retention.verify_deadline": "20m",
    "retention.interval": "1m",
    "retention.guards.stale_after": "2h",
    "retention.guards.restart_grace": "20m",
    "retention.guards.last_minutes": "20m",
    "retention.guards.save_grace": "2h",
    "retention.guards.clock_tolerance": "1m",
    "retention.caps.cycle_count": 7,
    "retention.caps.user_count": 7,
    "retention.caps.filesystem_count": 7,
    "retention.caps.filesystem_share": 0.5,
    "retention.caps.user_files": 7,
    "retention.caps.error_count": 7,
    "retention.caps.error_window": "7h",
    "retention.bounds.max_count": 7,
    "retention.bounds.min_every": 7,
    "retention.bounds.max_within": "7d",
    "retention.bounds.allow_everything": True,
    "retention.policy.0.name": "another",
    "retention.policy.0.partition": "gpu",
    "retention.policy.0.account": "lab",
    "retention.policy.0.user": "alice",
    "retention.policy.0.qos": "long",
    "retention.policy.0.job_name": "train*",
    "retention.policy.0.format": "numpy",
    "retention.policy.0.roles": ["state", "weights"],
    "retention.policy.0.formats": ["numpy"],
    "retention.policy.0.prune_files": ["*.tmp"],
    "retention.policy.0.mode": "enforce",
    "retention.policy.0.min_age": "3h",
    "retention.policy.0.verify": "full",
    "retention.policy.0.verify_age": "3d",
    "retention.policy.0.max_total_size": "1GiB",
    "retention.policy.0.last": 3,
    "retention.policy.0.best": 1,
    "retention.policy.0.every": {"epochs": 10},
    "retention.policy.0.within": "2d",
    "retention.policy.0.hourly": 3,
    "retention.policy.0.daily": 3,
    "retention.policy.0.weekly": 3,
    "retention.policy.0.monthly": 3,
    "retention.policy.0.pinned": True,
    "mail.mode": "admin",
    "mail.sender": "another@example.org",
    "mail.recipient": "{{user}}@another.example.org",
    "mail.allowed_domains": ["another.example.org"],
    "mail.admins": ["admin@example.org"],
    "mail.relays": ["relay.example.org:587"],
    "mail.security": "tls",
    "mail.ca_file": "{root}/ca.pem",
    "mail.username": "another",
    "mail.password_file": "{root}/another-password",
    "mail.timeout": "7s",
    "mail.max_per_minute": 7,
    "mail.max_per_hour": 7,
    "mail.max_per_user": 7,
    "mail.max_bytes": 70_000,
    "mail.max_entries": 7,
    "mail.critical_window": "7m",
    "mail.warning_window": "2h",
    "mail.info_window": "2d",
    "mail.repeat_gap": "9d",
    "mail.max_repeats": 7,
    "mail.notify_resolved": False,
    "mail.templates": "{root}/templates",
    "apprise.urls_file": "{root}/another-urls",
    "apprise.audience": ["user"],
    "actions.signal": ["gpu"],
    "actions.hold": ["gpu"],
    "actions.summary": ["gpu"],
    "actions.resubmit": ["gpu"],
    "actions.signal_margin": "7s",
    "actions.min_loss": "7m",
    "actions.max_resubmits": 7,
    "actions.max_per_cycle": 7,
    "actions.max_per_hour": 7,
    "web.listen": "127.0.0.1:9999",
    "web.config_file": "{root}/web.yml",
    "web.operators": ["alice"],
    "web.local_users": False,
    "web.trusted_proxies": ["192.0.2.1"],
    "web.proxy_account": "nobody",
    "web.user_header": "X-User",
    "metrics.flagged_jobs": 7,
    "agent.uid_min": 5000,
    "agent.deny_users": ["root"],
    "agent.deny_groups": ["daemon"],
    "agent.max_requests_per_minute": 77,
    "service.user": "nobody",
    "service.state_directory": "{root}/state",
    "service.log_level": "error",
    "service.standby": "refuse",
    "service.heartbeat_url": "https://alive.example.org/another",
}

# With which other settings these have an effect.
WITH = {
    "slurm.rest_url": {"slurm.source": "slurmrestd"},
    "slurm.rest_token_file": {"slurm.source": "slurmrestd"},
    "verify_jobs.scan_beyond": {"verify_jobs.partition": "low"},
    "verify_jobs.fallback": {"verify_jobs.partition": "low"},
}


def list_settings(model=Config, prefix=""):
    """Every setting of the model by its key; of a list of tables, those of the first table."""
    for name, field in model.model_fields.items():
        nested = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        table = next((kind for kind in nested if issubclass(kind, Section)), None)
        if table is None:
            yield f"{prefix}{name}"
        else:
            yield from list_settings(table, f"{prefix}{name}." if table is field.annotation else f"{prefix}{name}.0.")


def fill(value, root):
    if isinstance(value, str):
        return value.format(root=root)
    if isinstance(value, list):
        return [fill(each, root) for each in value]
    return {key: fill(each, root) for key, each in value.items()} if isinstance(value, dict) else value


def make_config(root, **changes):
    document = copy.deepcopy(BASE)
    for name, value in changes.items():
        *tables, key = name.split(".")
        table = document
        for part in tables:
            table = table[int(part)] if part.isdigit() else table.setdefault(part, {})
        table[key] = value
        if key == "directories":
            table.pop("directory", None)  # only one of them may be given
    return Config.model_validate(fill(document, root))
