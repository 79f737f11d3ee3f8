"""`ckptd plan`, `prune`, `trash`, `pin`: run as people run them, on real directories and a real record."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from ckptd import cli
from prune_facts import MINUTE, workshop

EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]
SETTINGS = """
[slurm]
cluster = "c"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
allowed_roots = ["{root}"]
[retention.caps]
filesystem_share = 1.0
[[retention.policy]]
name = "tight"
last = 2
"""


class Desk:
    def __init__(self, shop):
        self.shop = shop
        self.config = shop.root / "config.toml"
        self.config.write_text(SETTINGS.format(root=shop.root))

    def command(self, *arguments, status=0):
        found = CliRunner().invoke(cli.main, ["--config", str(self.config), *map(str, arguments)])
        assert found.exit_code == status, (found.output, found.stderr, found.exception)
        return found.stdout

    def json(self, *arguments, status=0):
        return json.loads(self.command(*arguments, "--json", status=status))


@pytest.fixture
def desk():
    with workshop() as shop:
        shop.now = datetime.now(UTC) - 280 * MINUTE
        shop.start_job()
        shop.train(range(1, 7))
        shop.now = datetime.now(UTC)
        shop.look()
        yield Desk(shop)


def test_a_plan_says_of_every_checkpoint_why_it_stays_or_goes_and_touches_nothing(desk):
    found = desk.json("plan")
    (run,) = found["runs"]
    assert set(run) == {"run", "keep", "remove", "skipped"}
    assert run["run"] == str(desk.shop.directory)
    assert run["skipped"] is None
    assert sorted(row["path"].rpartition("/")[2] for row in run["remove"]) == EPOCHS[:4]
    assert sorted(row["path"].rpartition("/")[2] for row in run["keep"]) == EPOCHS[4:]
    assert all(row["reasons"] for row in (*run["keep"], *run["remove"]))
    assert all(row["size_bytes"] > 0 for row in run["remove"])
    assert desk.json("plan", desk.shop.directory)["plan"] == found["plan"] == desk.json("plan", 1)["plan"]
    assert f"plan {found['plan']}: 4 checkpoints" in desk.command("plan")
    assert desk.shop.names() == EPOCHS


def test_exactly_the_plan_is_carried_out_and_told(desk):
    plan_id = desk.json("plan")["plan"]
    found = desk.json("prune", "--apply", "--plan", plan_id)
    assert [row["result"] for row in found["acts"]] == ["moved"] * 4
    assert desk.shop.names() == EPOCHS[4:]
    (run,) = desk.json("show", 1)["runs"]
    pruned = {row["path"].rpartition("/")[2] for row in run["checkpoints"] if row["pruned_at"]}
    assert pruned == set(EPOCHS[:4])
    assert [row["action"] for row in run["acts"]] == ["prune"] * 4
    assert {row["outcome"] for row in run["acts"]} == {"moved"}
    assert "moved" in desk.command("show", 1)


def test_a_plan_is_refused_when_a_file_has_changed_since(desk):
    plan_id = desk.json("plan")["plan"]
    desk.shop.save("epoch_2.npz", epoch=2, more=1)
    desk.command("prune", "--apply", "--plan", plan_id, status=1)
    assert desk.shop.names() == EPOCHS


def test_a_plan_is_refused_when_a_checkpoint_has_appeared_since(desk):
    plan_id = desk.json("plan")["plan"]
    desk.shop.save("epoch_7.npz", epoch=7)
    desk.command("prune", "--apply", "--plan", plan_id, status=1)
    assert desk.shop.names() == [*EPOCHS, "epoch_7.npz"]


def test_a_plan_is_refused_when_something_was_pinned_since(desk):
    plan_id = desk.json("plan")["plan"]
    desk.command("pin", desk.shop.directory / "epoch_1.npz")
    desk.command("prune", "--apply", "--plan", plan_id, status=1)
    assert desk.shop.names() == EPOCHS


def test_what_is_pinned_stays_until_it_is_unpinned(desk):
    path = desk.shop.directory / "epoch_1.npz"
    desk.command("pin", path)
    (run,) = desk.json("plan")["runs"]
    assert "pinned" in next(row["reasons"] for row in run["keep"] if row["path"] == str(path))
    desk.command("unpin", path)
    (run,) = desk.json("plan")["runs"]
    assert str(path) in {row["path"] for row in run["remove"]}


def test_the_trash_is_listed_brought_back_and_emptied(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    entries = desk.json("trash", "list")["trash"]
    assert [row["path"].rpartition("/")[2] for row in entries] == EPOCHS[:4]
    desk.command("trash", "restore", entries[0]["id"])
    assert desk.shop.names() == [EPOCHS[0], *EPOCHS[4:]]
    desk.command("trash", "empty", entries[1]["id"])
    desk.command("trash", "empty", "--all")
    assert desk.json("trash", "list") == {"trash": [], "errors": []}
    assert desk.shop.trashed() == []
    told = [(entry.action, entry.outcome) for entry in desk.shop.audit()]
    assert told[4:] == [("restore", "restored"), *[("empty", "deleted")] * 3]


def test_the_trash_of_a_directory_needs_no_database(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    (desk.shop.root / "ckptd.sqlite3").rename(desk.shop.root / "lost")
    (entry, *_) = desk.json("trash", "list", desk.shop.directory)["trash"]
    desk.command("trash", "restore", entry["id"], "--directory", desk.shop.directory)
    assert EPOCHS[0] in desk.shop.names()


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "999"),
        ("plan", "/nowhere"),
        ("prune", "--plan", "x"),
        ("prune", "--apply"),
        ("pin", "/nowhere/x"),
        ("trash", "restore", "no-such"),
        ("trash", "empty"),
        ("trash", "list", "/no/such/place"),
    ],
)
def test_wrong_usage_ends_with_status_2(desk, arguments):
    desk.command(*arguments, status=2)
