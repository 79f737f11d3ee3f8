"""The configuration texts of a private cluster.

Measured on Slurm 22.05: an empty value is fatal, so nothing absent is written at all; `cred_expire=5` lets a
requeued job start again after seconds instead of two minutes; without `config_overrides` nodes with more
processors than the host are drained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a cluster keeps its things, and the ports it has."""

    directory: Path
    cluster_name: str
    host: str
    address: str
    is_loopback_only: bool
    controller_port: int
    node_ports: Sequence[int]
    cpus_per_node: int
    database_port: int | None = None
    gpus_per_node: Mapping[str, int] = field(default_factory=dict)  # how many of each model
    has_tokens: bool = False  # whether `scontrol token` makes JWTs

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, len(self.node_ports) + 1)]

    @property
    def munge_socket(self) -> Path:
        return self.directory / "munge/socket"

    @property
    def token_key(self) -> Path:
        return self.directory / "etc/jwt.key"

    @property
    def slurm_conf(self) -> Path:
        return self.directory / "etc/slurm.conf"

    @property
    def gres_conf(self) -> Path:
        return self.directory / "etc/gres.conf"

    @property
    def gpu_devices(self) -> Mapping[str, Sequence[Path]]:
        """Where each model's devices are."""
        numbers = iter(range(sum(self.gpus_per_node.values())))
        return {
            model: [self.directory / f"run/gpu{next(numbers)}" for _ in range(count)]
            for model, count in self.gpus_per_node.items()
        }

    @property
    def slurmdbd_conf(self) -> Path:
        return self.directory / "etc/slurmdbd.conf"

    @property
    def database_socket(self) -> Path:
        return self.directory / "mysql/socket"


def format_slurm_conf(layout: Layout) -> str:
    """Return the text of slurm.conf."""
    settings = {
        "ClusterName": layout.cluster_name,
        "SlurmctldHost": f"{layout.host}({layout.address})",
        "SlurmctldPort": layout.controller_port,
        **({"CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny"} if layout.is_loopback_only else {}),
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket},cred_expire=5",
        "CredType": "cred/munge",
        "StateSaveLocation": layout.directory / "state",
        "SlurmdSpoolDir": layout.directory / "spool/%n",
        "SlurmctldPidFile": layout.directory / "run/slurmctld.pid",
        "SlurmdPidFile": layout.directory / "run/slurmd-%n.pid",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "JobAcctGatherType": "jobacct_gather/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SchedulerParameters": "sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "ReturnToService": 2,
        "SlurmdTimeout": 60,
        "MessageTimeout": 10,
        "KillWait": 5,
        "MinJobAge": 300,
        **_accounting(layout),
        **_tokens(layout),
    }
    gpus = ",".join(f"gpu:{model}:{count}" for model, count in layout.gpus_per_node.items())
    each = f"NodeHostname={layout.host} NodeAddr={layout.address} CPUs={layout.cpus_per_node}"
    if gpus:
        settings["GresTypes"] = "gpu"
        each = f"{each} Gres={gpus}"
    nodes = [
        f"NodeName={name} Port={port} {each}" for name, port in zip(layout.node_names, layout.node_ports, strict=True)
    ]
    everywhere = f"Nodes={','.join(layout.node_names)} DefaultTime=60 State=UP"
    partitions = [
        f"PartitionName=main {everywhere} Default=YES PriorityTier=1",
        f"PartitionName=urgent {everywhere} PriorityTier=10 PreemptMode=OFF",  # its jobs take nodes from main's
    ]
    return "\n".join([*(f"{key}={value}" for key, value in settings.items()), *nodes, *partitions, ""])


def format_gres_conf(layout: Layout) -> str:
    """Return the text of gres.conf."""
    lines = [f"Name=gpu Type={model} File={path}" for model, paths in layout.gpu_devices.items() for path in paths]
    return "\n".join([*lines, ""])


def _tokens(layout: Layout) -> dict[str, object]:
    if not layout.has_tokens:
        return {}
    return {"AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={layout.token_key}"}


def _accounting(layout: Layout) -> dict[str, object]:
    if layout.database_port is None:
        return {"AccountingStorageType": "accounting_storage/none"}
    tres = ",".join(["gres/gpu", *(f"gres/gpu:{model}" for model in layout.gpus_per_node)])
    return {
        **({"AccountingStorageTRES": tres} if layout.gpus_per_node else {}),
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": layout.database_port,
        "AccountingStoragePass": layout.munge_socket,  # AuthInfo's socket does not serve this link
        "AccountingStoreFlags": "job_comment,job_script",
    }


def format_slurmdbd_conf(layout: Layout) -> str:
    """Return the text of slurmdbd.conf."""
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "DbdHost": layout.host,
        "DbdAddr": "127.0.0.1",
        "DbdPort": layout.database_port,
        "SlurmUser": "root",
        "PidFile": layout.directory / "run/slurmdbd.pid",
        "LogFile": layout.directory / "log/slurmdbd.log",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": "slurm",
    }
    return "\n".join([*(f"{key}={value}" for key, value in settings.items()), ""])
