"""The daemon on a private cluster, asked by its commands within the test's own process.

A test that waits asks again and again: each start of the program would cost more CPU time than the daemon itself.
That the program answers the same is what tests/cli shows.
"""

import json
import signal

from click.testing import CliRunner

from ckptd.cli import main
from demo.patience import allow
from demo.watcher import Watcher
from support.forked_daemon import ForkedDaemon, run_ckptd


class QuickWatcher(Watcher):
    """Runs reading commands in this process, and the daemon as a fork of a process that has its imports.

    With `is_forked` false, it starts the daemon's programs, which costs seconds of CPU time.
    """

    def __init__(self, *arguments, is_forked=True, **options):
        super().__init__(*arguments, **options)
        self.is_forked = is_forked  # at the next start
        self._fork = None

    def start(self):
        if not self.is_forked:
            super().start()
            return
        words = "--config", str(self.config), "run"
        with self.log.open("ab") as log:
            environment = self._cluster.environment
            self._fork = ForkedDaemon(run_ckptd, *words, log=log, folder=self.state, environment=environment)
        self._cluster.wait_for("the metrics of the daemon", self.read_metrics)

    def stop(self, number=signal.SIGTERM):
        if self._fork is None:
            super().stop(number)
            return
        self._fork.send_signal(number)
        self._fork.wait(allow(60))
        self._fork = None

    def read(self, *command):
        argv = ["--config", str(self.config), *command, "--json"]
        answer = CliRunner().invoke(main, argv, env=self._cluster.environment)
        try:
            return json.loads(answer.stdout)
        except json.JSONDecodeError:
            raise AssertionError(f"{' '.join(command)}: {answer.output[-500:]} {answer.exception!r}") from None
