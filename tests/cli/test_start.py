"""What a command imports before it does anything: nobody waits for what other commands need."""

import json
import os
import subprocess
import sys

import click
import pytest

from ckptd import cli
from ckptd.cli import COMMANDS, main
from ckptd.store.store import Store
from demo.patience import allow
from web import samples

HEAVY = {
    "alembic", "apprise", "apscheduler", "bcrypt", "h5py", "jinja2", "numpy", "prometheus_client", "psycopg",
    "pydantic", "rich", "sqlalchemy", "starlette", "uvicorn", "watchdog", "yaml",
}  # fmt: skip
REPORT = """
import json, sys
from ckptd.cli import main
try:
    main(sys.argv[1:], prog_name="ckptd")
except SystemExit as ended:
    print(json.dumps({"status": ended.code, "imported": sorted({name.partition(".")[0] for name in sys.modules})}))
"""
RECORD = {"pydantic", "sqlalchemy"}
STEPS = HEAVY - {"alembic", "apprise", "h5py", "numpy", "psycopg", "rich"}
# modules that commands import when they run, and which of these packages each may import
MAY_IMPORT = {
    "apply_plan": STEPS,
    "daemon_runs": STEPS,
    "db_copies": {"sqlalchemy"},
    "doctor_report": {"pydantic"},  # each check loads what else it needs in a process of its own
    "pinning": RECORD,
    "plan_output": {"pydantic"},
    "run_output": set(),
    "run_verification": RECORD,
    "trash_changes": RECORD,
    "trash_contents": set(),
    "trash_recording": RECORD,
}


def start(*words):
    """Run a command in a process of its own; return its exit status and which of the heavy packages it imported."""
    command = [sys.executable, "-c", REPORT, *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=allow(120), env=os.environ)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    return report["status"], HEAVY & set(report["imported"])


def test_help_imports_no_command_and_nothing_heavy():
    assert start("--help") == (0, set())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_command_imports_nothing_heavy(name):
    assert start(name, "--help") == (0, set())


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_what_a_command_imports_when_it_runs_is_no_more_than_it_may(name):
    report = f"import json, sys, ckptd.cli.{name}; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", report], check=True, capture_output=True, text=True, timeout=allow(120)
    )
    assert HEAVY & set(json.loads(done.stdout)) <= MAY_IMPORT[name]


@pytest.mark.parametrize(
    "words",
    [
        ["jobs"],
        ["jobs", "--json"],
        ["flags"],
        ["status"],
        ["report", "--by", "rule"],
        ["db", "check"],
        ["trash", "list"],
    ],
)
def test_a_listing_reads_the_record_without_anything_heavy(words, tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/ckptd.sqlite3", upgrade=True)
    samples.fill(store)
    store.close()
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    status, imported = start("--config", config, *words)
    # 1 of `flags` where there is one, of `status` where the heartbeat is old, of `trash list` where it may not look
    assert status in (0, 1)
    assert imported == set()


@pytest.mark.parametrize("command", ["show", "advise"])
def test_a_run_without_settings_of_its_user_is_shown_without_anything_heavy(command, tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/ckptd.sqlite3", upgrade=True)
    samples.fill(store)
    store.close()
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    assert start("--config", config, command, "50") == (0, set())


def test_help_lists_each_command_with_the_first_sentence_of_its_own_help():
    context = click.Context(main)
    for name, listed in COMMANDS.items():
        own = main.get_command(context, name)
        assert own.get_short_help_str(1000) == click.Command(name, help=listed.help).get_short_help_str(1000), name


def test_help_and_completion_are_those_of_a_group_that_imports_its_commands():
    context = click.Context(main, info_name="ckptd")
    commands = [main.get_command(context, name) for name in COMMANDS]
    eager = click.Group(commands=commands)
    listed, expected = click.HelpFormatter(width=90), click.HelpFormatter(width=90)
    main.format_commands(context, listed)
    eager.format_commands(click.Context(eager, info_name="ckptd"), expected)
    assert listed.getvalue() == expected.getvalue()
    assert [item.value for item in main.shell_complete(context, "un")] == ["unpin"]
    assert cli.main.shell_complete(context, "--ver")[0].value == "--version"
