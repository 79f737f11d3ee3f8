"""Slurm's accounting for a private cluster: slurmdbd on a MariaDB of its own, reached by a socket alone."""

import os
import subprocess
from pathlib import Path

from demo.daemons import Daemons
from demo.errors import DemoError
from demo.slurm_conf import Layout, format_slurmdbd_conf


def start(layout: Layout, daemons: Daemons) -> None:
    """Start MariaDB and slurmdbd and wait until both answer.

    Raises:
        DemoError: one of them is not installed or does not come up.

    """
    start_database(layout.directory / "mysql", layout.database_socket, daemons)
    layout.slurmdbd_conf.write_text(format_slurmdbd_conf(layout))
    layout.slurmdbd_conf.chmod(0o600)
    environment = {"SLURM_CONF": str(layout.slurm_conf), "MYSQL_UNIX_PORT": str(layout.database_socket)}
    daemons.start("slurmdbd", ["slurmdbd", "-D"], environment)
    # slurmctld's first start is fatal ("no TRES") where slurmdbd does not answer yet.
    daemons.wait_ready("slurmdbd", lambda: _answers(layout))


def start_database(directory: Path, socket: Path, daemons: Daemons) -> None:
    directory.mkdir(mode=0o700)
    data = directory / "data"
    # Each MariaDB that starts removes temporary tables where it keeps its own: two in one place break each other.
    environment = {**os.environ, "TMPDIR": str(directory)}
    try:
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"],
            check=True,
            capture_output=True,
            env=environment,
        )
    except FileNotFoundError as error:
        raise DemoError("mariadb-server is not installed: run `deploy/demo/install test` as root.") from error
    # The directory is closed to all but root, so the server need not ask who comes.
    # fmt: off
    daemons.start("mariadbd", [
        "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}", "--skip-networking",
        "--skip-grant-tables", "--innodb-flush-log-at-trx-commit=0", f"--pid-file={directory}/pid",
        f"--tmpdir={directory}",
    ])
    # fmt: on
    daemons.wait_ready("mariadbd", socket.is_socket)


def _answers(layout: Layout) -> bool:
    asked = subprocess.run(
        ["sacctmgr", "--noheader", "show", "cluster"],
        env={**os.environ, "SLURM_CONF": str(layout.slurm_conf)},
        capture_output=True,
        check=False,
    )
    return asked.returncode == 0
