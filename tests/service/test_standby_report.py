"""What a standby says of the daemon that it waits for, once each."""

import logging

from ckptd.service import outage
from ckptd.service.standby_report import StandbyReport
from ckptd.store.database_errors import DatabaseAwayError


class Manager:
    """systemd, as far as a standby tells it something."""

    def __init__(self):
        self.statuses = []

    def ready(self, status):
        self.statuses.append(status)


def test_an_outage_is_said_once_and_its_end_once_and_the_status_is_always_true(caplog, monkeypatch):
    manager = Manager()
    with caplog.at_level(logging.INFO):
        report = StandbyReport(manager, "c1")
        for _ in range(3):
            report.note_rival("ckptd run at a")
            report.note_trouble(DatabaseAwayError("no route"))
            report.note_trouble(DatabaseAwayError("refused"))
        monkeypatch.setattr(outage, "CALM_SECONDS", 0.0)
        report.note_rival("ckptd run at a")
        report.note_takeover()
    assert [record.getMessage() for record in caplog.records] == [
        "standby: ckptd run at a acts for the cluster c1",
        "standby: the lease cannot be read: no route",
        "standby: the lease can be read again",
        "standby: taking over the cluster c1 from ckptd run at a",
    ]
    assert manager.statuses[:3] == [
        "standby of ckptd run at a",
        "standby; the lease cannot be read: no route",
        "standby; the lease cannot be read: refused",
    ]
    assert manager.statuses[-1] == "standby of ckptd run at a"


def test_who_never_waited_takes_nothing_over(caplog):
    StandbyReport(Manager(), "c1").note_takeover()
    assert not caplog.records
