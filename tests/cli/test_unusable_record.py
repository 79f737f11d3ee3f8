"""The commands that read the record say in a sentence why there is none to read."""

import pytest
from click.testing import CliRunner

from ckptd.cli import main


def run(config, *command):
    result = CliRunner().invoke(main, ["--config", str(config), *command])
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_state_directory_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}/file/state"\n')
    for command in (["run"], ["once"], ["db", "upgrade"]):
        result = run(config, *command)
        assert result.exit_code == 2
        assert "cannot create the state directory" in result.stderr


def test_a_password_file_that_cannot_be_read_is_a_sentence(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\nurl = "postgresql://ckptd@127.0.0.1:1/x"\npassword_file = "{tmp_path}/none"\n')
    result = run(config, "jobs")
    assert result.exit_code == 2
    assert "store.password_file" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        *(["jobs"], ["verify", "4"], ["pin", "/x"], ["unpin", "/x"], ["db", "check"], ["plan"]),
        *(["trash", "scan"], ["trash", "restore", "x"], ["prune", "--apply", "--plan", "x"]),
    ],
    ids=" ".join,
)
def test_no_command_but_an_upgrade_makes_a_database(words, tmp_path):
    """It would belong to whoever types the command, and be readable for all."""
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}/state"\n')
    (tmp_path / "state").mkdir()
    result = run(config, *words)
    assert result.exit_code == 2
    assert f"there is no {tmp_path}/state/ckptd.sqlite3. If the daemon has run" in result.stderr
    assert list((tmp_path / "state").iterdir()) == []


def test_without_a_database_a_sentence_says_what_to_do(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n')
    result = run(config, "jobs")
    assert result.exit_code == 2
    assert f"there is no {tmp_path}/ckptd.sqlite3. If the daemon has run on this host, it uses another" in result.stderr
    assert "ckptd db upgrade" in result.stderr
    assert run(config, "db", "upgrade").exit_code == 0
    assert run(config, "db", "check").exit_code == 0
    assert run(config, "jobs").stdout == "The queue was not polled yet. `ckptd status` shows why.\n"
