"""The page and the document about lost work: whose, by what, and how often the database is asked."""

from types import SimpleNamespace

import pytest

from ckptd.core.runs.lost_work_totals import GroupedBy, LossTotal
from ckptd.web import lost_work_reports
from ckptd.web.lost_work_reports import LostWorkReports, Period


def names(ask, viewer, address):
    return [row["name"] for row in ask(f"/api/v1/lost-work{address}", viewer).json()["rows"]]


def test_operators_see_everybodys_lost_work_and_users_their_own(ask):
    assert set(names(ask, "olga", "?by=user")) >= {"alice", "bob"}
    assert names(ask, "alice", "?by=user") == ["alice"]
    assert names(ask, "carol", "?by=user") == []


def test_the_work_that_a_dead_node_cost_is_in_the_sums(ask):
    found = ask("/api/v1/lost-work", "alice").json()
    [row] = [row for row in found["rows"] if row["name"] == "node-failure"]
    assert row["unsaved"]["low_seconds"] == pytest.approx(25 * 60, abs=60)
    assert found["total"]["attempt_count"] >= row["attempt_count"] == 1
    page = ask("/lost-work", "alice").text
    assert "25 min" in page
    assert "Unsaved GPU-hours" in page
    assert "node-failure" in page


@pytest.mark.parametrize("by", list(GroupedBy))
@pytest.mark.parametrize("viewer", ["alice", "carol", "olga"])
def test_every_page_can_be_shown(ask, by, viewer):
    answer = ask(f"/lost-work?by={by}&period=365d", viewer)
    assert answer.status_code == 200
    assert f'<option value="{by}" selected>' in answer.text
    assert ("No attempt has ended" in answer.text) == (viewer == "carol")


@pytest.mark.parametrize("address", ["?by=job", "?period=3650d", "?period=7", "?user=bob", "?by=user&by=user"])
def test_what_cannot_be_asked_for_is_refused_with_the_reason(ask, address):
    answer = ask("/api/v1/lost-work" + address, "olga")
    assert answer.status_code == 400
    assert answer.json()["error"].split(":")[0].strip("'") in {"by", "period", "user"}


def test_a_report_is_added_up_once_a_minute_for_each_user(monkeypatch):
    now, asked = [1000.0], []
    monkeypatch.setattr(lost_work_reports.time, "monotonic", lambda: now[0])

    def add_up(group, since, *, cluster, user):
        asked.append((group, user))
        return {"x": LossTotal(attempt_count=1)}

    reports = LostWorkReports(SimpleNamespace(sum_lost_work=add_up))
    for _ in range(3):
        assert reports.read(GroupedBy.CAUSE, Period.DAY, "alice")["total"]["attempt_count"] == 1
    reports.read(GroupedBy.CAUSE, Period.DAY, None)
    assert asked == [(GroupedBy.CAUSE, "alice"), (GroupedBy.CAUSE, None)]
    now[0] += 61
    reports.read(GroupedBy.RULE, Period.DAY, "alice")
    assert asked[2:] == [(GroupedBy.RULE, "alice"), (GroupedBy.CAUSE, "alice")]
