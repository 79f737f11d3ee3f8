"""Values that can be seen to be wrong without a look at anything else."""

import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.config import ConfigError, read_config
from ckptd.store.engine import create_engine
from demo.patience import allow
from support.forked_daemon import complete_ckptd


def refusal(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path, {})
    return str(caught.value)


@pytest.mark.parametrize("listen", ["hello", "127.0.0.1", "localhost:http", "127.0.0.1:70000", "::1:9478", "a:-1"])
def test_an_address_without_a_port_is_no_address_to_listen_on(tmp_path, listen):
    told = refusal(tmp_path, f'[web]\nlisten = "{listen}"\n')
    assert f"web.listen: {listen!r} is not of the form HOST:PORT" in told


@pytest.mark.parametrize("listen", ["", "127.0.0.1:9478", "[::1]:9478", ":9478", "localhost:0"])
def test_addresses_with_a_port_are_accepted(tmp_path, listen):
    path = tmp_path / "config.toml"
    path.write_text(f'[web]\nlisten = "{listen}"\n')
    assert read_config(path, {}).web.listen == listen


def test_other_databases_are_refused_without_showing_the_password(tmp_path):
    told = refusal(tmp_path, '[store]\nurl = "mysql://ckptd:hunter2@db/ckptd"\n')
    assert 'store.url: "mysql://..." is no database that ckptd can use' in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ckptd:hunter2@db.example.org:abc/ckptd",
        "postgresql://ckptd:hunter2@[::1]:54x/ckptd",
        "postgres://db:70000/ckptd",
        "postgresql://ckptd:hunter2@db:5432 /ckptd",
        "postgresql://ckptd:hunter2@db:/ckptd",
    ],
)
def test_a_port_that_is_none_is_refused_without_showing_the_password(tmp_path, url):
    told = refusal(tmp_path, f'[store]\nurl = "{url}"\n')
    assert "store.url: the part between the host's colon and the next slash is no port" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ckptd@[::1]:5432/ckptd",
        "postgresql://ckptd:a:b/c@db:5432/ckptd",
        "postgresql+psycopg://ckptd@/ckptd?host=/run/postgresql&port=5433",
        "postgres://db/ckptd?options=-c%20a:b",
        "sqlite:////srv/a:b/ckptd.sqlite3",
    ],
)
def test_a_database_url_that_can_be_read_is_accepted_as_it_is(tmp_path, url):
    path = tmp_path / "config.toml"
    path.write_text(f'[store]\nurl = "{url}"\n')
    assert read_config(path, {}).database_url == url
    create_engine(url).dispose()


@pytest.mark.parametrize("url", ["sqlite:///ckptd.sqlite3", "sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_no_place_of_its_own_is_refused(tmp_path, url):
    """Each command would have another one, in the directory where it is typed."""
    told = refusal(tmp_path, f'[store]\nurl = "{url}"\n')
    assert "store.url: the path of a SQLite file must be absolute" in told


@pytest.mark.parametrize(
    ("roots", "said"),
    [("[]", "must not be empty"), ('[""]', "is not an absolute path"), ('["scratch"]', "is not an absolute path")],
)
def test_empty_and_relative_roots_are_refused(tmp_path, roots, said):
    told = refusal(tmp_path, f"[scan]\nallowed_roots = {roots}\n")
    assert "scan.allowed_roots: " in told
    assert said in told


def test_config_check_names_every_unknown_account_and_every_bad_file_at_once(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        '[service]\nuser = "no-such-user"\n[web]\nproxy_account = "no-such-proxy"\n'
        f'[apprise]\nurls_file = "{tmp_path}/none"\n'
    )
    done = CliRunner().invoke(cli.main, ["--config", str(path), "config", "check"])
    assert done.exit_code == 2
    assert "service.user: there is no account 'no-such-user' on this host" in done.stderr
    assert "web.proxy_account: there is no account 'no-such-proxy' on this host" in done.stderr
    assert f"{tmp_path}/none: " in done.stderr


def test_config_check_names_unknown_accounts_and_bad_files_beside_settings_that_are_wrong(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        '[service]\nuser = "no-such-user"\n[slurm]\ntimeout = "7 dayz"\n[web]\nlisten = "hello"\n'
        f'[apprise]\nurls_file = "{tmp_path}/none"\n'
    )
    done = CliRunner().invoke(cli.main, ["--config", str(path), "config", "check"])
    assert done.exit_code == 2
    for told in ("slurm.timeout: ", "web.listen: ", "service.user: there is no account", f"{tmp_path}/none: "):
        assert done.stderr.count(told) == 1, done.stderr
    assert done.stdout == ""


def test_config_check_warns_of_denied_users_and_groups_that_this_host_does_not_have(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[agent]\ndeny_users = ["root", "slurmm", "mysql", "a\\u0000b"]\ndeny_groups = ["root", "dsik"]\n')
    path.chmod(0o644)
    done = CliRunner().invoke(cli.main, ["--config", str(path), "config", "check"])
    assert done.stderr.splitlines() == [
        "warning: agent.deny_users: there is no account 'a\\x00b' on this host",
        "warning: agent.deny_users: there is no account 'slurmm' on this host",
        "warning: agent.deny_groups: there is no group 'dsik' on this host",
    ], "of the defaults, this host need not have all"
    assert (done.exit_code, done.stdout) == (0, "The configuration is valid.\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[service]\nstate_directory = "state"\n', "service.state_directory: 'state' is not an absolute path"),
        ('[scan]\nallowed_roots = ["/home/../etc"]\n', 'scan.allowed_roots: "/home/../etc" contains ".."'),
    ],
)
def test_paths_that_lead_elsewhere_than_they_seem_to_are_refused(tmp_path, text, told):
    assert told in refusal(tmp_path, text)


def test_a_device_without_an_end_is_no_configuration():
    with pytest.raises(ConfigError, match=r"/dev/zero: larger than 4 MiB"):
        read_config(Path("/dev/zero"), {})


@pytest.fixture
def folder():
    """A directory of root that everybody may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_config_check_refuses_a_file_that_the_service_cannot_reload(folder):
    """The daemon reads it as root when it starts, and as the service's account at each reload."""
    path = folder / "config.toml"
    path.write_text('[service]\nuser = "nobody"\n')
    path.chmod(0o600)
    done = complete_ckptd("--config", str(path), "config", "check", folder=folder, timeout=allow(60))
    assert done.returncode == 2
    assert f"{path}: the account nobody cannot read it, so a reload fails: chgrp nogroup {path}" in done.stderr
    folder.chmod(0o700)
    done = complete_ckptd("--config", str(path), "config", "check", folder=folder, timeout=allow(60))
    assert done.returncode == 2
    assert f"{path}: the account nobody may not enter {folder}, so a reload fails" in done.stderr
    assert "chgrp" not in done.stderr
