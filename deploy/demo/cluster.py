"""A private Slurm cluster: real munged, slurmctld and slurmd, real users, jobs that really run."""

import itertools
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from demo import accounting, keeper, ports
from demo.daemons import Daemons
from demo.errors import DemoError
from demo.patience import Deadline, allow
from demo.slurm_conf import Layout, format_gres_conf, format_slurm_conf
from demo.users import JobUser, create_user

# Containers do not allow slurmrestd to unshare.
REST_SECURITY = {"SLURMRESTD_SECURITY": "disable_unshare_files,disable_unshare_sysv"}
LONGEST_PAUSE_SECONDS = 0.5  # between two questions of a wait: most start a program of Slurm
PORT_TAKEN = "Address already in use"  # by another process, since it was found free


class PrivateCluster:
    """Slurm in a directory of its own; used as a context manager, it leaves nothing behind."""

    def __init__(  # noqa: PLR0913 - independent options, each with a default
        self,
        *,
        name: str = "private",
        nodes: int = 2,
        cpus_per_node: int = 16,
        gpus_per_node: Mapping[str, int] | None = None,
        with_accounting: "bool | PrivateCluster" = False,
        with_tokens: bool = False,
        user_prefix: str = "ckdemo-",
        has_local_disks: bool = False,
    ) -> None:
        """Describe a cluster; its accounting, and with it its users' credentials, may be another one's."""
        self._has_local_disks = has_local_disks
        self._name = name
        self._nodes = nodes
        self._cpus_per_node = cpus_per_node
        self._gpus_per_node = gpus_per_node or {}
        self._beside = with_accounting if isinstance(with_accounting, PrivateCluster) else None
        self._with_accounting = with_accounting is True
        self._with_tokens = with_tokens
        self._user_prefix = user_prefix
        self.users: dict[str, JobUser] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        return self._layout.directory

    @property
    def local_disk(self) -> Path:
        """Where each node has a file system of its own that nobody else sees, if the cluster has local disks."""
        return self.directory / "local"

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's commands need in their environment to speak to this cluster."""
        return {"SLURM_CONF": str(self._layout.slurm_conf)}

    @property
    def database_port(self) -> int | None:
        """Where slurmdbd listens."""
        return self._layout.database_port

    @property
    def munge_socket(self) -> Path:
        return self._layout.munge_socket

    @property
    def node_names(self) -> list[str]:
        return self._layout.node_names

    def start(self) -> None:
        """Start everything and wait until every node is idle.

        Raises:
            DemoError: something is missing or does not come up.

        """
        if os.geteuid() != 0:
            raise DemoError("the private cluster needs root, to run jobs as different users: try again with sudo.")
        keeper.sweep()
        try:
            self._start()
        except DemoError as error:
            if PORT_TAKEN not in str(error):
                raise
            self._start()

    def _start(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix=keeper.NAME_PREFIX, dir=keeper.TOP))
        directory.chmod(0o755)
        self._keeper = keeper.start(directory)
        self.daemons = Daemons(directory)
        try:
            self._layout = self._lay_out(directory)
            self._start_daemons()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the cluster, its jobs' too, and remove its users and its directory."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        self.daemons.wait_ended()

    def _lay_out(self, directory: Path) -> Layout:
        for name in ("etc", "state", "spool", "run", "log", "home", "munge"):
            (directory / name).mkdir()
        host = socket.gethostname()
        loopback = ports.find_loopback_address(host)
        free = ports.find_free_ports(self._nodes + 2)
        layout = Layout(
            directory=directory,
            cluster_name=self._name,
            host=host.partition(".")[0],
            address=loopback or "127.0.0.1",
            is_loopback_only=loopback is not None,
            controller_port=free[0],
            database_port=self._beside.database_port if self._beside else free[1] if self._with_accounting else None,
            node_ports=free[2:],
            cpus_per_node=self._cpus_per_node,
            gpus_per_node=self._gpus_per_node,
            has_tokens=self._with_tokens,
        )
        if layout.has_tokens:
            layout.token_key.touch(mode=0o600)
            layout.token_key.write_bytes(os.urandom(32))
        layout.slurm_conf.write_text(format_slurm_conf(layout))
        if self._gpus_per_node:
            for path in itertools.chain.from_iterable(layout.gpu_devices.values()):
                path.symlink_to(os.devnull)  # slurmd asks no more of a GPU than that it is a device
            layout.gres_conf.write_text(format_gres_conf(layout))
        return layout

    def _start_daemons(self) -> None:
        self._start_munged()
        if self._with_accounting:
            accounting.start(self._layout, self.daemons)
        for node in self.node_names:
            self.start_node(node)
        self.start_controller()
        self.wait_for("every node to be idle", self._are_nodes_idle)

    def _start_munged(self) -> None:
        if self._beside is not None:
            self._layout.munge_socket.symlink_to(self._beside.munge_socket)
            return
        directory = self._layout.munge_socket.parent
        key = directory / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        # fmt: off
        self.daemons.start("munged", [
            "munged", "--foreground", "--force", f"--socket={self._layout.munge_socket}", f"--key-file={key}",
            f"--pid-file={directory}/pid", f"--seed-file={directory}/seed",
        ])
        # fmt: on
        self.daemons.wait_ready("munged", self._layout.munge_socket.is_socket)

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self.daemons.start("slurmctld", ["slurmctld", "-D"], self.environment)
        self.daemons.wait_ready("slurmctld", self.is_controller_up)

    def stop_controller(self) -> None:
        """Stop slurmctld; jobs run on."""
        self.daemons.stop("slurmctld")

    def is_controller_up(self) -> bool:
        """Ask whether slurmctld answers."""
        return self._run(["scontrol", "ping"], None, None, {}).returncode == 0

    def start_rest(self, account: JobUser) -> str:
        """Start slurmrestd as this user, because it refuses root; return its socket's URL, which root may use, too."""
        directory = self.directory / "rest"
        directory.mkdir()
        os.chown(directory, account.uid, account.gid)
        path = directory / "socket"
        drop = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
        argv = [*drop, "slurmrestd", "-a", "rest_auth/local", f"unix:{path}"]
        self.daemons.start("slurmrestd", argv, {**self.environment, **REST_SECURITY})
        self.daemons.wait_ready("slurmrestd", path.is_socket)
        return f"unix:{path}"

    def start_rest_with_tokens(self, account: JobUser) -> str:
        """Start a slurmrestd on TCP, which accepts only tokens of `scontrol token`; return its URL."""
        (port,) = ports.find_free_ports(1)
        drop = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
        argv = [*drop, "slurmrestd", "-a", "rest_auth/jwt", f"127.0.0.1:{port}"]
        self.daemons.start("slurmrestd-tcp", argv, {**self.environment, **REST_SECURITY, "SLURM_JWT": "daemon"})
        self.daemons.wait_ready("slurmrestd-tcp", lambda: ports.is_served(port))
        return f"http://127.0.0.1:{port}"

    def start_node(self, node: str) -> None:
        """Start the slurmd of one node."""
        (self.directory / "spool" / node).mkdir(exist_ok=True)
        argv = ["slurmd", "-D", "-N", node]
        if self._has_local_disks:
            self.local_disk.mkdir(exist_ok=True)
            mount = f"mount -t tmpfs -o mode=1777 tmpfs {shlex.quote(str(self.local_disk))}"
            argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", f"{mount} && exec {shlex.join(argv)}"]
        self.daemons.start(f"slurmd-{node}", argv, self.environment)

    def kill_node(self, node: str) -> None:
        """Kill one node's slurmd and let slurmctld know; what ran there runs on unseen, as on a real failure."""
        self.daemons.stop(f"slurmd-{node}", signal.SIGKILL)
        self.command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def create_user(self, name: str) -> JobUser:
        """Create a Linux user for jobs; its real name gets the cluster's prefix.

        Raises:
            DemoError: a user of that name is there already.

        """
        user = create_user(f"{self._user_prefix}{name}", self.directory / "home" / name)
        self.users[name] = user
        keeper.record_users(self.directory, {user.name: user.uid for user in self.users.values()})
        return user

    def submit(
        self,
        user: JobUser,
        script: Path | str,
        *options: str,
        work_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Submit a batch script (a file, or its text) as a user; return the job id."""
        argv = ["sbatch", "--parsable", f"--chdir={work_dir or user.home}", *options]
        text = script if isinstance(script, str) else script.read_text()
        return int(self.command(*argv, user=user, stdin=text, environment=environment).partition(";")[0])

    def command(
        self,
        *argv: str,
        user: JobUser | None = None,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command against this cluster, as root or as one of its users; return what it prints.

        Raises:
            DemoError: it fails; the text holds what it said.

        """
        done = self._run(argv, user, stdin, environment or {})
        if done.returncode != 0:
            raise DemoError(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def read_job(self, job_id: int | str, field: str) -> str:
        """Ask squeue for one field of a job (`%T` is its state); empty where Slurm knows no such job."""
        argv = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={job_id}", f"--format={field}"]
        return self._run(argv, None, None, {}).stdout.strip()

    def cancel_all(self) -> None:
        """Cancel every job and wait until none runs."""
        for user in self.users.values():
            self.cancel_jobs(user)

    def cancel_jobs(self, user: JobUser) -> None:
        """Cancel a user's jobs, also those that answer by requeueing themselves, and wait until none is left."""
        mine = f"--user={user.name}"

        def cancel_and_look() -> bool:
            self.command("scancel", mine)
            return not self.command("squeue", "--noheader", mine).strip()

        self.wait_for("every job to end", cancel_and_look, pause_seconds=0.3)

    def _run(
        self, argv: Sequence[str], user: JobUser | None, stdin: str | None, environment: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            user.command(*argv) if user else argv,
            env={**(user.environment if user else os.environ), **self.environment, **environment},
            input=stdin or "",
            cwd="/",
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=allow(120),
            check=False,
        )

    def _are_nodes_idle(self) -> bool:
        for node in self.node_names:
            self.daemons.check_running(f"slurmd-{node}")
        states = self._run(["sinfo", "--noheader", "--Node", "--format=%T"], None, None, {}).stdout.split()
        return set(states) == {"idle"}

    def wait_for(
        self, what: str, holds: Callable[[], bool], *, seconds: float = 60, pause_seconds: float = 0.1
    ) -> None:
        """Wait until `holds` does, asking it again after pauses that become longer.

        Raises:
            DemoError: it did not within `seconds`, which a busy host makes longer; the text names `what`.

        """
        deadline = Deadline(seconds)
        while not holds():
            if deadline.has_passed():
                raise DemoError(f"waited {deadline.elapsed:.0f} s in vain for {what}.")
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, max(pause_seconds, LONGEST_PAUSE_SECONDS))
