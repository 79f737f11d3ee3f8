"""The real daemon with its real agent, store and schedule over one user's training; only the queue is made up."""

import threading
import time
import urllib.request
from functools import partial

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from demo import ports
from demo.patience import Deadline, allow
from steps.prune import enforcing_program
from support import quick_retention
from support.forked_daemon import ForkedDaemon
from support.prune_facts import UID, own
from support.rank_files import make_ranks
from support.tensorflow_table import make_set

SETTINGS = """
[slurm]
cluster = "c"
poll_interval = "1s"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
interval = "1s"
write_grace = "1s"
inotify = false
allowed_roots = ["{root}/home"]
[web]
listen = "{listen}"
[service]
state_directory = "{root}/state"
"""


class Training(threading.Thread):
    """Saves an epoch every moment, whole by a rename, and knows what it wrote."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory
        self.written = {}
        self._is_over = threading.Event()

    def run(self):
        while not self._is_over.wait(0.25):
            epoch = len(self.written) + 1
            path = self.directory / f"epoch_{epoch}.npz"
            temporary = self.directory / f".{path.name}.tmp"
            with temporary.open("wb") as file:
                np.savez(file, **{"opt/mu": np.arange(50.0)}, weights=np.arange(50.0) + epoch, epoch=epoch)
            own(temporary)
            self.written[path.name] = temporary.read_bytes()
            temporary.rename(path)

    def stop(self):
        self._is_over.set()
        self.join()


class Metrics:
    """What a scrape of the daemon says."""

    def __init__(self):
        self.listen = f"127.0.0.1:{ports.find_free_ports(1)[0]}"

    def read(self, name, **labels):
        """One number, that of the first series with these labels; 0 as long as there is none."""
        try:
            with urllib.request.urlopen(f"http://{self.listen}/metrics", timeout=allow(10)) as answer:
                text = answer.read().decode()
        except OSError:
            return 0
        families = text_string_to_metric_families(text)
        samples = [each for family in families for each in family.samples if each.name == name]
        return next((each.value for each in samples if labels.items() <= each.labels.items()), 0)

    def wait_for_steps(self, count=2):
        """Wait until so many steps of pruning have begun and ended from now on."""
        for _ in range(count):
            before = max(self.read("ckptd_last_prune_timestamp_seconds"), time.time())
            wait_for("a step", lambda at=before: self.read("ckptd_last_prune_timestamp_seconds") > at)


LAYOUTS = {"index and shards": make_set, "a file of each rank": make_ranks}


class TrainingOfSets(Training):
    """Saves a checkpoint of 40 files every second, between which nothing is unfinished."""

    def __init__(self, directory, layout):
        super().__init__(directory)
        self._make = LAYOUTS[layout]

    def run(self):
        while not self._is_over.wait(1):
            step = len(self.written) + 1
            files = self._make(step, 40)
            for name, data in files.items():
                path = self.directory / name
                path.write_bytes(data)
                own(path)
            self.written[step] = files


def configure(shop, *, mode="enforce", listen=""):
    path = shop.root / "config.toml"
    text = SETTINGS.format(root=shop.root, listen=listen)
    path.write_text(text + quick_retention.format_settings(hold="4s", mode=mode))
    return path


def start(shop, log, *, is_slow=False, **settings):
    """Start the daemon; where it is slow, every rename in the trash takes a moment."""
    arguments = configure(shop, **settings), UID, shop.now.timestamp(), str(shop.directory.parent)
    return ForkedDaemon(partial(enforcing_program.run, is_slow=is_slow), *arguments, log=log, folder=shop.root)


def wait_for(what, holds, seconds=60):
    deadline = Deadline(seconds)
    while not holds():
        assert not deadline.has_passed(), what
        time.sleep(0.1)
