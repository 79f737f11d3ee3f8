"""The main process in an attacker's hands: nothing outside of the configured roots is read or changed."""

import os
import shutil
from datetime import UTC, datetime
from functools import partial

import pytest

from ckptd.checkpoints.scanning import resumed_file
from ckptd.checkpoints.trash import TRASH, move_aside
from ckptd.core.model import DeclaredResume
from ckptd.service.agent_process import OPERATIONS
from service.subverted_main import ALICE, JOB_OPERATIONS, ask_outside, assert_empty, every_operation
from support import trash_facts
from support.checkpoint_bytes import safetensors

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def elsewhere(shared):
    """What must stay as it is: a run outside the roots with an entry in its trash, and a link to it from inside."""
    site, _ = shared
    run = site.outside / "run"
    run.mkdir()
    for number in (1, 2):
        trash_facts.write(run, "file", number, uid=ALICE)
    os.chown(site.outside, ALICE, ALICE)
    moved = partial(trash_facts.request, run, "file", 1, uid=ALICE, act_id="a1")
    assert trash_facts.in_child(lambda: move_aside(moved(), now=datetime.now(UTC)), ALICE) == 0
    assert (site.outside / TRASH / "a1/moved").exists()
    (run / ".ckptd.toml").write_text('mail = {mute = true}\nresume_from = "step_2.pt"\n')
    os.chown(run / ".ckptd.toml", ALICE, ALICE)
    (site.root / "link").symlink_to(site.outside)
    yield run
    (site.root / "link").unlink()


NAMES_OF_OUTSIDE = ["{outside}", "{root}/link", "{root}/../outside", "{outside}/../scratch/link", "//{outside}", "."]


@pytest.mark.parametrize("name", NAMES_OF_OUTSIDE)
@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - set(JOB_OPERATIONS)))
def test_nothing_outside_the_roots_is_read_or_changed(site, attacker, elsewhere, operation, name):
    named = name.format(outside=site.outside, root=site.root)
    before = trash_facts.read_files(site.outside), sorted(map(str, site.outside.rglob("*")))
    assert "step_2.pt" in str(before)
    answers, reason = attacker.ask(operation, ask_outside(site, operation, named))
    assert reason is None
    assert_empty(operation, answers[0])
    assert (trash_facts.read_files(site.outside), sorted(map(str, site.outside.rglob("*")))) == before
    assert site.asked.read_text() == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"places": 3},
        {"places": ["/a\0b"]},
        {"places": ["/x"] * 2000},
        {"job_names": [""]},
        {"job_names": [7]},
        {"job_names": ["7"] * 100},
        {"job_names": ["7" * 1000]},
        {"is_role_asked": 1},
    ],
)
def test_a_malformed_search_is_refused(site, attacker, changes):
    answers, _ = attacker.ask("locate", {**every_operation(site)["locate"], **changes})
    assert answers[0]["unknown"].startswith(f"locate: field {next(iter(changes))!r} has a wrong type")


@pytest.fixture
def named_for_job(site):
    """Directories named for job 7, inside and outside of the roots, each with a checkpoint and with what jobs say."""
    made = [parent / "elsewhere" / "job_7" for parent in (site.root, site.outside)]
    for directory in made:
        directory.mkdir(parents=True)
        (directory / "step_2.safetensors").write_bytes(safetensors())
        resumed_file.append(str(directory), DeclaredResume(path="/somewhere/step_2.pt", job_id=7))
        for path in (directory.parent, directory, *directory.rglob("*")):
            os.chown(path, ALICE, ALICE)
    yield made
    for directory in made:
        shutil.rmtree(directory.parent)


def test_places_of_the_sites_variables_count_below_the_roots_only(site, attacker, named_for_job):
    inside, outside = named_for_job
    empty = site.root / "empty"
    empty.mkdir()
    link = site.root / "link_7"
    link.symlink_to(outside)
    asked = {**every_operation(site)["locate"], "work_dir": str(empty), "candidates": [["discovery", "."]]}
    for place in (outside.parent, link, empty / "../../outside/elsewhere"):
        answers, _ = attacker.ask("locate", {**asked, "places": [str(place)]})
        assert answers[0]["directory"] is None
    answers, _ = attacker.ask("locate", {**asked, "places": [str(inside.parent)]})
    assert answers[0]["directory"] == str(inside)
    link.unlink()
    empty.rmdir()


def test_what_jobs_say_is_read_below_the_roots_only(site, attacker, named_for_job):
    inside, outside = named_for_job
    for work_dir, count in ((inside, 1), (outside, 0), (site.root / "../outside/elsewhere/job_7", 0)):
        item = site.scan_item(work_dirs=[str(work_dir)], resuming_jobs=[7])
        assert len(attacker.ask("scan", item)[0][0]["declared"]) == count


def test_the_databases_of_workspaces_are_the_configured_ones(site, attacker):
    other = site.outside / "workspaces"
    other.mkdir()
    for database, expiration in ((site.workspaces, 2_000_000_000), (other, 1)):
        (database / "alice-run").write_text(f"workspace: {site.root}/alice-run\nexpiration: {expiration}\n")
    item = {"directory": str(site.root / "alice-run/ck")}
    assert attacker.ask("find_workspaces", item)[0][0]["workspace"]["expires_at"] == 2_000_000_000
    answers, _ = attacker.ask("find_workspaces", {**item, "databases": [str(other)]})
    assert answers == {0: {"unknown": "find_workspaces: unknown field 'databases'"}}
    shutil.rmtree(other)


def test_inside_the_roots_all_of_it_is_done(site, attacker):
    asked = every_operation(site)
    assert attacker.ask("locate", asked["locate"])[0][0]["directory"] == str(site.run)
    assert len(attacker.ask("verify", asked["verify"])[0][0]["checkpoints"]) == 1
    assert len(attacker.ask("digest", asked["digest"])[0][0]["files"]) == 1
    assert attacker.ask("look_up_paths", asked["look_up_paths"])[0][0]["real"] == [str(site.run)]
    (moved,) = attacker.ask("move_aside", asked["move_aside"])[0][0]["outcomes"]
    assert moved["result"] == "moved", moved
    assert attacker.ask("look_up", asked["look_up"])[0][0] == {"state": "held"}
    assert [each["act_id"] for each in attacker.ask("list_trash", asked["list_trash"])[0][0]["entries"]] == ["a1"]
    (back,) = attacker.ask("restore", asked["restore"])[0][0]["outcomes"]
    assert back["result"] == "restored"
    assert (site.run / "checkpoint-3").exists()
