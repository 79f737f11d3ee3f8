"""`make demo`: a private Slurm cluster, jobs of every kind, ckptd watching them, and a live view until Ctrl-C."""

import argparse
import signal
import sys
import time

from rich.console import Console
from rich.live import Live

from demo.cluster import PrivateCluster
from demo.errors import DemoError
from demo.scenario import REQUEUE_AFTER_SECONDS, Scenario
from demo.view import format_view
from demo.watcher import CKPTD, Watcher

REFRESH_SECONDS = 2
PLAIN_REFRESH_SECONDS = 10
EVENTS_SHOWN = 4


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--user-prefix", default="ckdemo-", help="how the names of the job users begin: with ck")
    return parser.parse_args()


def main() -> int:
    """Run the demonstration until it is interrupted; return the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    options = parse_options()
    console = Console()
    try:
        console.print("Starting a private Slurm cluster with two nodes ...")
        with PrivateCluster(name="demo", user_prefix=options.user_prefix) as cluster:
            watcher = Watcher(cluster)
            watcher.start()
            scenario = Scenario(cluster)
            scenario.begin()
            _show(console, cluster, watcher, scenario)
    except KeyboardInterrupt:
        console.print("Everything is stopped and removed.")
    except DemoError as error:
        console.print(f"The demo failed: {error}", markup=False, highlight=False)
        return 1
    return 0


def _show(console: Console, cluster: PrivateCluster, watcher: Watcher, scenario: Scenario) -> None:
    footer = (
        f"Status page http://{watcher.address}/   Metrics http://{watcher.address}/metrics\n"
        f"Log {watcher.log}\n"
        f"To ask ckptd yourself: {CKPTD} --config {watcher.config} show JOB\n"
        f"After {REQUEUE_AFTER_SECONDS} s an operator requeues three jobs. Ctrl-C stops and removes everything."
    )
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            cluster.daemons.check_running("ckptd")
            scenario.advance()
            jobs = watcher.read("jobs")["jobs"]
            flags = watcher.read("flags")["flags"]
            view = format_view(jobs, flags, scenario.events[-EVENTS_SHOWN:], footer)
            if console.is_terminal:
                live.update(view, refresh=True)
                time.sleep(REFRESH_SECONDS)
            else:
                console.print(view)
                time.sleep(PLAIN_REFRESH_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
