"""The databases of hpc-workspace, as its versions write them."""

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.scan_client import find_workspaces
from ckptd.checkpoints.scanning.workspaces import WorkspaceError, find_workspace
from ckptd.core.model import RunKey, Unknown, Workspace
from support.shared_agent import get_agent

UID = 54322 if os.geteuid() == 0 else os.geteuid()
EXPIRES_AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
# version 1 writes no creation, version 2 a version and the creation; the Python version wrote lines
FIRST = """workspace: {directory}
expiration: 1777636800
extensions: 3
acctcode: ""
reminder: 0
mailaddress: alice@example.org
comment: ""
"""
SECOND = """dbversion: 1
workspace: {directory}
creation: 1775044800
expiration: 1777636800
extensions: 2
acctcode: default
reminder: 1777032000
mailaddress: ""
comment: "a: [b"
group: ""
"""
LINES = "1777636800\n{directory}\nacctcode:default\nextensions:1\n"


class Site:
    """One file system of workspaces with its database."""

    def __init__(self, folder):
        self.database, self.space = folder / "ws-db", folder / "ws"
        self.database.mkdir()
        self.space.mkdir()
        (self.database / ".ws_db_magic").write_text("lustre\n")

    def allocate(self, entry="alice-train", text=FIRST, **changes):
        directory = self.space / entry
        (directory / "ck").mkdir(parents=True)
        (self.database / entry).write_text(text.format(**{"directory": directory, **changes}))
        return directory

    def find(self, directory):
        return find_workspace(os.path.realpath(directory), [str(self.database)])


@pytest.fixture
def site():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the directories of tests are closed to the owner
        yield Site(Path(folder))


@pytest.mark.parametrize(
    ("text", "created_at", "extensions"),
    [(FIRST, None, 3), (SECOND, datetime(2026, 4, 1, 12, tzinfo=UTC), 2), (LINES, None, 1)],
    ids=["version 1", "version 2", "lines"],
)
def test_the_entry_of_a_directory_is_found_by_its_name(site, text, created_at, extensions):
    directory = site.allocate(text=text)
    expected = Workspace(
        entry="alice-train",
        directory=str(directory),
        filesystem="lustre",
        created_at=created_at,
        expires_at=EXPIRES_AT,
        extension_count=extensions,
    )
    assert site.find(directory / "ck") == expected
    assert site.find(directory) == expected


def test_a_directory_that_only_has_the_name_of_a_workspace_is_none(site, tmp_path):
    site.allocate()
    other = tmp_path / "home" / "alice-train"
    other.mkdir(parents=True)
    assert site.find(other) is None
    assert site.find(site.space) is None
    assert site.find(site.space / "bob-train") is None


def test_a_link_to_the_space_is_followed(site, tmp_path):
    (tmp_path / "lustre").symlink_to(site.space)
    directory = site.allocate(directory=tmp_path / "lustre" / "alice-train")
    assert site.find(directory / "ck").expires_at == EXPIRES_AT


def test_without_its_magic_the_file_system_has_no_name(site):
    (site.database / ".ws_db_magic").unlink()
    assert site.find(site.allocate()).filesystem is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{{", "[1, 2]", "x", "workspace: {directory}\n", "workspace: {directory}\nexpiration: soon\n"),
        *(
            "workspace: {directory}\nexpiration: true\n",
            "expiration: 5\n",
            "\x00",
            "[" * 5000,
            "a: !!python/object:x.y 1",
        ),
    ],
)
def test_an_entry_that_makes_no_sense_is_an_error_and_never_no_workspace(site, text):
    directory = site.allocate(text=text.replace("{{", "{{{{"))
    with pytest.raises(WorkspaceError, match="alice-train' is malformed"):
        site.find(directory)


def test_an_entry_that_is_no_file_is_none(site):
    directory = site.allocate()
    entry = site.database / "alice-train"
    entry.rename(site.database / "elsewhere")
    entry.symlink_to("elsewhere")
    assert site.find(directory) is None
    entry.unlink()
    os.mkfifo(entry)
    assert site.find(directory) is None


def test_a_database_that_is_not_mounted_is_an_error(site):
    directory = site.allocate()
    with pytest.raises(WorkspaceError, match="No such file or directory"):
        find_workspace(str(directory), [str(site.database) + "2"])


def test_the_agent_reads_as_the_owner_and_says_why_it_cannot(site):
    directory = site.allocate()
    runs = [RunKey("c1", UID, str(directory / "ck")), RunKey("c1", UID, "/nowhere")]
    agent = get_agent(workspace_databases=[str(site.database)])
    found, none = find_workspaces(agent, runs, timedelta(seconds=30))
    assert (found.expires_at, found.extension_count, none) == (EXPIRES_AT, 3, None)
    (site.database / "alice-train").chmod(0o000)
    (found,) = find_workspaces(agent, runs[:1], timedelta(seconds=30))
    assert isinstance(found, Unknown)
    assert "Permission denied" in found.reason
