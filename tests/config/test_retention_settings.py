"""The settings that `ckptd plan` reads by themselves are those that the whole configuration gives."""

import subprocess
import sys

import pytest

from ckptd.config import ConfigError, read_config
from ckptd.config.retention_settings import list_retention_settings, read_retention_settings
from cli.test_trash_agent import LIMITS
from config.test_listing_settings import SAMPLES, result_of
from demo.patience import allow

PLANS = {
    "a policy": '[[retention.policy]]\nname = "a"\nlast = 3\nevery = { epochs = 10 }\nmode = "enforce"\n',
    "two policies of one name": 2 * '[[retention.policy]]\nname = "a"\nlast = 3\n',
    "a policy without a name": "[[retention.policy]]\nlast = 3\n",
    "a rule that is none": '[[retention.policy]]\nname = "a"\nlast = "some"\n',
    "caps and guards": "[retention.caps]\nuser_count = 7\n[retention.guards]\nsave_grace = '2h'\n",
    "a cap that is none": "[retention.caps]\nuser_count = 0\n",
    "an unknown cap": "[retention.caps]\nuser_cont = 7\n",
    "no table": "retention = 5\n",
    "the time of a scan": '[scan]\ndeadline = "90s"\n',
    "no time of a scan": '[scan]\ndeadline = "90"\n',
}


def read_whole(path, environment):
    return list_retention_settings(read_config(path, environment))


@pytest.mark.parametrize("text", (SAMPLES | LIMITS | PLANS).values(), ids=SAMPLES | LIMITS | PLANS)
@pytest.mark.parametrize(
    "environment",
    [{}, {"CKPTD_RETENTION__MODE": "off"}, {"CKPTD_RETENTION__HOLD": "3"}, {"CKPTD_SCAN__DEADLINE": "10s"}],
    ids=str,
)
def test_the_settings_and_the_errors_are_those_of_the_whole_configuration(text, environment, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert result_of(read_retention_settings, path, environment) == result_of(read_whole, path, environment)


def test_an_error_elsewhere_keeps_nobody_from_a_plan(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[mail]\nmode = "pigeon"\n[retention]\nmin_age = "2d"\n')
    assert read_retention_settings(path, {}).retention.min_age.days == 2
    with pytest.raises(ConfigError, match=r"mail\.mode"):
        read_config(path, {})


def test_only_the_models_of_retention_are_built(tmp_path):
    read = "from ckptd.config.retention_settings import read_retention_settings as read; read(Path(sys.argv[1]), {})"
    names = "sorted(name for name in sys.modules if name.startswith('ckptd.config.'))"
    report = f"import sys; from pathlib import Path; {read}; print(*{names})"
    path = tmp_path / "config.toml"
    path.write_text(PLANS["a policy"])
    done = subprocess.run(
        [sys.executable, "-c", report, path], check=True, capture_output=True, text=True, timeout=allow(60)
    )
    assert {name.rpartition(".")[2] for name in done.stdout.split()} == {
        "base", "former_names", "listing_settings", "raw_tables", "retention", "retention_settings", "trash_settings",
    }  # fmt: skip
