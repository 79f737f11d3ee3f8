"""A real `ckptd run` that polls recorded snapshots, of which a test can start several with one database."""

import sys
import urllib.request
from pathlib import Path

from demo.patience import allow
from support.forked_daemon import ForkedDaemon, run_ckptd
from support.mail_server import free_port

ROOT = Path(__file__).parents[2]
RECORDED = f'source = "replay"\ncluster = "c1"\nreplay_path = "{ROOT}/tests/data/slurm/22.05.8"\n'


class RealDaemon:
    """One `ckptd run` with its own state directory, page and log."""

    def __init__(self, folder, database, more="", *, source=RECORDED, environment=None, poll_interval="1s"):
        """`source` is the section [slurm]; `more` follows in [service]."""
        self.port = free_port()
        self._environment = environment
        self.folder = folder
        folder.mkdir()
        (folder / "config.toml").write_text(
            f'[slurm]\n{source}poll_interval = "{poll_interval}"\n[web]\nlisten = "127.0.0.1:{self.port}"\n'
            f'[store]\nurl = "{database}"\n[service]\nstate_directory = "{folder}"\n{more}'
        )
        self._words = ["--config", str(folder / "config.toml")]
        self.argv = [sys.executable, "-m", "ckptd", *self._words]

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = ForkedDaemon(
                run_ckptd, *self._words, "run", log=log, folder=self.folder, environment=self._environment
            )
        return self

    def read_log(self):
        return (self.folder / "log").read_text()

    def read_metric(self, name):
        """Return the first value of this name; None if there is none, or no page."""
        return next(
            (float(line.split()[-1]) for line in self._read_metrics() if line.split("{")[0].split()[:1] == [name]), None
        )

    def read_step_count(self, step):
        """Return how often a step has run; None if it has not, or there is no page."""
        begin = "ckptd_step_duration_seconds_count{"
        lines = [line for line in self._read_metrics() if line.startswith(begin) and f'step="{step}"' in line]
        return float(lines[0].split()[-1]) if lines else None

    def _read_metrics(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=allow(2)) as answer:
                return answer.read().decode().splitlines()
        except OSError:
            return []

    @property
    def is_leader(self):
        found = self.read_metric("ckptd_leader")
        return None if found is None else bool(found)

    def kill(self):
        self.process.kill()
        self.process.wait()
