"""The prepared answer to a scrape: a scrape copies it and waits for no other work of the daemon."""

import threading
import zlib
from collections.abc import Callable, Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from ckptd.metrics.metric_families import label

GZIP_FORMAT = 31  # zlib's word for the largest window within a header and trailer of gzip


class Exposition:
    """Holds the last output of a collector; only the metrics of the process are computed at each scrape."""

    def __init__(
        self, collector: Collector, named: Collector | None = None, read_cluster: Callable[[], str] = str
    ) -> None:
        """Take the collectors of public metrics and of metrics that name users' jobs, and the cluster of all of them.

        While the cluster has no name, its label is absent.
        """
        self._collector = _OfCluster(collector, read_cluster)
        self._named = _OfCluster(named, read_cluster) if named else None
        self._process = _OfCluster(ProcessCollector(registry=None), read_cluster)
        self._lock = threading.Lock()
        self._public = self._whole = _WrittenMetrics(b"")

    @property
    def names_jobs(self) -> bool:
        """Whether there are metrics that only operators may read."""
        return self._whole is not self._public

    def write(self) -> None:
        """Collect all metrics again and store the text."""
        with self._lock:  # two at once: the later one must not lose to the earlier
            text = generate_latest(self._collector)
            named = generate_latest(self._named) if self._named else b""
            public = _WrittenMetrics(text)
            self._public, self._whole = public, _WrittenMetrics(text + named) if named else public

    def read(self, *, is_compressed: bool, names_jobs: bool = False) -> bytes:
        """Return the answer to a scrape, in Prometheus's text format 0.0.4 or as gzip of that."""
        fresh = generate_latest(self._process)
        written = self._whole if names_jobs else self._public
        return written.compress_with(fresh) if is_compressed else written.text + fresh


class _OfCluster(Collector):
    """Adds the label `cluster` to every series of a collector."""

    def __init__(self, collector: Collector, read_cluster: Callable[[], str]) -> None:
        self._collector = collector
        self._read_cluster = read_cluster

    def collect(self) -> Iterator[Metric]:
        cluster = label(self._read_cluster())
        for family in self._collector.collect():
            if cluster:
                family.samples = [
                    sample._replace(labels={"cluster": cluster, **sample.labels}) for sample in family.samples
                ]
            yield family


class _WrittenMetrics:
    """A text, and its compressed form without the end of the gzip stream."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._packer = zlib.compressobj(wbits=GZIP_FORMAT)
        self._packed = self._packer.compress(text) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def compress_with(self, end: bytes) -> bytes:
        """Return the text followed by `end`, compressed as one gzip stream."""
        packer = self._packer.copy()
        return self._packed + packer.compress(end) + packer.flush()
