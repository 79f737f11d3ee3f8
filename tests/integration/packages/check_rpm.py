"""The package for EL 9: built, linted, and looked through as unpacked. It is not installed on EL 9 here."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from demo.patience import allow

ROOT = Path(__file__).parents[3]
# what a virtual environment of wheels is like; and tags that rpm no longer uses
EXPECTED = {
    "binary-or-shlib-calls-gethostbyname", "binary-or-shlib-defines-rpath", "devel-file-in-non-devel-package",
    "dir-or-file-in-opt", "env-script-interpreter", "file-not-in-%lang", "files-duplicate", "hidden-file-or-dir",
    "invalid-license", "no-changelogname-tag", "no-documentation", "no-group-tag", "no-manual-page-for-binary",
    "no-packager-tag", "no-signature", "non-executable-script", "only-non-binary-in-usr-lib", "script-without-shebang",
    "static-library-without-debuginfo", "symlink-should-be-relative", "unstripped-binary-or-object",
    "wrong-script-interpreter", "zero-length",
    "dangling-symlink",  # to the system's Python
    "dangerous-command-in-%pre", "dangerous-command-in-%post",  # rm of an old copy, install of a directory
}  # fmt: skip


def ask(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    dist = tmp_path_factory.mktemp("dist")
    environment = {**os.environ, "DIST": str(dist)}
    subprocess.run([ROOT / "deploy/packages/build-rpm"], check=True, env=environment, timeout=allow(200))
    return next(dist.glob("*.el9.*.rpm"))


@pytest.fixture(scope="module")
def tree(package, tmp_path_factory):
    tree = tmp_path_factory.mktemp("unpacked")
    unpacked = subprocess.run(["rpm2cpio", package], check=True, capture_output=True).stdout
    subprocess.run(["cpio", "--extract", "--make-directories", "--quiet"], check=True, input=unpacked, cwd=tree)
    return tree


def test_the_linter_finds_nothing_that_is_not_expected(package):
    said = subprocess.run(["rpmlint", package], check=False, capture_output=True, text=True, timeout=allow(200)).stdout
    found = set(re.findall(r": [EW]: (\S+)", said))
    assert found
    assert found - EXPECTED == set()


def test_everything_belongs_to_root_and_nobody_else_may_write_it(package):
    rows = ask("rpm", "-qp", "--qf", "[%{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEMODES:perms} %{FILENAMES}\n]", package)
    lines = rows.splitlines()
    assert lines
    wrong = [line for line in lines if not re.match(r"root:root (l\S+|[-d]rw[x-]r-[x-]r-[x-]) /", line)]
    assert wrong == []


def test_it_needs_the_systems_python_and_keeps_what_an_administrator_wrote(package):
    needed = ask("rpm", "-qp", "--requires", package).split("\n")
    assert "python3.11" in needed
    assert ask("rpm", "-qp", "--configfiles", package).split() == ["/etc/ckptd/config.toml"]


def test_its_scripts_make_the_account_copy_the_database_and_start_nothing_new(package):
    scripts = ask("rpm", "-qp", "--scripts", package)
    for said in ("systemd-sysusers", "db backup", "try-restart ckptd.service", "disable --quiet --now ckptd.service"):
        assert said in scripts
    assert not re.search(r"^\s*systemctl .*enable", scripts, re.MULTILINE)
    for body in re.split(r"^\w+ scriptlet.*$", scripts, flags=re.MULTILINE):
        subprocess.run(["sh", "-n"], check=True, input=body, text=True)


def test_its_environment_runs_and_names_no_directory_of_the_machine_that_built_it(tree):
    program = tree / "opt/ckptd/bin/ckptd"
    assert program.read_text().startswith("#!/opt/ckptd/bin/python3\n")
    assert os.readlink(tree / "opt/ckptd/bin/python3.11") == "/usr/bin/python3.11"
    assert os.readlink(tree / "usr/bin/ckptd") == "/opt/ckptd/bin/ckptd"
    assert ask(tree / "opt/ckptd/bin/python3.11", "-m", "ckptd", "--version").startswith("python -m ckptd, version ")
    assert (tree / "etc/ckptd/config.toml").read_text() == (ROOT / "deploy/config.toml").read_text()
    assert (tree / "usr/lib/systemd/system/ckptd.service").exists()
