"""The types of the commands' JSON documents; the fixture beside this validates what the commands of all tests print."""

import json

import click
import pydantic
import pytest
from click.testing import CliRunner

from ckptd.cli import COMMANDS, main
from ckptd.present.responses import inspect_documents
from support import json_documents
from support.json_documents import OF_COMMANDS, check_document, name_command

FOUND = {"checkpoints": [], "unrecognised": [], "errors": [{"path": "/x", "reason": "no such file or directory"}]}
FAULTS = [
    FOUND | {"more": 1},
    {"checkpoints": [], "errors": []},
    FOUND | {"unrecognised": [1]},
    FOUND | {"errors": [{"path": "/x"}]},
    FOUND | {"errors": [{"path": "/x", "reason": "?", "more": None}]},
    FOUND | {"checkpoints": [{"path": "/x"}]},
]


def list_commands(group, context, names=()):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from list_commands(command, context, (*names, name))
        else:
            yield " ".join((*names, name)), command


def test_every_command_with_json_has_a_type():
    with_json = {
        name
        for name, command in list_commands(main, click.Context(main))
        if any("--json" in parameter.opts for parameter in command.params)
    }
    assert with_json == set(OF_COMMANDS)
    assert COMMANDS


def test_a_document_as_its_type_says_is_accepted():
    check_document(inspect_documents.InspectDocument, json.dumps(FOUND))


@pytest.mark.parametrize("document", FAULTS, ids=repr)
def test_a_document_with_a_missing_unknown_or_wrong_field_is_refused(document):
    with pytest.raises(pydantic.ValidationError):
        check_document(inspect_documents.InspectDocument, json.dumps(document))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--config", "x", "jobs", "--json"], "jobs"),
        (["trash", "list", "/x", "--json"], "trash list"),
        (["show", "list", "--json"], "show"),
    ],
)
def test_the_command_is_found_among_its_arguments(words, name):
    assert name_command(words) == name


def test_what_a_command_prints_is_validated_here(monkeypatch, tmp_path):
    monkeypatch.setitem(json_documents.OF_COMMANDS, "inspect", dict[str, int])
    with pytest.raises(pydantic.ValidationError):
        CliRunner().invoke(main, ["inspect", str(tmp_path / "none"), "--json"])


def test_a_link_without_a_checkpoint_has_every_field(tmp_path):
    (tmp_path / "last.pt").symlink_to("gone.pt")
    found = CliRunner().invoke(main, ["inspect", str(tmp_path), "--json"])
    [link] = json.loads(found.stdout)["checkpoints"]
    assert (link["format"], link["state"], link["role"], link["members"]) == ("link", "damaged", None, [])
    assert set(link) == set(inspect_documents.InspectedDocument.__annotations__)
