import pytest
from click.testing import CliRunner

from support import json_documents


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
