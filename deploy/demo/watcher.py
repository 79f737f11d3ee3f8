"""Runs `ckptd run` beside a private cluster and asks it what it knows, by its own commands."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from demo import ports
from demo.cluster import PrivateCluster
from demo.errors import DemoError
from demo.patience import allow

CKPTD = Path(sys.executable).parent / "ckptd"
USUAL_PORT = 9478

# Minutes stand for days: what takes hours on a real cluster must be seen within a coffee.
SETTINGS = """
[slurm]
poll_interval = "2s"
timeout = "5s"

[scan]
interval = "3s"
write_grace = "5s"
allowed_roots = ["{homes}"]

[health]
min_job_duration = "30s"

[health.rules.no-checkpoint-yet]
after = "40s"

[health.rules.volatile-path]
enabled = false  # the homes are below /tmp

[health.rules.restarted-without-checkpoint]
min_loss = "10s"

[health.rules.at-risk]
margin = "5s"
min_loss = "15s"

[web]
listen = "{listen}"
operators = {operators}

[service]
state_directory = "{state}"
"""


class Watcher:
    """One ckptd with its configuration, state and log inside the cluster's directory."""

    def __init__(self, cluster: PrivateCluster, settings: str = SETTINGS, *, port: int | None = None) -> None:
        self._cluster = cluster
        self.state = Path(tempfile.mkdtemp(prefix="ckptd-", dir=cluster.directory))
        self.address = f"127.0.0.1:{port or _choose_port()}"
        self.log = cluster.directory / "log/ckptd.log"
        self.config = cluster.directory / "etc/ckptd.toml"
        homes = cluster.directory / "home"
        operators = json.dumps(["root", *filter(None, [os.environ.get("SUDO_USER")])])  # who watches the demonstration
        self.config.write_text(settings.format(homes=homes, listen=self.address, state=self.state, operators=operators))

    def start(self) -> None:
        """Start the daemon and wait until its metrics answer.

        Raises:
            DemoError: it ended; the text ends with the last lines of its log.

        """
        argv = [str(CKPTD), "--config", str(self.config), "run"]
        self._cluster.daemons.start("ckptd", argv, self._cluster.environment)
        self._cluster.daemons.wait_ready("ckptd", lambda: bool(self.read_metrics()))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon by a signal."""
        self._cluster.daemons.stop("ckptd", number)

    def read_metrics(self) -> str:
        """Fetch /metrics; empty while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=allow(5)) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return ""

    def read(self, *command: str) -> dict[str, Any]:
        """Run one of ckptd's reading commands and return its JSON document.

        Raises:
            DemoError: it failed or printed something else.

        """
        done = subprocess.run(
            [CKPTD, "--config", self.config, *command, "--json"],
            env={**os.environ, **self._cluster.environment},
            capture_output=True,
            text=True,
            timeout=allow(60),
            check=False,
        )
        try:
            document: dict[str, Any] = json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise DemoError(f"ckptd {' '.join(command)} printed no JSON: {done.stderr.strip()[-500:]}") from error
        return document


def _choose_port() -> int:
    return USUAL_PORT if ports.hold(USUAL_PORT) else ports.find_free_ports(1)[0]
