"""The Debian package under a real systemd: installed, upgraded with a migration, rolled back, removed and purged."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ckptd.store.revisions import list_revisions
from demo.patience import allow
from integration.systemd import debian_tree

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
NEWEST = list_revisions()[-1]
MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{NEWEST}"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("runs", sa.Column("of_a_later_version", sa.Integer(), nullable=True))
"""


def pack(tree, version, target):
    control = tree / "DEBIAN/control"
    lines = control.read_text().splitlines()
    control.write_text(
        "\n".join(f"Version: {version}" if line.startswith("Version:") else line for line in lines) + "\n"
    )
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, target], check=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    dist = tmp_path_factory.mktemp("dist")
    environment = {**os.environ, "DIST": str(dist), "COMPRESSION": "gzip"}
    subprocess.run([ROOT / "deploy/packages/build-deb"], check=True, env=environment, timeout=allow(200))
    return next(dist.glob("*.deb"))


@pytest.fixture(scope="module")
def tree(package, tmp_path_factory):
    tree = tmp_path_factory.mktemp("unpacked") / "ckptd"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    yield tree
    shutil.rmtree(tree)


@pytest.fixture(scope="module")
def facts(tree, tmp_path_factory):
    """What an administrator sees after each command; version 2.0 is the same with one more migration."""
    packages, out = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("out")
    pack(tree, "1.0", packages / "1.0.deb")
    (folder,) = tree.glob("opt/ckptd/lib/python3*/site-packages/ckptd/migrations/versions")
    (folder / "9999_later.py").write_text(MIGRATION)
    pack(tree, "2.0", packages / "2.0.deb")
    (folder / "9999_later.py").unlink()
    binds = {
        HERE: "/test",
        packages: "/packages",
        ROOT / "tests/data/slurm/22.05.8": "/recording",
        HERE / "packages-test.service": "/etc/systemd/system/packages-test.service",
    }
    argv = ["systemd-nspawn", "--quiet", "--volatile=overlay", "--register=no", "--keep-unit", "--private-network"]
    argv += ["--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self"]
    argv += ["--console=pipe", f"--bind={out}:/out"]
    argv += [f"--bind-ro={source}:{target}" for source, target in binds.items()]
    with (out / "console").open("wb") as console, debian_tree.lend() as root:
        subprocess.run(
            [*argv, f"--directory={root}", "--boot", "systemd.wants=packages-test.service"],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            check=False,
            timeout=allow(240),
        )
    assert (out / "facts.json").exists(), (out / "console").read_text(errors="replace")[-3000:]
    found = json.loads((out / "facts.json").read_text())
    assert "failed" not in found, found["failed"]
    return found


def test_no_file_of_the_package_names_a_directory_of_the_machine_that_built_it(tree):
    texts = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    assert texts
    assert [path for path in texts if str(ROOT).encode() in path.read_bytes()] == []


def test_an_installation_has_account_command_and_configuration_and_starts_nothing(facts):
    seen = facts["installed"]
    assert seen["dpkg"]["status"] == 0, seen["dpkg"]["text"]
    assert seen["package"] == "ii 1.0"
    assert (seen["account"], seen["command"], seen["config"]) == (True, True, True)
    assert seen["service"] == "inactive"
    assert seen["check"]["status"] == 0, seen["check"]["text"]


def test_the_service_runs(facts):
    seen = facts["started"]
    assert (seen["service"], seen["revision"]) == ("active", NEWEST), seen


def test_an_upgrade_copies_the_database_and_restarts_the_service_which_upgrades_its_tables(facts):
    seen = facts["upgraded"]
    assert seen["dpkg"]["status"] == 0, seen["dpkg"]["text"]
    assert (seen["package"], seen["service"]) == ("ii 2.0", "active")
    assert (seen["revision"], seen["copy"]) == ("9999", NEWEST)


def test_the_previous_package_refuses_the_newer_database_clearly_and_leaves_it_alone(facts):
    seen = facts["rolled back"]
    assert seen["package"] == "ii 1.0"
    assert (seen["service"], seen["exit status"], seen["revision"]) == ("failed", "2", "9999")
    assert "the database is at revision 9999, which is newer than this ckptd" in seen["journal"]


def test_an_upgrade_that_can_make_no_copy_keeps_the_one_before(facts):
    """The newer tables, which the first of the two steps back left, are nothing that the older package can read."""
    seen = facts["upgraded again"]
    assert "no copy of the database was made" in seen["dpkg"]["text"]
    assert seen["copy"] == NEWEST
    assert "the service had failed; start it again with 'systemctl start ckptd'" in seen["dpkg"]["text"]


def test_the_previous_package_works_with_the_copy_of_before_the_upgrade(facts):
    seen = facts["restored"]
    assert seen["restore"]["status"] == 0, seen["restore"]["text"]
    assert (seen["service"], seen["revision"]) == ("active", NEWEST)


def test_removing_keeps_configuration_and_records(facts):
    seen = facts["removed"]
    assert seen["dpkg"]["status"] == 0, seen["dpkg"]["text"]
    assert (seen["service"], seen["command"], seen["left"]) == ("inactive", False, [])
    assert (seen["config"], seen["revision"]) == (True, NEWEST)


def test_purging_leaves_nothing_but_the_account(facts):
    seen = facts["purged"]
    assert seen["dpkg"]["status"] == 0, seen["dpkg"]["text"]
    assert (seen["config"], seen["state"], seen["copy"], seen["account"]) == (False, False, None, True)
