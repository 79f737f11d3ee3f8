"""The settings that commands about the trash read by themselves are those that the whole configuration gives."""

import pytest

from ckptd.config import Config, ConfigError, read_config
from ckptd.config.listing_settings import ListingSettings
from ckptd.config.trash_settings import TRASH_KEYS, TrashSettings, read_trash_settings
from cli.test_trash_agent import LIMITS
from config.test_listing_settings import SAMPLES, result_of


def read_whole(path, environment):
    config = read_config(path, environment)
    limits = config.slurm.poll_interval, config.actions.max_per_hour
    listing = ListingSettings(config.database_url, config.store.password_file, *limits, config.slurm.cluster)
    agent = config.agent
    rules = config.scan.allowed_roots, agent.uid_min, agent.deny_users, agent.deny_groups
    return TrashSettings(listing, config.retention.hold, *rules)


@pytest.mark.parametrize("text", (SAMPLES | LIMITS).values(), ids=SAMPLES | LIMITS)
@pytest.mark.parametrize(
    "environment",
    [{}, {"CKPTD_SLURM__CLUSTER": "c"}, {"CKPTD_RETENTION__HOLD": "3h"}, {"CKPTD_SCAN__ALLOWED_ROOTS": '["/x"]'}],
    ids=str,
)
def test_the_settings_and_the_errors_are_those_of_the_whole_configuration(text, environment, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert result_of(read_trash_settings, path, environment) == result_of(read_whole, path, environment)


def test_an_error_elsewhere_keeps_nobody_from_the_trash(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[mail]\nmode = "pigeon"\n[retention]\nhold = "2d"\n')
    assert read_trash_settings(path, {}).hold.days == 2
    with pytest.raises(ConfigError, match=r"mail\.mode"):
        read_config(path, {})


def test_the_settings_that_are_known_are_those_of_the_models():
    for name, keys in TRASH_KEYS.items():
        assert set(Config.model_fields[name].annotation.model_fields) == keys, name
