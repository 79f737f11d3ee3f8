"""The daemon on a private cluster, asked by its commands within the test's own process.

A test that waits asks again and again: each start of the program would cost more CPU time than the daemon itself.
That the program answers the same is what tests/cli shows.
"""

import json

from click.testing import CliRunner

from ckptd.cli import main
from demo.watcher import Watcher


class QuickWatcher(Watcher):
    """Runs reading commands without starting a program for each."""

    def read(self, *command):
        argv = ["--config", str(self.config), *command, "--json"]
        answer = CliRunner().invoke(main, argv, env=self._cluster.environment)
        try:
            return json.loads(answer.stdout)
        except json.JSONDecodeError:
            raise AssertionError(f"{' '.join(command)}: {answer.output[-500:]} {answer.exception!r}") from None
