import signal

import pytest
from click.testing import CliRunner

from ckptd.cli import apply_plan, reading_command, trash_view
from support import forked_agent, json_documents


@pytest.fixture(autouse=True)
def _fork_agents(monkeypatch):
    """Let commands that run in this process fork their agents; those in processes of their own start the program."""
    for module in (apply_plan, reading_command, trash_view):
        monkeypatch.setattr(module, "start_agent", forked_agent.start_agent)


@pytest.fixture(autouse=True)
def _check_documents(monkeypatch):
    """Validate every JSON document that a command prints in any of these tests."""
    invoke = CliRunner.invoke

    def invoke_and_check(self, command, args=(), **options):
        result = invoke(self, command, args, **options)
        if "--json" in args and result.stdout.startswith("{"):
            json_documents.check_command(args, result.stdout)
        return result

    monkeypatch.setattr(CliRunner, "invoke", invoke_and_check)


@pytest.fixture
def caught_signals():
    """Let a signal that the command does not handle fail the test, and not end the process."""

    def fail(number, _frame):
        raise AssertionError(f"signal {number} was not handled")

    before = {number: signal.signal(number, fail) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
