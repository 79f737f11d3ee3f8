"""A start that takes long: systemd ends one after 90 s, and an upgrade of large tables would start all over."""

import socket
from datetime import timedelta

import pytest

from ckptd.service import slow_start
from ckptd.service.systemd import Systemd
from demo.patience import allow


@pytest.fixture
def manager(tmp_path):
    """The service manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(allow(10))
        yield manager


def test_a_start_that_takes_long_asks_systemd_for_more_time_and_says_so_once(manager, caplog):
    with slow_start.extend(Systemd({"NOTIFY_SOCKET": manager.getsockname()}), timedelta(milliseconds=50)):
        for _ in range(3):
            assert manager.recv(200) == b"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=100000"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["start delayed"]


def test_a_quick_start_asks_for_nothing(manager, caplog):
    with slow_start.extend(Systemd({"NOTIFY_SOCKET": manager.getsockname()})):
        pass
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(200)
    assert not caplog.records
