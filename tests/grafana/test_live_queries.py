"""Every query of the dashboards and of Prometheus's rules answers with data of the real servers.

The real daemon runs on a record in PostgreSQL, and a real Prometheus scrapes it.
"""

import json
import math
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
import yaml

from ckptd.core.health import RULES
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, Severity
from ckptd.core.model.records import AuditEntry
from ckptd.store.store import Store
from grafana import build
from support import queue_facts, recorded
from support.prometheus_server import Prometheus, wait_for
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.replayed_daemon import HOUR, SlowSave, replayed_daemon

BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(build.FOLDER.glob("*.json"))}
RULE_FILES = sorted((Path(__file__).parents[2] / "deploy/prometheus").glob("*.rules.yml"))

ONLY_WITH_A_LIMIT = {"ckptd_memory_bytes", "ckptd_memory_limit_bytes"}  # of the service's control group
ONLY_WITH_TLS = {"ckptd_web_certificate_expiry_timestamp_seconds"}


def targets(kind):
    return [
        pytest.param(target[kind], id=f"{name}-{panel['title']}-{target['refId']}")
        for name, board in BOARDS.items()
        for panel in board["panels"]
        for target in panel["targets"]
        if kind in target
    ]


@pytest.fixture(scope="module")
def record(postgresql_server):
    """The address of a record in PostgreSQL: one job that was requeued, saved, was flagged and pruned, then failed."""
    address = postgresql_server.create_database()
    store = Store.open(with_driver(address), upgrade=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_facts, "NOON", datetime.now(UTC) - timedelta(hours=3))  # a loss so old counts
        _fill(store)
    store.clusters.record_poll(
        CLUSTER, datetime.now(UTC)
    )  # after a time without a daemon nothing would be deleted at first
    store.close()
    yield address
    postgresql_server.drop_database(address)


def with_driver(address):
    return address.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(scope="module")
def prometheus(record, tmp_path_factory):
    """A Prometheus that scrapes the real daemon while jobs start, save, restart, break off and end."""
    with replayed_daemon(with_driver(record)) as daemon:
        training, stubborn = daemon.make_job(101, "ckpts"), daemon.make_job(102, "broken")
        others = daemon.make_job(103, "empty"), daemon.make_job(104, "none", job_state="PENDING")
        daemon.play(training, stubborn, *others)
        daemon.start()
        try:
            with Prometheus(tmp_path_factory.mktemp("prometheus"), daemon.address) as scraping:
                _live_through(daemon, scraping, training, stubborn, others)
                yield scraping
        finally:
            daemon.stop()


def _live_through(daemon, scraping, training, stubborn, others):
    def see(*expressions, meanwhile=lambda: None):
        missing = list(expressions)

        def look():
            daemon.check()
            meanwhile()
            time.sleep(0.4)
            missing[:] = [each for each in expressions if not scraping.query(each)]
            return not missing

        try:
            wait_for("what the daemon tells", look, seconds=90)
        except AssertionError as error:
            raise AssertionError(f"{', '.join(missing)}: {error}") from error

    slow = SlowSave(daemon)
    see("sum(ckptd_running_runs) == 3", 'ckptd_checkpoints{state="writing"} > 0', meanwhile=slow.go_on)
    slow.finish()
    daemon.break_off("broken")
    now = int(time.time())
    again = stubborn | {"restart_cnt": 1, "submit_time": now, "start_time": now, "end_time": now + 4 * HOUR}
    daemon.play(training, again, *others)
    see(
        "ckptd_checkpoint_save_duration_seconds_count > 0",
        "ckptd_checkpoint_interval_seconds_count > 0",
        "ckptd_damaged_checkpoints_total > 0",
        'ckptd_messages_total{result="sent"} > 0',
        'ckptd_prune_operation_bytes_total{action="empty"} > 0',
        'ckptd_opened_flags_total{rule="restarted-without-checkpoint"} > 0',
        meanwhile=daemon.save,
    )
    slow = SlowSave(daemon)
    daemon.play(training, again | {"job_state": "COMPLETED", "end_time": now + 5}, *others)
    see(
        'ckptd_resolved_flags_total{rule="restarted-without-checkpoint"} > 0',
        'ckptd_checkpoints{state!="complete"} > 0',
        "min(count_over_time(ckptd_messages_total[1m])) > 2",
        meanwhile=slow.go_on,
    )


@pytest.mark.parametrize("expression", targets("expr"))
def test_a_query_answers_with_numbers(prometheus, expression):
    expression = (
        expression.replace("$instance", ".+")
        .replace("$cluster", ".+")
        .replace("$__rate_interval", "1m")
        .replace("$__range", "1h")
    )
    assert "$" not in expression
    assert not all(math.isnan(number) for _, number in prometheus.query(expression))


@pytest.mark.parametrize("expression", targets("expr"))
def test_a_query_asks_only_for_what_the_daemon_exposes(prometheus, expression):
    exposed = set(prometheus.get("/api/v1/label/__name__/values")["data"])
    used = set(re.findall(r"\b((?:ckptd|process)_\w+)", expression))
    assert used
    assert used <= exposed


def test_the_rules_ask_only_for_what_the_daemon_exposes(prometheus):
    rules = [
        str(rule["expr"])
        for path in RULE_FILES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    exposed = set(prometheus.get("/api/v1/label/__name__/values")["data"])
    used = {name for text in rules for name in re.findall(r"\bckptd_\w+", text)}
    assert used
    assert used <= exposed | ONLY_WITH_A_LIMIT | ONLY_WITH_TLS
    flags = {name for text in rules for name in re.findall(r'rule="([^"]+)"', text)}
    assert flags
    assert flags <= RULES.keys()


@pytest.fixture(scope="module")
def database(record):
    with psycopg.connect(record) as connection:
        connection.execute("SET default_transaction_read_only = on")
        connection.commit()
        yield connection


def _fill(store):
    job = make_job(1, partition="gpu", node_count=2, gpu_count=8, account="lab")
    recorded.poll(store, 0, job)
    recorded.locate(store, 1)
    recorded.scan(store, 0)
    first, second = make_checkpoint(written=10), make_checkpoint("step-2.pt", written=20, step=2)
    recorded.scan(store, 11, first)
    recorded.scan(store, 21, first, second)
    again = replace(job, restart_count=1, started_at=at(31), ends_at=at(91))
    recorded.poll(store, 32, again)
    (old,) = [record for record in store.checkpoints.read(RUN) if record.checkpoint.step == 1]
    entry = AuditEntry(
        cluster=CLUSTER, actor="policy", action="move-aside", target=str(first.path), run=RUN, begun_at=at(39)
    )
    done = replace(entry, audit_id=store.audit.record(entry), outcome="done", finished_at=at(40))
    store.prune_records.finish(done, old.first_seen_at, is_pruned=True)
    recorded.scan(store, 41, second)
    finding = Finding(
        rule="at-risk", severity=Severity.WARNING, run=RUN, job_id=1, user="alice", evidence={}, recorded_advice="Save."
    )
    store.flags.record(FlagChanges(opened=(Flag(finding=finding, opened_at=at(50)),)), at(50))
    recorded.poll(store, 60, replace(again, state=STATES.FAILED, ends_at=at(59)))


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


def test_the_numbers_of_a_job_are_those_of_its_record(prometheus, database):
    panels = {
        panel["title"]: panel["targets"][0]["rawSql"] for panel in BOARDS["job"]["panels"] if panel["type"] == "stat"
    }

    def answer(title, job_id=1):
        sql = panels[title].replace("${cluster:sqlstring}", f"'{CLUSTER}'")
        sql = sql.replace("${job_id:sqlstring}", f"'{job_id}'")
        return database.execute(sql).fetchone()[0]

    assert answer("Attempts") == 2
    assert answer("Open flags") == 0  # the daemon saw that the job is gone
    assert answer("Open flags", 103) >= 1  # it has saved nothing
    assert answer("Size on disk") == 10
    assert answer("Lost GPU hours") > 0
