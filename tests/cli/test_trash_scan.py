"""`ckptd trash scan`: the record is built again from manifests after the database was lost."""

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.checkpoints.trash import TRASH
from ckptd.steps.prune import audit_entries, step
from ckptd.steps.state import begin
from cli.six_checkpoints import EPOCHS, trained_shop
from support.migrated import open_record
from support.prune_facts import UID, own


class Desk:
    def __init__(self, shop):
        self.shop = shop
        self.config = shop.root / "config.toml"

    def command(self, *arguments, status=0):
        found = CliRunner().invoke(cli.main, ["--config", str(self.config), *map(str, arguments)])
        assert found.exit_code == status, (found.output, found.stderr, found.exception)
        return found

    def json(self, *arguments, status=0):
        return json.loads(self.command(*arguments, "--json", status=status).stdout)

    def lose_database(self):
        """Let a new database be where the old one was; the checkpoints and the trash stay."""
        self.shop.store.close()
        for path in self.shop.root.glob("ckptd.sqlite3*"):
            path.unlink()
        self.shop.store = open_record(f"sqlite:///{self.shop.root}/ckptd.sqlite3")
        self.shop.parts = replace(self.shop.parts, store=self.shop.store)
        self.shop.state = begin(self.shop.parts, self.shop.now)


@pytest.fixture
def desk():
    """Four checkpoints in the trash, and a database that was lost."""
    with trained_shop() as shop:
        made = Desk(shop)
        made.command("prune", "--apply", "--plan", made.json("plan")["plan"])
        made.entries = made.json("trash", "list")["trash"]
        assert len(made.entries) == 4
        made.lose_database()
        yield made


def plant(shop, name, *, size=1, is_filled=False, **changes):
    entry = shop.trash() / name
    entry.mkdir(mode=0o700)
    document = json.loads((shop.trash() / shop.trashed()[0] / "manifest.json").read_text())
    thing = ["", "file", 1, 1, size, 1, 1]
    if is_filled:
        (entry / "0").write_text("x" * size)
        own(entry / "0")
        status = (entry / "0").stat()
        thing = ["", "file", status.st_dev, status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns]
    document |= {"act_id": name, "items": [{"name": "planted", "things": [thing]}], **changes}
    (entry / "manifest.json").write_text(json.dumps(document))
    (entry / "moved").touch()
    for path in (entry, *entry.iterdir()):
        own(path)


def test_nobody_says_that_nothing_is_in_the_trash_of_a_database_that_is_new(desk):
    told = desk.command("trash", "list").stdout
    assert "The trash of the 0 recorded runs is empty." in told
    assert "`ckptd trash scan DIRECTORY...`" in told
    listed = desk.json("trash", "list", desk.shop.directory)["trash"]
    assert [each["id"] for each in listed] == [each["id"] for each in desk.entries]


def test_after_a_scan_the_trash_is_on_record_again(desk):
    found = desk.json("trash", "scan", desk.shop.root)
    assert found["counts"] == {"recorded": 4, "known": 0, "foreign": 0, "unfinished": 0, "left": 0}
    assert found["errors"] == []
    again = desk.json("trash", "list")["trash"]
    assert [each["id"] for each in again] == [each["id"] for each in desk.entries]
    for known, recorded in zip(desk.entries, again, strict=True):
        assert {name: recorded[name] for name in ("path", "size_bytes", "moved_at", "hold_ends_at")} == {
            name: known[name] for name in ("path", "size_bytes", "moved_at", "hold_ends_at")
        }
    assert desk.json("trash", "scan", desk.shop.root)["counts"]["known"] == 4
    assert "restored" in desk.command("trash", "restore", again[0]["id"]).stdout
    assert len(desk.shop.names()) == 3
    assert [entry.outcome for entry in desk.shop.audit(audit_entries.RESTORE)] == ["restored"]


@pytest.mark.parametrize("words", [(), ("{directory}",), ("{home}",)])
def test_it_finds_them_below_the_allowed_roots_in_a_run_and_beside_it(desk, words):
    asked = [word.format(directory=desk.shop.directory, home=desk.shop.directory.parent) for word in words]
    assert desk.json("trash", "scan", *asked)["counts"]["recorded"] == 4


def test_after_a_scan_the_daemon_counts_what_is_held_and_deletes_it_after_its_hold(desk):
    shop = desk.shop
    desk.json("trash", "scan", shop.root)
    shop.queue.jobs = (shop.make_job(1),)
    shop.act()
    held = shop.memory.pruned.held
    assert (held.count, held.size_bytes) == (4, sum(each["size_bytes"] for each in desk.entries))
    assert shop.names() == EPOCHS[4:]
    shop.wait(6 * 24 * 60)
    assert shop.act().deleted_count == 0
    shop.wait(2 * 24 * 60)
    assert shop.act().deleted_count == 4
    assert shop.trashed() == []
    assert shop.memory.pruned.held.count == 0


@pytest.mark.parametrize("has_policies", [True, False])
def test_what_was_cut_off_before_the_database_was_lost_is_mended_in_every_mode(desk, has_policies):
    shop = desk.shop
    whole, torn = (shop.trash() / each["id"] for each in desk.entries[:2])
    (whole / "moved").unlink()
    (torn / "moved").unlink()
    (torn / "0").rename(shop.directory / EPOCHS[1])
    counts = desk.json("trash", "scan", shop.root)["counts"]
    assert (counts["recorded"], counts["unfinished"]) == (2, 2)
    shop.site = shop.site if has_policies else replace(shop.site, matches=())
    shop.memory = step.PruneSlice()
    shop.act()
    assert (whole / "moved").exists()
    assert not torn.exists()
    assert EPOCHS[1] in shop.names()
    assert [entry for entry in shop.audit() if entry.finished_at is None] == []
    assert desk.json("trash", "scan", shop.root)["counts"]["known"] == 3


def test_what_somebody_has_planted_is_not_recorded_or_with_the_size_that_is_there(desk):
    shop = desk.shop
    plant(shop, "hollow", size=10**9)
    plant(shop, "lying", size=5, is_filled=True)
    plant(shop, "elsewhere", is_filled=True, directory="../../etc")
    plant(shop, "other-cluster", is_filled=True, cluster="d")
    os.mkfifo(shop.trash() / "fifo")
    found = desk.json("trash", "scan", shop.root, status=1)
    assert (found["counts"]["recorded"], found["counts"]["foreign"]) == (5, 1)
    assert {Path(each["path"]).name for each in found["errors"]} == {"hollow", "elsewhere", "fifo"}
    assert {each["size_bytes"] for each in found["recorded"] if each["id"] == "lying"} == {5}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_an_entry_that_would_come_back_to_a_directory_of_somebody_else_is_not_recorded(desk):
    shop = desk.shop
    open_to_all = shop.root / "scratch"
    (open_to_all / "theirs").mkdir(parents=True)
    os.chown(open_to_all / "theirs", UID + 1, -1)
    open_to_all.chmod(0o777)
    (shop.trash()).rename(open_to_all / TRASH)
    for path in (open_to_all / TRASH).glob("*/manifest.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "directory": "theirs"}))
    found = desk.json("trash", "scan", open_to_all, status=1)
    assert found["counts"]["recorded"] == 0
    assert len(found["errors"]) == 4


def test_a_moment_to_come_neither_counts_as_a_removal_of_late_nor_for_ever(desk):
    shop = desk.shop
    plant(shop, "later", is_filled=True, moved_at="2999-01-01T00:00:00+00:00")
    desk.json("trash", "scan", shop.root)
    later = max(entry.begun_at for entry in shop.audit(audit_entries.PRUNE))
    assert later - shop.now < timedelta(hours=1)
