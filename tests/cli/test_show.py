"""`ckptd show` and `advise` on a run that was broken off and goes on: all of it in one place."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ckptd.cli import listing_commands, main, output, run_output, run_views
from ckptd.cli.cluster_choice import ClusterChoice
from ckptd.core.model import CheckpointState
from ckptd.core.rows.text_escapes import encode_text
from support.migrated import open_record
from web import samples
from web.samples import ALICE, BOB


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    directory = tmp_path_factory.mktemp("show")
    (directory / "config.toml").write_text(f'[service]\nstate_directory = "{directory}"\n')
    store = open_record(f"sqlite:///{directory}/ckptd.sqlite3")
    samples.fill(store)
    _let_saves_be_seen(store)
    store.close()
    return directory / "config.toml"


def _let_saves_be_seen(store):
    """Let bob's run save twice while it is looked at, a minute each."""
    for number, minutes in ((1, 50), (2, 20)):
        for state, later in ((CheckpointState.WRITING, 0), (CheckpointState.COMPLETE, 1)):
            found = samples._save(BOB, minutes - later, 10 * number, state=state)
            known = [each.checkpoint for each in store.checkpoints.read(BOB)]
            there = [each for each in known if each.path != found.path]
            samples._scan(store, BOB, [*there, found], free_bytes=7 * 2**30)


def say(config, *command, status=0):
    result = CliRunner().invoke(main, ["--config", str(config), *command])
    assert result.exit_code == status, result.output
    return result.stdout


def test_show_tells_attempts_with_kind_cause_and_loss_and_what_lies_ahead(config):
    shown = say(config, "show", "101")
    rows = [line.split() for line in shown.splitlines()]
    [broken] = [row for row in rows if "node-failure" in row]
    assert broken[:2] == ["101", "0"]
    assert " ".join(broken[-5:]) == "25 min unsaved (0.4 node-hours)"
    assert any(row[:4] == ["101", "1", "requeue", "RUNNING"] for row in rows)
    assert "work lost by all ended attempts: 25 min unsaved (0.4 node-hours)" in shown
    assert "job 101: the next checkpoint is expected now" in shown, "the last one is as old as the interval"
    # how many depends on how long ago the tests began
    assert re.search(r"of work may be lost \([1-3] more checkpoints? expected before then\); 1", shown)
    assert "epochs fit between its newest checkpoint and the time limit" in shown
    assert "recommended interval: not known yet" in shown


def test_show_lists_what_is_there_and_the_last_few_that_are_gone():
    def save(number, state="complete", deleted_at=None):
        times = {"completed_at": datetime(2030, 1, 1, 12, number, 30, 5, tzinfo=UTC), "deleted_at": deleted_at}
        known = dict.fromkeys(("format", "epoch", "step", "reason", "pruned_at"), None)
        return known | times | {"path": f"/d/save-{number}", "state": state, "is_pinned": False}

    later = datetime(2030, 1, 2, tzinfo=UTC)
    saves = [save(number, deleted_at=later) for number in range(10)]
    saves += [save(10, "writing", later), save(11, "writing"), save(12)]
    summed = {"count": 12_000, "size_bytes": 3 << 40, "first_seen_at": later, "last_seen_at": later}
    told = tell_checkpoints({"checkpoints": saves, "summed_checkpoints": summed, "is_truncated": True})
    rows = told.splitlines()
    assert [row.split()[0] for row in rows[1:-3]] == [f"save-{number}" for number in (5, 6, 7, 8, 9, 11, 12)]
    day = "2030-01-02 00:00 UTC"
    assert rows[-3:] == [
        "5 earlier checkpoints not shown (deleted or replaced)",
        f"12,000 more deleted checkpoints (3.0 TiB), first seen from {day} to {day}; only these sums are kept",
        "older checkpoints are not shown, except those that flags refer to",
    ]
    assert "2030-01-01 12:12:30\tpresent" in told
    assert "2030-01-01 12:09:30\tdeleted or replaced" in told


def test_flags_on_a_terminal_have_their_advice_in_lines_with_commands_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    advice = "Ask for it: scontrol update JobId=51 Comment=ckpt=/a/long-long/path/of-many/parts/that/is/whole"
    flag = {"severity": "warning", "rule": "at-risk", "job_id": 5, "user": "a\x1b", "run": "/d", "resolved_at": None}
    flag["evidence"] = {"slurm_job": "5_2"}
    told = tell(
        partial(listing_commands._print_flag, chosen=ClusterChoice(None)),
        flag | {"statement": "", "advice": advice, "command": None},
    ).splitlines()
    assert told[:2] == ["warning: at-risk, job 5_2 of a\\x1b", "    In /d:"]
    assert told[-1] == "    Comment=ckpt=/a/long-long/path/of-many/parts/that/is/whole"
    assert all(len(line) <= 50 for line in told[:-1])


def test_a_flag_whose_statement_names_the_directory_does_not_name_it_twice():
    flag = {"severity": "warning", "rule": "no-checkpoint-yet", "job_id": 5, "user": "a", "run": "/d", "evidence": {}}
    flag |= {"resolved_at": None, "statement": "Nothing was saved in /d.", "advice": "Save.", "command": None}
    told = tell(partial(listing_commands._print_flag, chosen=ClusterChoice(None)), flag).splitlines()
    assert told == ["warning: no-checkpoint-yet, job 5 of a", "    Nothing was saved in /d. Save."]


def test_a_goal_of_millions_of_steps_is_told_in_full_and_one_step_in_the_singular():
    goal = {"unit": "step", "reached": 1_234_567.0, "goal": 1_500_000.0, "is_declared": True, "fits": 1}
    goal |= {"is_fitting": False, "more_jobs": 3}
    said = run_output._describe_goal(goal)
    assert said.startswith("is at step 1234567 of 1500000 (goal set by the user): 1 more step fits before its")


def test_the_command_of_an_advice_can_be_copied_as_a_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    command = "scontrol update JobId=30 TimeLimit=+66650"
    row = {"statement": "It ends early.", "advice": f"Ask for more time: {command}", "command": command}
    assert tell(output.print_flag_text, row).splitlines() == [
        "    It ends early. Ask for more time:",
        f"      {command}",
    ]


def test_a_task_of_an_array_has_its_own_name_where_its_job_id_would_mean_the_whole_array():
    flag = {"severity": "warning", "rule": "at-risk", "job_id": 23, "user": "alice", "run": "/d", "cluster": "c1"}
    flag |= {"opened_at": datetime(2030, 1, 1, tzinfo=UTC), "evidence": {"slurm_job": "23_7"}}
    cells = listing_commands._flag_cells(flag, is_cluster_named=False)
    assert (cells[2], cells[-1]) == ("23_7", "ckptd show 23_7")
    forecast = {"next_checkpoint_at": {"23": datetime(2000, 1, 1, tzinfo=UTC)}, "at_limit": {}, "full_at": None}
    view = {"forecast": forecast, "free_space": {"free_bytes": None, "quota_left_bytes": None}}
    said = tell(partial(run_output._print_ahead, names={"23": "23_7"}), view)
    assert said == "job 23_7: the next checkpoint is expected now\n"


def test_show_says_what_to_do_about_open_flags(config):
    shown = say(config, "show", "101")
    for flag in json.loads(say(config, "flags", "--json", status=1))["flags"]:
        if flag["run"] == ALICE.directory:
            told = f"{flag['statement']} {flag['advice'].removesuffix(flag['command'] or '')}".strip()
            assert f"{flag['rule']}, what is wrong and what to do:\n    {told}" in shown
    assert "what is wrong and what to do" in shown


def tell_checkpoints(view):
    return tell(run_output._print_checkpoints, view)


def tell(print_it, what):
    with CliRunner().isolation() as (out, *_):
        print_it(what)
        return out.getvalue().decode()


def test_show_as_json_has_the_same(config):
    [view] = json.loads(say(config, "show", ALICE.directory, "--json"))["runs"]
    lost = {"seconds": 1500, "node_seconds": 1500, "cpu_seconds": 0, "gpu_seconds": 0}
    assert {name: view["lost"][name] for name in lost} == lost
    assert view["attempts"][0]["lost"]["unsaved"] == lost | {"high_seconds": 1500}
    assert view["attempts"][0]["lost"]["redone"]["certainty"] == "unknown"
    assert [each["node_count"] for each in view["attempts"]] == [1, 1]
    assert view["forecast"]["at_limit"]["101"]["epochs_that_fit"] > 10
    assert view["advice"] is None


def test_advise_tells_the_interval_and_what_it_follows_from(config):
    said = say(config, "advise", "90190190")
    assert "recommended interval: about every " in said
    assert "saving takes 20 s" in said
    assert "(estimated from 1 interruption in " in said, "alice's node failure"
    assert "\x1b" not in said
    [row] = json.loads(say(config, "advise", "90190190", "--json"))["runs"]
    assert list(row) == ["run", "cluster", "user", "advice", "measured_interval_seconds"]
    assert row["advice"]["save_seconds"] == 20
    assert 3600 < row["advice"]["interval_seconds"] < 86400
    assert "7.0 GiB free on the file system" in say(config, "show", "90190190")


def test_a_run_that_is_renamed_while_it_is_read_is_shown_as_it_was(config, tmp_path, monkeypatch):
    database = tmp_path / "ckptd.sqlite3"
    shutil.copy(config.parent / database.name, database)
    (tmp_path / "config.toml").write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    find = run_views.find_runs

    def find_and_rename(store, *name):
        found = find(store, *name)
        with closing(sqlite3.connect(database)) as other, other:
            other.execute("UPDATE runs SET directory_hash = 'x' WHERE directory = ?", [encode_text(BOB.directory)])
        return found

    monkeypatch.setattr(run_views, "find_runs", find_and_rename)
    (found,) = json.loads(say(tmp_path / "config.toml", "show", "90190190", "--json"))["runs"]
    assert (found["run"], bool(found["checkpoints"])) == (BOB.directory, True)


def test_a_run_that_is_not_on_record_is_a_sentence(config):
    for command in ("show", "advise"):
        result = CliRunner().invoke(main, ["--config", str(config), command, "4711"])
        assert result.exit_code == 2
        assert result.stderr.startswith("ckptd: no job or run '4711' is on record; `ckptd jobs` lists")


@pytest.mark.parametrize(("rule", "key"), [("at-risk", "saves_that_fit"), ("will-not-finish", "epochs_that_fit")])
def test_show_keeps_the_configured_margins_before_the_time_limit(config, tmp_path, rule, key):
    changed = tmp_path / "margins.toml"

    def set_margin(margin):
        changed.write_text(f'{config.read_text()}\n[health.rules.{rule}]\nmargin = "{margin}"\n')

    set_margin("3h")
    by_default, shown = (
        json.loads(say(each, "show", ALICE.directory, "--json"))["runs"][0]["forecast"]["at_limit"]["101"]
        for each in (config, changed)
    )
    assert shown[key] < by_default[key]
    set_margin("3 apples")
    assert say(changed, "show", ALICE.directory, status=2) == ""
