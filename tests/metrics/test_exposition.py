import gzip
import threading
from datetime import UTC, datetime

from prometheus_client.registry import Collector

from ckptd.metrics.collector import ReportCollector
from ckptd.metrics.exposition import Exposition
from ckptd.metrics.metric_families import gauge
from demo.patience import allow
from metrics.fleet_facts import make_report

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Slow(Collector):
    """A collector that takes as long as it is held, from its second answer on."""

    def __init__(self):
        self.answers = 0
        self.is_asked, self.release = threading.Event(), threading.Event()

    def collect(self):
        self.answers += 1
        if self.answers > 1:
            self.is_asked.set()
            self.release.wait(allow(30))
        yield gauge("ckptd_answers", "How often it was asked.", self.answers)


def test_a_scrape_waits_for_nothing_and_asks_nobody():
    slow = Slow()
    exposition = Exposition(slow)
    exposition.write()
    writing = threading.Thread(target=exposition.write)
    writing.start()
    assert slow.is_asked.wait(allow(10))
    for _ in range(3):
        assert b"ckptd_answers 1.0\n" in exposition.read(is_compressed=False)
    slow.release.set()
    writing.join(allow(10))
    assert b"ckptd_answers 2.0\n" in exposition.read(is_compressed=False)
    assert slow.answers == 2


def test_the_compressed_answer_is_one_piece_of_gzip_and_says_the_same():
    collector = ReportCollector("1", started_at=NOW)
    collector.publish(make_report(NOW))
    plain = collector.exposition.read(is_compressed=False)
    for _ in range(2):  # the piece written beforehand is not used up
        packed = collector.exposition.read(is_compressed=True)
        assert len(packed) < len(plain) / 4
        assert _without_process(gzip.decompress(packed)) == _without_process(plain)


def _without_process(text):
    assert b"process_resident_memory_bytes" in text
    return [line for line in text.splitlines() if b"process_" not in line]


def test_the_numbers_of_the_process_are_of_the_moment_of_the_scrape():
    exposition = ReportCollector("1", started_at=NOW).exposition

    def descriptors():
        lines = exposition.read(is_compressed=False).decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("process_open_fds"))

    before = descriptors()
    with open("/dev/null") as _one, open("/dev/null") as _two:
        assert descriptors() == before + 2


def test_a_failed_step_is_told_though_no_report_follows():
    collector = ReportCollector("1", started_at=NOW)
    collector.count_failure("publish")
    assert b'ckptd_step_failures_total{step="publish"} 1.0' in collector.exposition.read(is_compressed=False)


def test_who_may_not_see_all_reads_no_name_of_anybody():
    collector = ReportCollector("1", started_at=NOW, flagged_limit=5)
    assert not collector.exposition.names_jobs
    collector.publish(make_report(NOW))
    exposition = collector.exposition
    assert exposition.names_jobs
    assert b"job_id=" not in exposition.read(is_compressed=False)
    assert b"job_id=" not in gzip.decompress(exposition.read(is_compressed=True))
    assert b"job_id=" in exposition.read(is_compressed=False, names_jobs=True)
    assert b"job_id=" in gzip.decompress(exposition.read(is_compressed=True, names_jobs=True))
