"""The settings that listings read by themselves are those that the whole configuration gives."""

import pytest

from ckptd.config import Config, ConfigError, Section, raw_tables, read_config
from ckptd.config.listing_settings import KEYS, SECTIONS, ListingSettings, read_listing_settings

SAMPLES = {
    "nothing": "",
    "a directory": '[service]\nstate_directory = "/srv/ckptd"\n',
    "an address": '[store]\nurl = "postgresql://ckptd@db/ckptd"\npassword_file = "/run/secret"\n',
    "an empty address": '[store]\nurl = ""\n',
    "an address of another database": '[store]\nurl = "mysql://u:secret@h/d"\n',
    "an address without a port": '[store]\nurl = "postgresql://u:secret@h:port/d"\n',
    "no address": '[store]\nurl = "ckptd"\n',
    "limits": '[slurm]\npoll_interval = "1h30m"\n[actions]\nmax_per_hour = 0\n',
    "a time as TOML has it": "[slurm]\npoll_interval = 08:30:00\n",
    "a number in quotes": '[actions]\nmax_per_hour = "7"\n',
    "no time at all": '[slurm]\npoll_interval = "0s"\n',
    "a time without a unit": '[slurm]\npoll_interval = "60"\n',
    "a negative limit": "[actions]\nmax_per_hour = -1\n",
    "a switch for a number": "[actions]\nmax_per_hour = true\n",
    "a number for a path": "[service]\nstate_directory = 5\n",
    "an unknown key": '[store]\nurll = "sqlite:///x"\n',
    "an unknown section": "[stor]\n",
    "no table": "store = 5\n",
    "no TOML": "[store\n",
    "other sections": '[scan]\nmax_depth = 3\n[[watch]]\ndirectory = "{work_dir}/x"\n',
}


def read_whole(path, environment):
    config = read_config(path, environment)
    limits = config.slurm.poll_interval, config.actions.max_per_hour
    return ListingSettings(config.database_url, config.store.password_file, *limits)


def result_of(read, path, environment):
    try:
        return read(path, environment)
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize(
    "environment",
    [{}, {"CKPTD_STORE__URL": "sqlite:////x/y"}, {"CKPTD_ACTIONS__MAX_PER_HOUR": "3"}, {"CKPTD_SLURM__POLL": "1s"}],
    ids=str,
)
def test_listings_read_what_the_whole_configuration_says_and_word_the_same_errors(text, environment, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(text)
    found = result_of(read_listing_settings, path, environment)
    assert found == result_of(read_whole, path, environment)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        read_listing_settings(tmp_path / "none.toml", {})


@pytest.mark.parametrize("environment", [{"STATE_DIRECTORY": "/a:/b"}, {"XDG_STATE_HOME": "/x"}, {}], ids=str)
@pytest.mark.parametrize("uid", [0, 1000])
def test_the_default_place_of_the_record_is_the_daemons(environment, uid, monkeypatch, tmp_path):
    monkeypatch.setattr(raw_tables, "DEFAULT_PATH", tmp_path / "none")
    monkeypatch.setattr("os.geteuid", lambda: uid)
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert read_listing_settings(None, {}) == read_whole(None, {})


def test_an_error_elsewhere_keeps_nobody_from_a_listing(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[mail]\nmode = "pigeon"\n[store]\nurl = "sqlite:////x/y"\n')
    assert read_listing_settings(path, {}).database_url == "sqlite:////x/y"
    with pytest.raises(ConfigError, match=r"mail\.mode"):
        read_config(path, {})


def test_the_settings_that_are_known_are_those_of_the_models():
    assert set(Config.model_fields) == SECTIONS
    for name, keys in KEYS.items():
        section = Config.model_fields[name].annotation
        assert issubclass(section, Section)
        assert set(section.model_fields) == keys, name
