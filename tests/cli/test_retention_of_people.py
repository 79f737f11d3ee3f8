"""`ckptd plan`, `prune`, `trash` and `pin` as ordinary users: their own runs, and a sentence for the rest."""

import json
import os
import shutil
from typing import NamedTuple
from unittest import mock

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.checkpoints.agent import request_child
from ckptd.checkpoints.agent.agent_operations import OPERATIONS, preload
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.cli import apply_plan, pinning, plan_output, trash_changes
from ckptd.core.model import Unknown
from ckptd.service.agent_policy import read_policy
from ckptd.store import revisions
from cli.six_checkpoints import EPOCHS, trained_shop
from support.json_documents import check_command
from support.prune_facts import UID
from support.trash_facts import as_user

preload()
for name in cli.COMMANDS:
    cli.main.get_command(None, name)  # a child that became somebody may not be able to read the installation
PRELOADED = (apply_plan, pinning, plan_output, trash_changes)  # for the same reason: commands import them when they run
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


class OwnAgent:
    """The agent of an ordinary user, within the process: other users it cannot become, and says so."""

    def __init__(self, path, *, is_person, is_configured=True, is_for_trash=False):
        self.policy = (
            read_policy(path, {}, is_person=is_person) if is_configured else RequestPolicy(is_person=is_person)
        )

    def run(self, batches):
        return [[self._answer(batch, item) for item in batch.items] for batch in batches]

    def _answer(self, batch, item):
        if batch.uid != os.geteuid():
            return Unknown(what="agent", reason=f"this process may not act as uid {batch.uid}")
        result = request_child.answer(batch.operation, item, self.policy, OPERATIONS, batch.deadline_seconds)
        return Unknown(what="x", reason=result["unknown"]) if "unknown" in result else result

    def close(self):
        pass


def run(words):
    with (
        mock.patch("ckptd.cli.apply_plan.start_agent", OwnAgent),
        mock.patch("ckptd.cli.trash_view.start_agent", OwnAgent),
    ):
        found = CliRunner().invoke(cli.main, words)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Done(found.exit_code, found.stdout, found.stderr)


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Person:
    """Somebody at a shell: a process of theirs, which can become nobody else."""

    def __init__(self, shop, uid):
        self.shop = shop
        self.uid = uid

    def command(self, *arguments):
        words = ["--config", f"{self.shop.root}/config.toml", *map(str, arguments)]
        with mock.patch.object(revisions, "find_migrations", return_value=self.shop.root / "migrations"):
            done = as_user(lambda: run(words), self.uid)
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments):
        done = self.command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        check_command(arguments, done.stdout)
        return json.loads(done.stdout)

    def refused(self, *arguments):
        """Give the one sentence that the command ends with."""
        done = self.command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        (told,) = done.stderr.splitlines()
        return told


@pytest.fixture(scope="module")
def shop():
    """A run of one user, in a database that everybody may read and write, as with one that people share."""
    with trained_shop() as shop:
        # An installation that everybody may read: this checkout may lie where only root looks.
        shutil.copytree(revisions.find_migrations(), shop.root / "migrations")
        shop.store.close()
        shop.root.chmod(0o777)
        for path in shop.root.glob("ckptd.sqlite3*"):
            path.chmod(0o666)
        yield shop


@pytest.fixture
def owner(shop):
    return Person(shop, UID)


@pytest.fixture
def stranger(shop):
    return Person(shop, UID + 7)


def test_a_stranger_sees_no_runs_and_no_trash_of_others(shop, stranger):
    assert stranger.json("plan")["runs"] == []
    assert stranger.json("trash", "list") == {"trash": [], "users": [], "errors": []}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan", "{run}"), "belongs to another user: only that user and root may plan and prune it"),
        (("plan", "1"), "1 belongs to another user: only that user and root may plan and prune it"),
        (("prune", "--apply", "--plan", "x", "{run}"), "belongs to another user"),
        (("trash", "list", "{run}"), "only that user and root may see its trash"),
        (("trash", "restore", "some-id"), "the trash has no entry 'some-id'"),
        (("trash", "empty", "--all", "--yes", "--directory", "{run}"), "only that user and root may see its trash"),
        (("pin", "{run}/epoch_1.npz"), "is in another user's run"),
        (("unpin", "{run}/epoch_1.npz"), "is in another user's run"),
    ],
)
def test_a_stranger_is_told_in_a_sentence_that_it_is_someone_elses(shop, stranger, arguments, sentence):
    told = stranger.refused(*[each.format(run=shop.directory) for each in arguments])
    assert told.startswith("ckptd: ")
    assert sentence in told
    assert shop.names() == EPOCHS


def test_owners_plan_pin_prune_list_and_restore_their_own(shop, owner):
    assert owner.command("pin", shop.directory / "epoch_2.npz").returncode == 0
    found = owner.json("plan", shop.directory)
    (run,) = found["runs"]
    assert [row["path"].rpartition("/")[2] for row in run["remove"]] == ["epoch_1.npz", "epoch_3.npz", "epoch_4.npz"]
    acts = owner.json("prune", "--apply", "--plan", found["plan"], shop.directory)["removals"]
    assert [row["result"] for row in acts] == ["moved"] * 3
    entries = owner.json("trash", "list")["trash"]
    assert owner.command("trash", "restore", entries[0]["id"]).returncode == 0
    assert owner.command("trash", "empty", entries[1]["id"]).returncode == 0
    assert len(owner.json("trash", "list", shop.directory)["trash"]) == 1
    assert {entry.actor for entry in shop.audit()} == {f"uid {UID}"}
    assert Person(shop, UID + 7).json("trash", "list")["trash"] == []
    owner.command("trash", "restore", *(row["id"] for row in owner.json("trash", "list")["trash"]))


@pytest.mark.parametrize("arguments", [("plan",), ("trash", "list"), ("pin", "{run}/epoch_1.npz")])
def test_a_database_that_may_not_be_read_is_a_sentence(shop, owner, arguments):
    path = shop.root / "ckptd.sqlite3"
    path.chmod(0o600)
    try:
        assert "database" in owner.refused(*[each.format(run=shop.directory) for each in arguments])
    finally:
        path.chmod(0o666)


def test_a_database_that_may_only_be_read_is_a_sentence(shop, owner):
    shop.root.chmod(0o755)
    for path in shop.root.glob("ckptd.sqlite3*"):
        path.chmod(0o644)
    try:
        assert "database" in owner.refused("pin", shop.directory / "epoch_5.npz")
    finally:
        shop.root.chmod(0o777)
        for path in shop.root.glob("ckptd.sqlite3*"):
            path.chmod(0o666)
