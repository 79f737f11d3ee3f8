"""Says that a start takes long, and asks systemd for more time: an upgrade that it ends would start all over."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from ckptd.service.systemd import Systemd

CHECK_INTERVAL = timedelta(seconds=15)
MAX_EXTENSION = timedelta(minutes=30)  # then systemd ends the start, because only that ends a connection that stalls

log = logging.getLogger("ckptd")


@contextmanager
def extend(systemd: Systemd, check_interval: timedelta = CHECK_INTERVAL) -> Iterator[None]:
    """Extend systemd's limit on the start while the database is opened."""
    has_ended = threading.Event()

    def extend_until_end() -> None:
        for count in range(MAX_EXTENSION // check_interval):
            if has_ended.wait(check_interval.total_seconds()):
                return
            if count == 0:
                log.warning(
                    "start delayed: the tables are being upgraded, or the database or Slurm does not answer; waiting"
                )
            systemd.extend_start(2 * check_interval)

    threading.Thread(target=extend_until_end, name="slow-start", daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
