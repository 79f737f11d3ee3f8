"""The main process in an attacker's hands: nothing is deleted or moved that the configuration holds."""

import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.checkpoints.trash import TRASH, Origin
from ckptd.checkpoints.trash.manifest import encode_origin
from demo.patience import allow
from service.subverted_main import ALICE, DAY, ENFORCED, Attacker, every_operation
from support import trash_facts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


LAX = {"held_before": 4e9, "now": None, "is_short_of_space": True, "clock_tolerance": None}


@pytest.mark.parametrize(
    ("age_days", "release", "result"),
    [
        (0, {}, "refused"),
        (0.9, {}, "refused"),
        (0.9, {"now": 4e9, "clock_tolerance": 1e9}, "refused"),
        (1.5, {"is_short_of_space": False, "now": 4e9}, "refused"),
        (1.5, {}, "deleted"),
        (2.5, {"is_short_of_space": False}, "deleted"),
        (2.5, {"held_before": 1e9}, "refused"),
    ],
)
def test_nothing_is_deleted_that_the_configuration_or_its_manifest_holds(site, attacker, age_days, release, result):
    """Whatever was asked for when it was moved, and whatever time the main process says that it is."""
    asked = every_operation(site)
    origin = encode_origin(Origin(hold=timedelta(0), no_room_hold=timedelta(0)))
    item = {**asked["move_aside"], "now": 1e9, "origin": origin}
    (moved,) = attacker.ask("move_aside", item)[0][0]["outcomes"]
    assert moved["result"] == "moved", moved
    manifest = site.root / TRASH / "a1/manifest.json"
    document = json.loads(manifest.read_text())
    assert abs(datetime.fromisoformat(document["moved_at"]).timestamp() - time.time()) < allow(60)
    assert (document["hold"], document["no_room_hold"]) == (2 * DAY, DAY)
    document["moved_at"] = (datetime.now(UTC) - timedelta(days=age_days)).isoformat()  # as if time had passed
    manifest.write_text(json.dumps(document))
    empty = {**asked["empty"], "release": {**LAX, **release}}
    (outcome,) = attacker.ask("empty", empty)[0][0]["outcomes"]
    assert outcome["result"] == result, outcome
    if result != "deleted":
        assert attacker.ask("restore", asked["restore"])[0][0]["outcomes"][0]["result"] == "restored"


def test_what_the_manifest_does_not_name_is_not_deleted(site, attacker):
    asked = every_operation(site)
    attacker.ask("move_aside", asked["move_aside"])
    entry = site.root / TRASH / "a1"
    document = json.loads((entry / "manifest.json").read_text())
    document["moved_at"] = "2020-01-01T00:00:00+00:00"
    (entry / "manifest.json").write_text(json.dumps(document))
    (entry / "1").write_bytes(b"precious")
    os.chown(entry / "1", ALICE, ALICE)
    for act_id in ("../run", "..", ".", "", "a1/..", "/", "run/checkpoint-3"):
        (outcome,) = attacker.ask("empty", {**asked["empty"], "act_ids": [act_id]})[0][0]["outcomes"]
        assert outcome["result"] == "refused", outcome
    attacker.ask("empty", asked["empty"])
    assert [path.read_bytes() for path in (site.root / TRASH).rglob("1")] == [b"precious"]


@pytest.mark.parametrize("mode", ["plan", "off"])
def test_nothing_is_moved_where_no_policy_enforces_removals(place, mode):
    place.write(ENFORCED.replace("enforce", mode))
    attacker = Attacker(place.config)
    try:
        answer = attacker.ask("move_aside", every_operation(place)["move_aside"])[0][0]
        (outcome,) = answer["outcomes"]
        assert outcome["result"] == "refused"
        assert outcome["reason"] == "no retention policy of the configuration enforces removals"
        assert (place.run / "checkpoint-3").exists()
    finally:
        attacker.close()


def test_the_trash_of_a_run_that_is_a_root_itself_is_inside_of_it(site, attacker):
    file = site.root / "checkpoint-5"
    file.write_bytes(b"y")
    os.chown(file, ALICE, ALICE)
    item = {**every_operation(site)["move_aside"], "directory": str(site.root), "path": str(file), "files": [file.name]}
    (moved,) = attacker.ask("move_aside", {**item, "identities": [list(trash_facts.identity(file))]})[0][0]["outcomes"]
    assert moved["result"] == "moved", moved
    assert (site.root / TRASH / "a1").exists()
    (back,) = attacker.ask("restore", every_operation(site)["restore"])[0][0]["outcomes"]
    assert back["result"] == "restored", back
    file.unlink()
