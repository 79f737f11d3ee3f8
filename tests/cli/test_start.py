"""What a command imports before it does anything: nobody waits for what other commands need."""

import itertools
import json
import os
import subprocess
import sys

import click
import pytest

from ckptd import cli
from ckptd.cli import COMMANDS, main
from demo.patience import allow
from support.filled_records import fill_once
from web import samples

HEAVY = {
    "alembic", "apprise", "apscheduler", "bcrypt", "h5py", "jinja2", "numpy", "prometheus_client", "psycopg",
    "pydantic", "rich", "sqlalchemy", "starlette", "uvicorn", "watchdog", "yaml",
}  # fmt: skip
REPORT = """
import contextlib, io, json, sys
from ckptd.cli import main
heavy, before, found = set(sys.argv[2].split()), set(), []  # the first also answers for what the program imports
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main(words, prog_name="ckptd")
        except SystemExit as ended:
            names = {name.partition(".")[0] for name in set(sys.modules) - before}
            found.append([ended.code, sorted(heavy & names)])
            before = set(sys.modules)
print(json.dumps(found))
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
    "run_comparison": RECORD,
    "run_output": set(),
    "run_verification": RECORD,
    "trash_changes": RECORD,
    "trash_contents": set(),
    "trash_recording": RECORD,
}


def start(*commands):
    """Run commands, one after the other, in one new process.

    Return for each its exit status and which of the heavy packages it was the first to import.
    """
    command = [sys.executable, "-c", REPORT, json.dumps(commands), " ".join(HEAVY)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=allow(120), env=os.environ)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_no_help_imports_anything_heavy():
    commands = [["--help"], *([name, "--help"] for name in sorted(COMMANDS))]
    found = start(*commands)
    assert [words for words, outcome in zip(commands, found, strict=True) if outcome != [0, []]] == []


IMPORTED = """
import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    importlib.import_module(f"ckptd.cli.{name}")
    found[name] = sorted({each.partition(".")[0] for each in sys.modules})
print(json.dumps(found))
"""


@pytest.mark.parametrize("names", [[name for name in MAY_IMPORT if name != "db_copies"], ["db_copies"]], ids=len)
def test_what_a_command_imports_when_it_runs_is_no_more_than_it_may(names):
    """One process imports them, those first that may import the least: what is there is too much for none after it."""
    names = sorted(names, key=lambda name: len(MAY_IMPORT[name]))
    assert all(MAY_IMPORT[one] <= MAY_IMPORT[other] for one, other in itertools.pairwise(names))
    command = [sys.executable, "-c", IMPORTED, *names]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=allow(120))
    found = json.loads(done.stdout)
    assert {name: HEAVY & set(found[name]) - MAY_IMPORT[name] for name in names} == {name: set() for name in names}


LISTINGS = (
    ["jobs"],
    ["jobs", "--json"],
    ["flags"],
    ["status"],
    ["report", "--by", "rule"],
    ["db", "check"],
    ["trash", "list"],
)
SHOWN = (["show", "50"], ["advise", "50"])  # a run without settings of its user


def test_listings_and_a_run_are_read_from_the_record_without_anything_heavy(tmp_path):
    fill_once(f"sqlite:///{tmp_path}/ckptd.sqlite3", samples.fill)
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    found = start(*(["--config", str(config), *words] for words in (*LISTINGS, *SHOWN)))
    # 1 of `flags` where there is one, of `status` where the heartbeat is old, of `trash list` where it may not look
    assert all(status in (0, 1) for status, _ in found)
    assert [status for status, _ in found[-len(SHOWN) :]] == [0, 0]
    assert [imported for _, imported in found] == [[]] * len(found)


def test_help_lists_each_command_with_the_first_sentence_of_its_own_help():
    context = click.Context(main)
    for name, listed in COMMANDS.items():
        own = main.get_command(context, name)
        assert own.get_short_help_str(1000) == click.Command(name, help=listed.help).get_short_help_str(1000), name


def list_help_lines(command, context, formatter):
    command.format_commands(context, formatter)
    return [line for line in formatter.getvalue().splitlines() if line.startswith("  ")]


def test_help_lists_every_command_once_and_cuts_no_line_on_a_terminal_of_80_columns():
    width = 80 - 2  # click leaves two columns free
    lines = list_help_lines(main, click.Context(main), click.HelpFormatter(width=width))
    assert [" ".join(line.split()) for line in lines] == [f"{name} {each.help}" for name, each in COMMANDS.items()]
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Group):
            inner = list_help_lines(command, click.Context(command), click.HelpFormatter(width=width))
            assert [line for line in inner if line.endswith("...")] == []


def test_commands_and_options_are_completed():
    context = click.Context(main, info_name="ckptd")
    assert [item.value for item in main.shell_complete(context, "un")] == ["unpin"]
    assert cli.main.shell_complete(context, "--ver")[0].value == "--version"
