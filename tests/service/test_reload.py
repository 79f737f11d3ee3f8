"""A reload: every setting takes effect at once, or one warning says that it needs a restart; what was learned stays."""

import functools
import logging
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import PurePath

import pytest

from ckptd.checkpoints.agent.client import AgentReloadError
from ckptd.config import ConfigError, raw_tables
from ckptd.core.fleet.snapshot import Report
from ckptd.service import build, daemon, reload
from ckptd.service.agent_policy import build_policy
from ckptd.service.config_troubles import refuse_troubles
from ckptd.service.summary_lines import describe_start
from ckptd.slurm.replay import ReplaySource
from ckptd.steps.send import Sender
from ckptd.steps.snapshots import MessageCounts, RunHistories
from ckptd.store.store import Store
from service.changed_settings import CHANGED, WITH, list_settings, make_config
from support.queue_facts import CLUSTER, RUN, make_scan


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("reload")
    for name in ("queue", "another-queue", "templates"):
        (root / name).mkdir()
    (root / "queue/1.json").write_text('{"jobs": [], "meta": {}, "errors": []}')
    (root / "urls").write_text("room json://localhost/\n")
    (root / "another-urls").write_text("another json://localhost/\n")
    (root / "templates/subject.txt").write_text("{{ title }}")
    return root


@pytest.fixture(scope="module")
def store(root):
    store = Store.open(f"sqlite:///{root}/ckptd.sqlite3", upgrade=True)
    yield store
    store.close()


class Page:
    """The status page as far as a reload changes it."""

    def __init__(self, config):
        self.change_access(build.build_access_rules(config))

    def make_access(self, rules):
        return rules

    def change_access(self, access):
        self.rules = access


class PolicyHolder:
    """The agent as far as a reload changes it: it reads the configuration itself."""

    def __init__(self):
        self.policy = None

    def reload(self):
        self.policy = build_policy(daemon.read_config(None, {}))


@pytest.fixture
def start(root, store, monkeypatch):
    """Return what starts a daemon, all but its threads, with some settings changed."""
    monkeypatch.setattr(build, "open_store", lambda config, is_upgraded: store)
    level = logging.getLogger().level

    def start(**changes):
        config = make_config(root, **changes)
        logging.getLogger().setLevel(config.service.log_level.upper())
        started = daemon.Daemon(config, None, {})
        helpers = build.Helpers(agent=PolicyHolder(), watcher=None, only_user=None)
        helpers.agent.policy = build_policy(config)
        opened = build.open_cluster(config, helpers, started.make_runner(), datetime.now(UTC))
        started.begin(opened)
        started._web = Page(config)
        return started

    yield start
    logging.getLogger().setLevel(level)


@pytest.fixture
def reload_with(root, monkeypatch):
    """Return what has a daemon reload a configuration with some settings changed."""

    def reload_with(
        started, refuse=lambda config: None, **changes
    ):  # most files and accounts of these tests are made up
        monkeypatch.setattr(daemon, "refuse_troubles", refuse)
        monkeypatch.setattr(daemon, "read_config", lambda path, environment: make_config(root, **changes))
        started.reload()

    return reload_with


OF_EACH_START = {"started_at"}  # differs between two daemons whatever their configuration


def observe(started):
    """Everything that the daemon does by its configuration, as plain values."""
    return {
        "parts": describe(started._parts),
        "agent": describe(started._opened.helpers.agent.policy),
        "post": describe(started._state.own(Sender, lambda: Sender(post=started._parts.post, clock=None)).post),
        "watchlist": started._state.watchlist._interval,
        "intervals": started._schedule.list_intervals(),
        "access": describe(started._web.rules),
        "log level": logging.getLogger().level,
        "flagged": started._collector._flagged_limit,
        "heartbeat": started._heartbeat.url,
    }


def describe(value):
    if isinstance(value, (str, int, float, timedelta, datetime, PurePath, Enum, type(None))):
        return value
    if is_dataclass(value):
        return {"kind": type(value).__name__} | {
            each.name: describe(getattr(value, each.name)) for each in fields(value) if each.name not in OF_EACH_START
        }
    if isinstance(value, Mapping):
        return {key: describe(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return {repr(describe(each)) for each in value}
    if isinstance(value, Collection):
        return [describe(each) for each in value]
    if isinstance(value, functools.partial):
        return [describe(value.args), describe(value.keywords)]
    kind = type(value)
    if kind.__module__.startswith("ckptd.") and not kind.__module__.startswith("ckptd.store."):
        return {"kind": kind.__name__} | {name: describe(each) for name, each in vars(value).items()}
    return f"{kind.__module__}.{kind.__qualname__}"


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_the_table_of_this_test_has_every_setting():
    assert sorted(CHANGED) == sorted(list_settings())


@pytest.mark.parametrize("name", sorted(list_settings()))
def test_a_setting_takes_effect_at_a_reload_or_the_warning_names_it(name, start, reload_with, caplog):
    others = WITH.get(name, {})
    started = start(**others)
    before = observe(started)
    reload_with(started, **others, **{name: CHANGED[name]})
    after = observe(started)
    waiting = [text for text in warnings_of(caplog) if reload.REMEDY in text]
    if name in reload.NEEDS_RESTART:
        assert len(waiting) == 1
        assert name in waiting[0]
        assert after == before
    else:
        assert waiting == []
        assert after == observe(start(**others, **{name: CHANGED[name]})) != before


@pytest.mark.parametrize("name", reload.NEEDS_RESTART)
def test_what_needs_a_restart_is_a_setting(name):
    assert name in list(list_settings())


def test_one_warning_names_all_that_needs_a_restart_until_it_is_restarted_or_taken_back(start, reload_with, caplog):
    started = start()
    for minutes in (2, 3):  # the second reload changes nothing about them
        caplog.clear()
        reload_with(
            started,
            **{"web.listen": "", "store.keep": "90d", "scan.inotify": False, "slurm.poll_interval": f"{minutes}m"},
        )
        (told,) = warnings_of(caplog)
        assert "scan.inotify, web.listen" in told
        assert "systemctl restart ckptd" in told
        assert "store.keep" not in told
        assert started._parts.keep == timedelta(days=90)
    caplog.clear()
    reload_with(started)
    assert warnings_of(caplog) == []


def test_rules_judge_by_the_new_intervals_at_once(start, reload_with):
    started = start(**{"slurm.poll_interval": "30s", "scan.interval": "20m"})
    now = datetime.now(UTC)
    watchlist = started._state.watchlist
    watchlist.keep([RUN], now)
    watchlist.record_scan(RUN, make_scan(0), now)
    assert watchlist.get(RUN).due_at == now + timedelta(minutes=20)
    reload_with(started, **{"slurm.poll_interval": "10m", "scan.interval": "1m"})
    assert started._parts.max_poll_age == timedelta(minutes=30)
    assert started._parts.scan_interval == timedelta(minutes=1)
    assert watchlist.get(RUN).due_at == now + timedelta(minutes=1)


def test_what_was_learned_survives_a_reload(start, reload_with):
    started = start()
    now = datetime.now(UTC)
    state, source = started._state, started._parts.source
    state.watchlist.keep([RUN], now)
    state.watchlist.record_scan(RUN, make_scan(0), now)
    state.publish(RunHistories({RUN: "a history"}))
    watched, slices, published = state.watchlist.all, dict(state.slices), dict(state.published)
    state.publish(MessageCounts({("mail", "sent"): 3}))
    source.read_queue(now)
    reload_with(started, **{"slurm.poll_interval": "10m", "health.min_job_duration": "1h"})
    assert started._state is state
    assert state.watchlist.all == watched
    assert state.latest(RunHistories).by_run == {RUN: "a history"}
    assert {kind: state.latest(kind) for kind in published} == published
    assert slices
    assert state.slices == slices
    assert state.latest(MessageCounts).by_result == {("mail", "sent"): 3}
    assert started._parts.source is source  # a recording goes on where it was
    assert isinstance(source, ReplaySource)


def test_a_message_that_is_sent_by_a_step_in_progress_goes_by_the_new_configuration(start, reload_with):
    started = start()
    sender = started._state.own(Sender, lambda: Sender(post=started._parts.post, clock=None))
    reload_with(started, **{"mail.max_entries": 7})
    assert sender.post.max_entries == 7


def test_an_interval_that_stays_is_not_begun_again(start, reload_with, monkeypatch):
    started = start()
    changed = []
    monkeypatch.setattr(started._schedule, "begin_interval", changed.append)
    reload_with(started, **{"retention.interval": "1m"})
    assert changed == ["prune"]


@pytest.mark.parametrize("error", [ConfigError("wrong"), ZeroDivisionError()])
def test_a_wrong_configuration_leaves_the_old_one_in_force(error, start, monkeypatch, caplog):
    def fail(path, environment):
        raise error

    started = start()
    before, parts = observe(started), started._parts
    monkeypatch.setattr(daemon, "read_config", fail)
    started.reload()
    assert started._parts is parts
    assert observe(started) == before
    assert "configuration reload failed" in caplog.text


def test_a_file_that_the_agent_refuses_changes_nothing(start, reload_with, monkeypatch, caplog):
    """It may belong to somebody who would give themselves access to everybody's pages."""

    def refuse():
        raise AgentReloadError("it is writable by others than root")

    started = start()
    before, parts = observe(started), started._parts
    monkeypatch.setattr(started._opened.helpers.agent, "reload", refuse)
    names = ("web.operators", "web.user_header", "slurm.poll_interval", "service.heartbeat_url", "service.log_level")
    reload_with(started, **{name: CHANGED[name] for name in names})
    assert started._parts is parts
    assert observe(started) == before
    assert "configuration reload failed, keeping the previous one: it is writable by others" in caplog.text


def test_a_source_that_cannot_be_opened_leaves_the_old_one_in_force(start, reload_with, caplog):
    started = start()
    parts = started._parts
    reload_with(started, **{"slurm.replay_path": "{root}/nowhere", "slurm.poll_interval": "10m"})
    assert started._parts is parts
    assert "configuration reload failed" in caplog.text


def test_a_default_file_that_is_gone_leaves_the_old_configuration_in_force(start, tmp_path, monkeypatch, caplog):
    """Without a file, all settings have their defaults: no denied users, no roots, no policies."""
    default = tmp_path / "config.toml"
    default.write_text("")
    monkeypatch.setattr(raw_tables, "DEFAULT_PATH", default)
    started = start()
    before = observe(started)
    default.unlink()
    started.reload()
    assert f"configuration reload failed, keeping the previous one: {default}: No such file or directory" in caplog.text
    assert observe(started) == before


def test_a_file_that_is_missing_leaves_the_old_configuration_in_force(start, reload_with, root, caplog):
    started = start()
    before = observe(started)
    reload_with(started, refuse_troubles, **{"mail.ca_file": root / "none"})
    assert observe(started) == before
    assert f"mail.ca_file: {root}/none: No such file or directory" in caplog.text


def test_all_errors_of_a_configuration_are_one_event_in_the_log_which_begins_with_the_consequence(
    start, monkeypatch, caplog
):
    def fail(path, environment):
        raise ConfigError("c.toml: mail.mode: 'om' is wrong\nc.toml: mail.timeout: '7 dayz' is not a duration")

    monkeypatch.setattr(daemon, "read_config", fail)
    start().reload()
    (event,) = [record.getMessage() for record in caplog.records if "reload" in record.getMessage()]
    assert event == (
        "configuration reload failed, keeping the previous one: "
        "c.toml: mail.mode: 'om' is wrong; c.toml: mail.timeout: '7 dayz' is not a duration"
    )


def test_the_line_of_a_start_names_the_version_the_cluster_and_where_it_reads_and_shows_it(start):
    parts = start()._parts
    named = f"ckptd 1.2, cluster {CLUSTER}, queue from replay"
    for listen, page in (("127.0.0.1:9478", "status page and metrics on 127.0.0.1:9478"), ("", "no status page")):
        line = describe_start(parts, version="1.2", listen=listen, lease_epoch=3)
        assert line == f"{named}, {page}, lease epoch 3"


def test_the_status_for_systemd_says_why_the_database_fails_until_it_has_worked_for_a_while(start, monkeypatch):
    started = start()
    shown = []
    monkeypatch.setattr(started._systemd, "status", shown.append)
    report = Report(cluster="c1", made_at=datetime.now(UTC))
    started._show(report)
    started._stepper._outage.note_failure()
    shown.append("why")
    started._show(report)
    assert [each for each in shown if each != "why"] == shown[:1]
