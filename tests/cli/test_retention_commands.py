"""`ckptd plan`, `prune`, `trash`, `pin`: run as people run them, on real directories and a real record."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.steps import scan
from cli.six_checkpoints import EPOCHS, trained_shop
from support.prune_facts import UID
from support.recorded import note_run


class Desk:
    def __init__(self, shop):
        self.shop = shop
        self.config = shop.root / "config.toml"

    def command(self, *arguments, status=0):
        found = CliRunner().invoke(cli.main, ["--config", str(self.config), *map(str, arguments)])
        assert found.exit_code == status, (found.output, found.stderr, found.exception)
        return found.stdout

    def json(self, *arguments, status=0):
        return json.loads(self.command(*arguments, "--json", status=status))


@pytest.fixture
def desk():
    with trained_shop() as shop:
        yield Desk(shop)


@pytest.fixture(scope="module")
def unchanged_desk():
    """A desk for tests of commands that change nothing."""
    with trained_shop() as shop:
        yield Desk(shop)


def test_a_policy_for_a_format_that_there_is_not_is_told_by_the_check(desk):
    with desk.config.open("a") as config:
        config.write('format = "numpi"\n')
    checked = CliRunner().invoke(cli.main, ["--config", str(desk.config), "config", "check"])
    assert checked.exit_code == 2
    assert "retention.policy.0.format: 'numpi' matches no known format; did you mean 'numpy'?" in checked.stderr


def test_a_wish_that_is_not_granted_whole_is_told_with_its_run_and_in_its_plan(desk):
    shop = desk.shop
    note_run(shop.store, shop.run, shop.now, user_settings={"keep": {"last": 5000, "\x1b[31m": 1}})
    why = "last: this site allows at most 100, not 5000"
    shown = desk.command("show", shop.directory)
    assert f"User setting limited by the site: {why}" in shown
    assert "\x1b[31m" not in shown
    [run] = desk.json("show", shop.directory)["runs"]
    assert f"User setting limited by the site: {why}" in run["setting_warnings"]
    [planned] = desk.json("plan")["runs"]
    assert why in planned["refused_wishes"]
    assert planned["limited_settings"] == planned["refused_wishes"]
    assert f"user setting limited by the site: {why}" in desk.command("plan")


def test_a_plan_says_of_every_checkpoint_why_it_stays_or_goes_and_touches_nothing(desk):
    found = desk.json("plan")
    (run,) = found["runs"]
    assert found["totals"] == {
        "runs": 1,
        "remove": 4,
        "remove_bytes": sum(row["size_bytes"] for row in run["remove"]),
        "wait": 0,
        "wait_bytes": 0,
    }
    assert set(run) == {"run", "keep", "remove", "skipped", "refused_wishes", "limited_settings"}
    assert run["run"] == str(desk.shop.directory)
    assert run["skipped"] is None
    assert sorted(row["path"].rpartition("/")[2] for row in run["remove"]) == EPOCHS[:4]
    assert sorted(row["path"].rpartition("/")[2] for row in run["keep"]) == EPOCHS[4:]
    assert all(row["reasons"] for row in (*run["keep"], *run["remove"]))
    assert all(row["size_bytes"] > 0 for row in run["remove"])
    assert desk.json("plan", desk.shop.directory)["plan"] == found["plan"] == desk.json("plan", 1)["plan"]
    assert f"plan {found['plan']}: 4 checkpoints" in desk.command("plan")
    assert desk.command("plan").endswith(f": ckptd prune --apply --plan {found['plan']}\n")
    assert desk.shop.names() == EPOCHS


def test_exactly_the_plan_is_carried_out_and_told(desk):
    plan_id = desk.json("plan")["plan"]
    found = desk.json("prune", "--apply", "--plan", plan_id)
    assert [row["result"] for row in found["removals"]] == ["moved"] * 4
    assert desk.shop.names() == EPOCHS[4:]
    (run,) = desk.json("show", 1)["runs"]
    pruned = {row["path"].rpartition("/")[2] for row in run["checkpoints"] if row["pruned_at"]}
    assert pruned == set(EPOCHS[:4])
    assert [row["action"] for row in run["actions"]] == ["prune"] * 4
    assert {row["outcome"] for row in run["actions"]} == {"moved"}
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


def test_a_plan_is_refused_when_the_newest_has_gone_bad_though_its_size_and_time_are_the_same(desk):
    desk.config.write_text(desk.config.read_text().replace("last = 2", "last = 1"))
    plan_id = desk.json("plan")["plan"]
    newest = desk.shop.directory / EPOCHS[-1]
    before = newest.stat()
    with newest.open("r+b") as file:
        file.write(bytes(before.st_size))
    os.utime(newest, ns=(before.st_atime_ns, before.st_mtime_ns))
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
    desk.command("trash", "empty", "--all", "--yes")
    assert desk.json("trash", "list") == {"trash": [], "users": [], "errors": []}
    assert desk.shop.trashed() == []
    told = [(entry.action, entry.outcome) for entry in desk.shop.audit()]
    assert told[0] == ("plan", "planned")
    assert told[5:] == [("restore", "restored"), *[("empty", "deleted")] * 3]


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
def test_wrong_usage_ends_with_status_2_and_changes_nothing(unchanged_desk, arguments):
    unchanged_desk.command(*arguments, status=2)
    assert unchanged_desk.shop.names() == EPOCHS
    assert unchanged_desk.shop.audit() == []


def test_prune_tells_what_was_moved_what_was_refused_and_why_and_what_waits(desk):
    desk.shop.root.joinpath("second-name").hardlink_to(desk.shop.directory / "epoch_2.npz")
    scan.scan_again(desk.shop.parts, desk.shop.state, [desk.shop.run], (), desk.shop.now)
    plan_id = desk.json("plan")["plan"]
    told = desk.command("prune", "--apply", "--plan", plan_id, status=1)
    assert "3 moved to the trash" in told
    assert "1 refused: 'epoch_2.npz' has 2 names (hard links)" in told
    assert "ckptd deletes them after 7 d." in told
    assert desk.shop.names() == [EPOCHS[1], *EPOCHS[4:]]


def test_moving_all_that_the_plan_showed_is_success_though_the_rest_waits_for_a_cap(desk):
    desk.config.write_text(desk.config.read_text().replace("[retention.caps]\n", "[retention.caps]\nuser_count = 1\n"))
    plan = desk.json("plan")
    assert (plan["totals"]["remove"], plan["totals"]["wait"]) == (1, 3)
    told = desk.command("prune", "--apply", "--plan", plan["plan"])
    assert "1 moved to the trash" in told
    assert "3 waits: to be removed, but deferred: the cap of 1 removals per user in one cycle is reached" in told
    assert desk.shop.names() == EPOCHS[1:]


def test_of_a_run_whose_directory_is_gone_it_is_said_how_to_bring_its_checkpoints_back(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    entry = desk.json("trash", "list")["trash"][0]
    desk.shop.directory.rename(desk.shop.root / "elsewhere")
    told = desk.command("trash", "restore", entry["id"], status=1)
    assert "make it again, and then restore" in told
    with pytest.raises(AssertionError, match="create the directory again"):
        desk.command("trash", "restore", entry["id"], "--directory", desk.shop.directory)
    desk.shop.directory.mkdir()
    os.chown(desk.shop.directory, UID, -1)
    desk.command("trash", "restore", entry["id"], "--directory", desk.shop.directory)
    assert desk.shop.names() == [EPOCHS[0]]


def test_prune_counts_the_bytes_that_it_moved(desk):
    sizes = sum((desk.shop.directory / name).stat().st_size for name in EPOCHS[:4])
    found = desk.json("prune", "--apply", "--plan", desk.json("plan")["plan"])
    assert found["moved_bytes"] == sizes


def test_a_policy_that_is_off_lets_nothing_go_by_hand_either(desk):
    desk.config.write_text(desk.config.read_text() + 'mode = "off"\n')
    (run,) = desk.json("plan")["runs"]
    assert run["remove"] == []
    assert run["skipped"] == "its policy 'tight' is off"
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    assert desk.shop.names() == EPOCHS


def test_the_trash_is_listed_with_whose_it_is_its_size_and_when_its_hold_ends(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    found = desk.json("trash", "list")
    (user,) = found["users"]
    assert (user["uid"], user["checkpoints"]) == (UID, 4)
    assert user["size_bytes"] == sum(row["size_bytes"] for row in found["trash"])
    row = found["trash"][0]
    held = datetime.fromisoformat(row["hold_ends_at"]) - datetime.fromisoformat(row["moved_at"])
    assert held == timedelta(days=7)
    told = desk.command("trash", "list")
    assert f"{datetime.fromisoformat(row['hold_ends_at']).astimezone():%Y-%m-%d %H:%M}" in told
    assert "4 checkpoints, " in told


def test_one_users_trash_can_be_listed_and_emptied_alone(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    (user,) = desk.json("trash", "list")["users"]
    assert desk.json("trash", "list", "--user", "nobody-else")["trash"] == []
    assert "0 of 0 deleted" in desk.command("trash", "empty", "--all", "--user", "nobody-else")
    assert len(desk.json("trash", "list", "--user", user["user"])["trash"]) == 4
    assert "4 of 4 deleted" in desk.command("trash", "empty", "--all", "--user", user["user"], "--yes")
    desk.command("trash", "empty", "--user", user["user"], status=2)


def test_emptying_all_needs_to_be_told_twice_without_a_terminal(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    desk.command("trash", "empty", "--all", status=2)
    assert len(desk.shop.trashed()) == 4
    told = desk.command("trash", "empty", "--all", "--yes")
    assert "4 of 4 deleted, freed: " in told
    assert desk.shop.trashed() == []


def test_emptying_all_asks_on_a_terminal_and_says_what_it_is_about(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    for answer, left, expected in (("n", 4, 1), ("y", 0, 0)):
        told, status = on_terminal(["--config", str(desk.config), "trash", "empty", "--all"], answer)
        assert "Permanently delete 4 checkpoints (" in told
        assert (len(desk.shop.trashed()), status) == (left, expected)


def on_terminal(arguments, answer):
    """Run ckptd on a terminal of its own and type one line; return all that was shown, and its exit status."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "ckptd", *arguments], stdin=theirs, stdout=theirs, stderr=theirs
    ) as it:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        shown = b""
        with suppress(OSError):  # the terminal is gone with its last user
            while data := os.read(ours, 4096):
                shown += data
        os.close(ours)
    return shown.decode(), it.returncode


def test_what_could_not_be_brought_back_is_named(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    entry = desk.json("trash", "list")["trash"][0]
    desk.shop.save("epoch_1.npz", epoch=1)
    told = desk.command("trash", "restore", entry["id"], status=1)
    assert f"refused {entry['path']}: 'epoch_1.npz' is there again" in told
    assert "0 of 1 restored" in told


def test_with_errors_in_the_configuration_the_trash_of_a_directory_can_still_be_reached(desk):
    desk.command("prune", "--apply", "--plan", desk.json("plan")["plan"])
    desk.config.write_text("[retention]\nhold = 3\nnonsense = 1\n")
    entry = desk.json("trash", "list", desk.shop.directory)["trash"][0]
    held = datetime.fromisoformat(entry["hold_ends_at"]) - datetime.fromisoformat(entry["moved_at"])
    assert held == timedelta(days=7)  # its own manifest says so
    desk.command("trash", "restore", entry["id"], "--directory", desk.shop.directory)


def test_a_plan_of_every_run_says_how_many_have_nothing_to_prune(desk, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # an ordinary user's plan has all own runs
    shop = desk.shop
    assert "nothing to prune" not in desk.command("plan")
    for name in ("one", "two"):
        note_run(shop.store, shop.run._replace(directory=f"/none/{name}"), shop.now)
    assert "1 run; 2 more runs with fewer than two checkpoints have nothing to prune" in desk.command("plan")
