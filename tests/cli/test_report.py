"""`ckptd report`: sums of lost work, with bounds shown as bounds."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from ckptd.cli import main
from ckptd.core import queue
from ckptd.core.model import QueueSnapshot, RunKey
from ckptd.core.queue import accounting_merge
from support.migrated import open_record
from support.queue_facts import CLUSTER, STATES, make_job
from support.recorded import note_run

HOSTILE = "evil\x1b[31m\tname\n\udcff"


@pytest.fixture
def config(tmp_path):
    """A record of two jobs that failed after an hour, ten minutes ago; of the second nobody knows where it saves."""
    path = tmp_path / "config.toml"
    path.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    now = datetime.now(UTC)
    began, ended = now - timedelta(minutes=70), now - timedelta(minutes=10)
    jobs = [
        make_job(1, node_count=4, gpu_count=2, account="lab", started_at=began),
        make_job(2, node_count=1, account=HOSTILE, started_at=began),
    ]
    tracked = _poll(store, {}, began, jobs)
    note_run(store, RunKey(CLUSTER, 1000, "/data/alice/run"), began, jobs=[tracked[1].key])
    _poll(store, tracked, ended, [replace(job, state=STATES.FAILED, ends_at=ended) for job in jobs])
    store.close()
    return path


def _poll(store, tracked, at, jobs):
    snapshot = QueueSnapshot(cluster=CLUSTER, polled_at=at, jobs=tuple(jobs))
    changes = accounting_merge.merge_accounting(queue.compare(tracked, snapshot), (), at)
    store.jobs.record(changes)
    return queue.apply(tracked, changes)


def run(config, *words):
    result = CliRunner().invoke(main, ["--config", str(config), "report", *words])
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


def table(config, *words):
    return [line.split("\t") for line in run(config, *words).stdout.splitlines()]


def test_a_bound_is_printed_as_one_and_hostile_names_as_text(config):
    rows = table(config, "--by", "account", "--since", "1h")
    unsaved = ["unsaved work", "unsaved node-hours", "unsaved GPU-hours", "unsaved unknown"]
    assert rows[0][:6] == ["account", "attempts", *unsaved]
    assert [row[:6] for row in rows[1:]] == [
        ["lab", "1", "1 h", "4.0", "2.0", "0"],
        [r"evil\x1b[31m\tname\n\xff", "1", "up to 1 h", "up to 1.0", "0.0", "1"],
        ["all", "2", "1 h to 2 h", "4.0 to 5.0", "2.0", "1"],
    ]
    assert [row[6:] for row in rows[1:]] == [["0 s", "0.0", "0.0", "0"]] * 3


@pytest.mark.parametrize(
    ("by", "names"),
    [("user", ["alice"]), ("partition", [""]), ("cause", ["failure"]), ("rule", [""]), ("account", ["lab", HOSTILE])],
)
def test_the_document_has_both_bounds_of_both_parts(config, by, names):
    document = json.loads(run(config, "--json", "--by", by).stdout)
    assert (document["by"], [row["name"] for row in document["rows"]]) == (by, names)
    total = document["total"]
    assert total["attempt_count"] == 2
    assert (total["unsaved"]["low_node_seconds"], total["unsaved"]["high_node_seconds"]) == (4 * 3600, 5 * 3600)
    assert (total["unsaved"]["unknown_count"], total["redone"]["unknown_count"]) == (1, 0)


def test_only_attempts_that_ended_in_the_time_asked_for_count(config):
    assert run(config, "--since", "5m").stdout.startswith("No attempt has ended since ")
    assert "no cluster 'elsewhere' is on record" in run(config, "--cluster", "elsewhere").stderr


@pytest.mark.parametrize("words", [["--since", "7 days"], ["--since", "0s"], ["--since", "999999w"], ["--by", "job"]])
def test_a_wrong_option_is_named_with_what_was_expected(config, words):
    result = run(config, *words)
    assert result.exit_code == 2
    assert words[0] in result.stderr
