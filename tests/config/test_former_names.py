import logging

import pytest

from ckptd import config
from ckptd.config.former_names import FORMER_NAMES

WRITTEN = """
[slurm]
catch_up = false
catch_up_after = "7m"
catch_up_most = "3d"
[scan]
settle_time = "3m"
[mail]
tell_recovery = false
[apprise]
tells = ["user"]
[health.rules.interrupted-save]
settle_time = "9m"
[health.rules.not-resubmitted]
stays = "2d"
"""


def read(tmp_path, text, **environment):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.read_config(path, environment)


def test_a_file_with_former_names_means_the_same_and_a_warning_tells_each_new_name(tmp_path, caplog):
    now = (
        WRITTEN.replace("catch_up_most", "backfill_max_age")
        .replace("catch_up", "backfill")
        .replace("settle_time", "write_grace", 1)
        .replace("settle_time", "min_age")
        .replace("tell_recovery", "notify_resolved")
        .replace("tells", "audience")
        .replace("stays", "open_for")
    )
    wanted = read(tmp_path, now)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        found = read(tmp_path, WRITTEN)
    assert found == wanted
    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [
        f"{path} is now called {name}; the former name still works" for path, name in FORMER_NAMES.items()
    ]


def test_a_former_name_works_from_the_environment(tmp_path):
    assert not read(tmp_path, "", CKPTD_SLURM__CATCH_UP="false").slurm.backfill


def test_a_setting_under_both_names_is_refused(tmp_path):
    with pytest.raises(config.ConfigError, match=r"slurm\.catch_up: unknown setting"):
        read(tmp_path, "[slurm]\ncatch_up = false\nbackfill = true\n")
