"""What cannot be made, read or opened is named by its path."""

import os
import stat
import subprocess
import sys

import pytest

from ckptd.config import read_config
from ckptd.errors import CkptdError
from ckptd.service.build import start_helpers
from ckptd.service.open_database import StateError, make_state_directory, open_store
from ckptd.service.password_file import read_password
from ckptd.service.privileges import PrivilegeError
from ckptd.store.store import Store
from support.unit_capabilities import limit_to_unit

NOBODY = 65534


@pytest.fixture
def as_nobody(tmp_path):
    """Be somebody who may not read the test's directory; what is imported late is imported before."""
    Store.open(f"sqlite:///{tmp_path}/before.db", upgrade=True).close()
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        yield locked
        os.seteuid(0)
    else:
        yield locked
    locked.chmod(stat.S_IRWXU)


def test_a_state_directory_that_cannot_be_made_is_named(as_nobody):
    with pytest.raises(StateError, match=f"cannot create the state directory '{as_nobody}/state': Permission denied"):
        make_state_directory(as_nobody / "state")


def test_a_database_in_a_directory_that_cannot_be_read_is_named(as_nobody):
    config = read_config(None, {"CKPTD_SERVICE__STATE_DIRECTORY": str(as_nobody)})
    with pytest.raises(CkptdError, match=f"{as_nobody}/ckptd.sqlite3 .*unable to open database file"):
        open_store(config, is_upgraded=True)


def test_a_state_directory_that_is_a_file_is_named(tmp_path):
    (tmp_path / "state").touch()
    with pytest.raises(StateError, match=f"'{tmp_path}/state': File exists"):
        make_state_directory(tmp_path / "state")


def test_a_uid_without_an_account_starts_no_daemon_and_is_named(tmp_path, monkeypatch):
    """As in a container that was started with another uid."""
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    config = read_config(None, {"CKPTD_SERVICE__STATE_DIRECTORY": str(tmp_path / "state")})
    with pytest.raises(PrivilegeError, match="uid 54321 has no account on this host"):
        start_helpers(config, None)
    with pytest.raises(StateError, match="uid 54321 cannot read"):
        read_password(tmp_path / "none", "store.password_file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_directory_that_the_unit_may_not_give_away_is_named(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    code = "import pathlib, sys; from ckptd.service.privileges import become_service_user as become;"
    code += " become('nobody', pathlib.Path(sys.argv[1]))"
    argv = [*limit_to_unit(), sys.executable, "-P", "-c", code, str(state)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert f"service.user: '{state}' belongs to another user" in done.stderr
    assert f"run `chown -R nobody: {state}`" in done.stderr
    os.chown(state, NOBODY, -1)
    assert "chown" not in subprocess.run(argv, capture_output=True, text=True, check=False).stderr
