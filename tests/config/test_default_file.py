"""The configuration that is read without --config."""

import os

import pytest

from ckptd.config import ConfigError, find_file, raw_tables, read_config


@pytest.fixture
def default(tmp_path, monkeypatch):
    path = tmp_path / "ckptd/config.toml"
    path.parent.mkdir()
    monkeypatch.setattr(raw_tables, "DEFAULT_PATH", path)
    return path


def test_no_file_at_all_is_fine(default):
    assert find_file(None) is None
    default.parent.rmdir()
    assert find_file(None) is None
    read_config(None, {})


def test_a_link_to_nothing_is_an_error(default):
    default.symlink_to("/nowhere")
    with pytest.raises(ConfigError, match="No such file or directory"):
        read_config(None, {})


def test_a_directory_that_may_not_be_entered_is_an_error_in_one_line(default, monkeypatch):
    """An administrator whose umask is 077 makes /etc/ckptd so; every command of a user ended with a traceback."""

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "lstat", refuse)
    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    with pytest.raises(ConfigError, match=r"config\.toml: Permission denied"):
        raw_tables.read_tables(None, {})
