"""The dashboards are what their code says, and every query of theirs answers with data of the real servers."""

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import queue_facts
from ckptd.core import settlement, tracking
from ckptd.core.alerts import FlagChanges
from ckptd.core.model import Finding, Flag, Severity
from ckptd.core.record import AuditEntry
from ckptd.metrics.collector import ReportCollector
from ckptd.store.store import Store
from ckptd.web.access import AccessRules
from ckptd.web.server import WebServer
from fleet_facts import make_report
from grafana import build
from prometheus_server import Prometheus, wait_for
from queue_facts import CLUSTER, RUN, STATES, at, look, make_checkpoint, make_job, make_scan

BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(build.FOLDER.glob("*.json"))}


def targets(kind):
    return [
        pytest.param(target[kind], id=f"{name}-{panel['title']}-{target['refId']}")
        for name, board in BOARDS.items()
        for panel in board["panels"]
        for target in panel["targets"]
        if kind in target
    ]


@pytest.mark.parametrize("name", build.DASHBOARDS)
def test_the_dashboards_in_the_tree_are_those_of_the_code(name):
    committed = (build.FOLDER / f"{name}.json").read_text()
    assert committed == build.render(name), "run `PYTHONPATH=deploy python -m grafana.build`"


def test_nothing_else_lies_beside_them():
    assert BOARDS.keys() == build.DASHBOARDS.keys()


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_panel_has_a_meaning_a_unit_a_place_and_a_source(board):
    taken = set()
    for panel in board["panels"]:
        assert panel["description"]
        assert panel["targets"]
        assert panel["datasource"]["uid"] in {"${datasource}", "${database}"}
        if panel["type"] != "table":
            assert panel["fieldConfig"]["defaults"]["unit"]
        if panel["type"] in {"stat", "bargauge"}:
            assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place.get("x", 0), place.get("x", 0) + place["w"])
            for y in range(place.get("y", 0), place.get("y", 0) + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_links_between_dashboards_lead_somewhere():
    links = re.findall(r"/d/([\w-]+)", json.dumps(BOARDS))
    assert links
    assert set(links) <= {board["uid"] for board in BOARDS.values()}
    assert all(board["links"][0]["tags"] == ["ckptd"] for board in BOARDS.values())


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A Prometheus that scraped a collector while runs started, saved, restarted and ended."""
    now = datetime.now(UTC)
    collector = ReportCollector("1.2.3", started_at=now)
    server = WebServer("127.0.0.1:0", collector.exposition.read, None, AccessRules())
    with Prometheus(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{server.port}") as scraping:
        for runs in (50, 100, 150):
            for step in ("poll", "look", "decide", "publish"):
                collector.observe_step(step, timedelta(milliseconds=runs))
            made = make_report(datetime.now(UTC), runs=runs, flag_count=runs)
            collector.publish(replace(made, losses={key: total + total for key, total in made.losses.items()}))
            wait_for(
                "a scrape",
                lambda at=made.made_at: scraping.query(f"ckptd_report_timestamp_seconds >= {at.timestamp()}"),
            )
        yield scraping
    server.close()


@pytest.mark.parametrize("expression", targets("expr"))
def test_a_query_answers_with_numbers(prometheus, expression):
    expression = expression.replace("$instance", ".+").replace("$__rate_interval", "1m").replace("$__range", "1h")
    assert "$" not in expression
    answer = prometheus.query(expression)
    assert answer
    assert not any(math.isnan(number) for _, number in answer)


@pytest.mark.parametrize("expression", targets("expr"))
def test_a_query_asks_only_for_what_the_daemon_exposes(prometheus, expression):
    exposed = set(prometheus.get("/api/v1/label/__name__/values")["data"])
    used = set(re.findall(r"\b((?:ckptd|process)_\w+)", expression))
    assert used
    assert used <= exposed


@pytest.fixture(scope="module")
def database(postgresql_server):
    """A record in PostgreSQL: one job that was requeued, saved, was flagged and pruned, and then failed."""
    address = postgresql_server.create_database()
    store = Store.open(address.replace("postgresql://", "postgresql+psycopg://"), upgrade=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_facts, "NOON", datetime.now(UTC) - timedelta(minutes=90))
        _fill(store)
    store.close()
    with psycopg.connect(address) as connection:
        connection.execute("SET default_transaction_read_only = on")
        connection.commit()
        yield connection
    postgresql_server.drop_database(address)


def _fill(store):
    job = make_job(1, partition="gpu", node_count=2, gpu_count=8, account="lab")
    _poll(store, 0, job)
    store.assign_run([store.read_tracked(CLUSTER)[1].key], RUN, "alice", "comment", at(0))
    _scan(store, 0)
    first, second = make_checkpoint(written=10), make_checkpoint("step-2.pt", written=20, step=2)
    _scan(store, 11, first)
    _scan(store, 21, first, second)
    again = replace(job, restart_count=1, started_at=at(31), ends_at=at(91))
    _poll(store, 32, again)
    (old,) = [record for record in store.read_recorded(RUN) if record.checkpoint.step == 1]
    entry = AuditEntry(
        cluster=CLUSTER, actor="policy", action="move-aside", target=str(first.path), run=RUN, begun_at=at(39)
    )
    done = replace(entry, audit_id=store.append_audit(entry), outcome="done", finished_at=at(40))
    store.finish_prune(done, old.first_seen_at, is_pruned=True)
    _scan(store, 41, second)
    finding = Finding(
        rule="at-risk", severity=Severity.WARNING, run=RUN, job_id=1, user="alice", evidence={}, advice="Save."
    )
    store.record_flags(FlagChanges(opened=(Flag(finding=finding, opened_at=at(50)),)), at(50))
    _poll(store, 60, replace(again, state=STATES.FAILED, ends_at=at(59)))


def _poll(store, minutes, *jobs):
    snapshot = look(minutes, *jobs)
    changes = settlement.settle(tracking.compare(store.read_tracked(CLUSTER), snapshot), (), snapshot.polled_at)
    store.record_jobs(changes)
    store.record_poll(CLUSTER, snapshot.polled_at)


def _scan(store, minutes, *found):
    seen = make_scan(minutes, *found)
    store.record_scan(RUN, queue_facts.merge(store.read_recorded(RUN), seen), seen)


@pytest.mark.parametrize("sql", targets("rawSql"))
def test_a_panel_of_the_record_shows_rows(database, sql):
    sql = sql.replace("${cluster:sqlstring}", f"'{CLUSTER}'").replace("${job_id:sqlstring}", "'1'")
    sql = re.sub(r"\$__timeFilter\(([\w.]+)\)", r"\1 BETWEEN now() - interval '7 days' AND now()", sql)
    assert "$" not in sql
    found = database.execute(sql).fetchall()
    assert found
    assert any(value is not None for value in found[0])


def test_the_variable_of_clusters_answers(database):
    (variable,) = [each for each in BOARDS["job"]["templating"]["list"] if each["name"] == "cluster"]
    assert database.execute(variable["query"]).fetchall() == [(CLUSTER,)]


def test_the_numbers_of_a_job_are_those_of_its_record(database):
    panels = {
        panel["title"]: panel["targets"][0]["rawSql"] for panel in BOARDS["job"]["panels"] if panel["type"] == "stat"
    }

    def answer(title):
        sql = panels[title].replace("${cluster:sqlstring}", f"'{CLUSTER}'").replace("${job_id:sqlstring}", "'1'")
        return database.execute(sql).fetchone()[0]

    assert answer("Attempts") == 2
    assert answer("Open flags") == 1
    assert answer("Size on disk") == 10
    assert answer("Lost GPU hours") > 0
