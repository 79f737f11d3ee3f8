import pytest

from ckptd.config import Config
from ckptd.service.daemon import Daemon


@pytest.fixture
def daemon():
    daemon = Daemon(Config(), None, {})
    daemon._scan_pool.shutdown()
    return daemon


def test_a_look_that_falls_due_while_the_daemon_stops_is_let_go(daemon):
    daemon._stop.set()
    daemon._submit_scan(lambda: None)


def test_a_look_that_cannot_begin_while_the_daemon_runs_is_an_error(daemon):
    with pytest.raises(RuntimeError, match="after shutdown"):
        daemon._submit_scan(lambda: None)
