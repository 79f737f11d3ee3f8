"""What the owner of a trash may plant in it: it costs nobody else anything, and reaches neither record nor metrics."""

import json
import os
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest

from ckptd import cli
from ckptd.checkpoints.agent import request_child
from ckptd.checkpoints.agent.client import Batch
from ckptd.checkpoints.trash import trash_operations
from ckptd.core.fleet.prune_totals import PruneAction
from ckptd.core.fleet.snapshot import Report
from ckptd.metrics.collector import ReportCollector
from ckptd.steps.prune import audit_entries, step
from ckptd.steps.prune.recovery import PruneParts
from support.prune_facts import CLUSTER, UID, make_site, own

HUGE = 10**400
SETTINGS = """
[slurm]
cluster = "c"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
allowed_roots = ["{root}"]
"""


@pytest.fixture
def shop(shop):
    shop.act()
    return shop


def plant(shop, name, *, is_moved=True, size=1, **changes):
    """Put an entry into the trash as its owner could write it."""
    entry = os.fsencode(shop.trash()) + b"/" + name
    os.mkdir(entry, 0o700)
    document = {
        "version": 1,
        "act_id": "x",
        "directory": "ckpts",
        "path": f"{shop.directory}/planted",
        "uid": UID,
        "moved_at": "2026-01-01T00:00:00+00:00",
        "reasons": [],
        "items": [{"name": "planted", "things": [["", "file", 1, 1, size, 1]]}],
        **changes,
    }
    names = {b"manifest.json": json.dumps(document), **({b"moved": ""} if is_moved else {})}
    for file, text in names.items():
        with open(entry + b"/" + file, "w") as out:
            out.write(text)
        own(entry + b"/" + file)
    own(entry)


def scrape(shop):
    registry = CollectorRegistry()
    collector = ReportCollector("1", started_at=shop.now)
    registry.register(collector)
    collector.publish(Report(cluster="c", made_at=shop.now, pruned=shop.memory.pruned))
    return generate_latest(registry).decode()


def test_numbers_times_and_names_that_no_one_can_count_with_are_left_out(shop):
    expected = shop.memory.pruned.held
    plant(shop, b"huge", size=HUGE)
    plant(shop, b"negative", size=-(10**15))
    plant(shop, b"early", moved_at="0001-01-01T00:00:00+23:59")
    plant(shop, b"late", moved_at="9999-12-31T23:59:59-23:59")
    plant(shop, b"infinite", items=float("inf"))
    plant(shop, b"nobody", uid=float("inf"))
    plant(shop, b"nowhere", directory="a\0b")
    plant(shop, b"vast", size=2**63 - 1)
    plant(shop, b"\xff\xfe")
    plant(shop, b"a\nline", path="x")
    os.mkfifo(shop.trash() / "fifo")
    (shop.trash() / "link").symlink_to("/etc")
    shop.wait(5)
    assert shop.act() == step.PruneResult()
    assert shop.memory.pruned.held == expected
    assert "ckptd_trash_checkpoints 4.0" in scrape(shop)
    shop.memory = step.PruneSlice()
    shop.wait(5)
    shop.act()
    assert shop.memory.pruned.held == expected
    assert shop.memory.pruned.unconfirmed_run_count == 0
    assert shop.audit(audit_entries.RECOVER) == []


def test_only_what_the_audit_says_was_moved_is_counted_as_held_and_with_the_size_that_it_tells(shop):
    expected = shop.memory.pruned.held
    plant(shop, b"forged", size=10**9)
    act_id = shop.trashed()[0]
    manifest = shop.trash() / act_id / "manifest.json"
    document = json.loads(manifest.read_text())
    document["items"][0]["things"][0][4] = 10**9
    manifest.write_text(json.dumps(document))
    own(manifest)
    copied = shop.directory / ".ckptd-trash"
    copied.mkdir(mode=0o700)
    own(copied)
    os.rename(shop.trash() / act_id, copied / act_id)
    shutil.copytree(copied / act_id, shop.trash() / act_id)
    for path in (shop.trash() / act_id, *(shop.trash() / act_id).rglob("*")):
        own(path)
    shop.wait(5)
    shop.act()
    assert len(shop.trashed()) == 5
    assert shop.memory.pruned.held == expected
    shop.memory = step.PruneSlice()
    shop.act()
    assert shop.memory.pruned.held == expected


def test_an_administrator_reads_a_planted_trash_without_harm(shop):
    plant(shop, b"huge", size=HUGE)
    plant(shop, b"escape", path=f"{shop.directory}/\x1b[2J\nroot", reasons=["\x1b]0;x\x07" * 1000])
    (shop.root / "config.toml").write_text(SETTINGS.format(root=shop.root))
    found = CliRunner().invoke(cli.main, ["--config", str(shop.root / "config.toml"), "trash", "list"])
    assert (found.exit_code, found.exception.__class__) == (1, SystemExit)
    assert "\x1b" not in found.output
    assert "huge: its manifest is not one of ckptd" in found.stderr
    assert "5 checkpoints" in found.stdout


def test_any_number_of_acts_that_nobody_intended_writes_only_so_many_lines(shop):
    for number in range(300):
        plant(shop, f"cut-off-{number}".encode(), is_moved=False)
    shop.memory = step.PruneSlice()
    shop.wait(5)
    shop.act()
    assert 0 < len(shop.audit(audit_entries.RECOVER)) <= 100
    assert shop.names() == ["epoch_5.npz", "epoch_6.npz"]


def test_what_was_cut_off_and_nobody_intended_has_one_row_for_each_user_and_step(shop, monkeypatch):
    monkeypatch.setattr("ckptd.steps.prune.recovery.PLACE_LIMIT", 100)
    for number in range(250):
        plant(shop, f"cut-off-{number:04d}".encode(), is_moved=False)
    shop.memory = step.PruneSlice()
    for rows in range(10):
        assert len(shop.audit(audit_entries.RECOVER)) <= rows
        shop.wait(5)
        shop.act()
        if shop.run in shop.memory.recovered.runs:
            break
    assert rows >= 2
    assert len(shop.trashed()) == 4  # those that were moved


def test_what_began_on_record_is_settled_first_whatever_else_is_in_its_trash(shop, monkeypatch):
    monkeypatch.setattr("ckptd.steps.prune.recovery.PLACE_LIMIT", 50)
    for number in range(200):
        plant(shop, f"0000-{number:04d}".encode(), is_moved=False)
    act_id = shop.trashed()[-1]
    (shop.trash() / act_id / "moved").unlink()
    intent = next(entry for entry in shop.audit(audit_entries.PRUNE) if entry.details["act_id"] == act_id)
    shop.store.audit.record(replace(intent, audit_id=None, finished_at=None, outcome=None))
    shop.memory = step.PruneSlice()
    shop.wait(5)
    shop.act()
    assert [entry for entry in shop.audit(audit_entries.PRUNE) if entry.finished_at is None] == []
    assert (shop.trash() / act_id / "moved").exists()
    assert len(shop.trashed()) > 100


def test_what_was_never_there_is_deleted_with_one_row_for_each_step_and_no_word_of_its_path(shop):
    count = 150
    for number in range(count):
        plant(shop, f"hollow-{number:03d}".encode())
    deletions = shop.memory.pruned.operations[PruneAction("empty", "deleted", "")]
    elapsed = shop.memory.clock.stepped_on
    shop.memory.trash.read(PruneParts(shop.store, shop.agent, shop.site, CLUSTER), [shop.run], shop.now)
    shop.site = make_site(shop.root, hold=timedelta(days=1000))
    shop.wait(5)
    shop.act(elapsed + timedelta(minutes=5))
    assert len(shop.trashed()) == count + 4
    shop.site = make_site(shop.root, hold=timedelta(hours=1))
    for number in range(1, 12):
        shop.wait(61)
        shop.act(elapsed + timedelta(minutes=61 * number))
        rows = shop.audit(audit_entries.SWEEP)
        assert len(rows) <= number
        if len(shop.trashed()) == 4:
            break
    told = [re.fullmatch("deleted: 0, and ([0-9]+) of which nothing was there", entry.outcome) for entry in rows]
    assert len(told) >= 2
    assert sum(int(each[1]) for each in told) == count
    assert not any("planted" in entry.target for entry in shop.audit())
    assert shop.memory.pruned.operations[PruneAction("empty", "deleted", "")] == deletions


def test_what_is_planted_is_emptied_as_its_owners_and_takes_nothing_along(shop):
    precious = shop.root / "precious"
    precious.write_text("x")
    status = precious.stat()
    thing = ["../../../precious", "file", status.st_dev, status.st_ino, 1, status.st_mtime_ns]
    plant(shop, b"climbing", items=[{"name": "planted", "things": [thing]}])
    plant(shop, b"linked", items=[{"name": "planted", "things": [["", "file", *thing[2:]]]}])
    os.link(precious, shop.trash() / "linked" / "0")
    shop.wait(60 * 24 * 30)
    shop.now = max(shop.now, datetime.now(UTC))
    shop.act(elapsed=shop.memory.clock.stepped_on + (shop.now - shop.memory.clock.stepped_at))
    assert precious.read_text() == "x"
    assert (shop.trash() / "climbing").exists()


@pytest.mark.parametrize("name", ["manifest.json", "moved"])
def test_a_planted_file_that_would_take_gigabytes_to_read_is_refused_by_its_child(shop, name):
    plant(shop, b"huge")
    file = shop.trash() / "huge" / name
    file.write_bytes(b'{"version":2,"x":[' + b'{"":0},' * (2**26 // 7 - 10) + b"0]}")
    own(file)
    known = len(shop.trashed()) - 1
    item = {"place": str(shop.trash()), "known": [], "is_measured": False, "turn": ["", 100, None]}
    batch = Batch(uid=UID, operation="list_trash", items=(item,), deadline_seconds=60)
    ((listed,),) = shop.agent.run([batch])
    reasons = [reason for _, reason in listed["problems"]]
    assert len(listed["entries"]) == known + (name == "moved")
    assert reasons == ["its manifest needs more memory than one of ckptd"] * (name != "moved")
    shop.wait(8 * 24 * 60)
    assert shop.act().deleted_count == known


def test_each_operation_that_reads_manifests_has_a_limit_of_memory():
    assert trash_operations.OPERATIONS.keys() - {"move_aside"} == request_child.READS_MANIFESTS
