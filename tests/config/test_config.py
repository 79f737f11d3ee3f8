from datetime import timedelta
from pathlib import Path

import pytest

from ckptd import config
from ckptd.core.health import RULES
from ckptd.core.model import FileClock, PurgeRule
from ckptd.service.build import build_purge_rules

ROOT = Path(__file__).parents[2]


def read(tmp_path, text, **environment):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.read_config(path, environment)


def test_with_an_empty_file_the_defaults_hold(tmp_path):
    assert read(tmp_path, "") == config.Config()


def test_durations_are_read_as_people_write_them(tmp_path):
    found = read(tmp_path, '[slurm]\npoll_interval = "1m30s"\ntimeout = "5s"\n')
    assert found.slurm.poll_interval == timedelta(seconds=90)
    assert found.slurm.timeout == timedelta(seconds=5)


def test_every_error_is_reported_at_once_with_its_key_and_the_nearest_name(tmp_path):
    text = (
        '[slurm]\npol_interval = 3\nsource = "x"\n[health.rules.at-risk]\nmargn = 3\n[health.rules.atrisk]\n'
        '[[watch]]\ndirectory = "/x/{usr}"\n[nonsense]\n'
    )
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    for expected in (
        "slurm.pol_interval: unknown setting; did you mean 'poll_interval'?",
        "slurm.source: 'x' is not 'auto', ",
        "at-risk.margn: unknown threshold; did you mean 'margin'?",
        "atrisk: unknown rule; did you mean 'at-risk'?",
        "watch.0.directory: {usr} is not a variable; did you mean 'user'?",
        "nonsense: unknown setting",
    ):
        assert expected in message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[health.rules]\nat-risk = false",
            "health.rules: at-risk: False is not a table; use for example at-risk = { enabled",
        ),
        (
            "[[health.override]]\n[health.override.rules]\nno-room = 3",
            "health.override.0.rules: no-room: 3 is not a table",
        ),
        ('[actions]\nhold = "main"', "actions.hold: 'main' is not a list; use for example [\"main\"]"),
        ('[actions]\nhold = ["main, debug"]', "actions.hold.0: 'main, debug' matches no partition"),
        ('[actions]\nsignal = [""]', "actions.signal.0: '' matches no partition"),
        (
            '[actions]\nmin_loss = "2 hours"',
            'actions.min_loss: \'2 hours\' is not a duration; use for example "90s", "1h30m" or "7d"',
        ),
        ('[actions]\nmin_loss = "0s"', "actions.min_loss: must be above 0"),
        ("[actions]\nmax_resubmits = -1", "actions.max_resubmits: must be at least 0"),
        (
            '[health.rules.at-risk]\nmargin = "x"',
            "health.rules: at-risk.margin: 'x' is not a duration; use for example \"90s\"",
        ),
        ("actions = 5", "actions: 5 is not a table"),
        (
            '[[purge]]\npath = "scratch"\ndays = 3',
            "purge.0.path: 'scratch' is not an absolute path; use for example \"/scratch\"",
        ),
        ('[[purge]]\npath = "/scratch"\ndays = 0', "purge.0.days: must be at least 1"),
        ('[[purge]]\npath = "/scratch"\ndays = 3\ndirectory = "/x"', "purge.0.directory: unknown setting"),
        ('[[purge]]\npath = "/x"\ndays = 3\nday = 4', "purge.0.day: unknown setting; did you mean 'days'?"),
        ('[[purge]]\npath = "/x"\ndays = 3\nby = "time"', "purge.0.by: 'time' is not 'atime', 'mtime' or 'ctime'"),
        (
            '[[shared]]\nclusters = ["a"]\ndirectories = ["/p"]',
            "shared.0.clusters: must have at least 2 entries",
        ),
        (
            '[[shared]]\nclusters = ["a", "a"]\ndirectories = ["/p"]',
            "shared.0.clusters: 'a' is listed twice",
        ),
        (
            '[[shared]]\nclusters = ["a", "b"]\ndirectories = ["p"]',
            "shared.0.directories: 'p' is not an absolute path",
        ),
        (
            '[[shared]]\nclusters = ["a", "b"]\ndirectories = ["/p/"]',
            "shared.0.directories: '/p/' must be a directory without",
        ),
        (
            '[[shared]]\nclusters = ["a", "b"]\ndirectories = ["/p/q", "/p"]',
            'shared: "/p/q" is shared already, by the entry "/p"',
        ),
        (
            "shared = [{clusters=['a', 'b'], directories=['/p']}, {clusters=['b', 'a'], directories=['/p/q']}]",
            'shared: "/p/q" is shared already, by the entry "/p"',
        ),
        (
            '[scan]\nworkspace_databases = ["db"]',
            'scan.workspace_databases: "db" is not an absolute path; use for example',
        ),
        (
            '[scan]\nallowed_roots = ["db", "/a", "/b/../c"]',
            'scan.allowed_roots: "db" is not an absolute path; use for example "/scratch", and "/b/../c" contains ".."',
        ),
        (
            "[slurm]\nbackfill_max_age = 7",
            'slurm.backfill_max_age: 7 is not a duration; use for example "90s", "1h30m" or "7d"',
        ),
        ("[actions]\nmax_per_hour = true", "actions.max_per_hour: true is not a number"),
        ("[actions]\nmax_per_hour = 'many'", "actions.max_per_hour: 'many' is not a whole number"),
        ("[scan]\ninotify = 'perhaps'", "scan.inotify: 'perhaps' is not true or false"),
        ("[scan]\nmax_depth = 33", "scan.max_depth: must be at most 32"),
        ("[scan]\ninterval = '40000d'", "scan.interval: must be at most 36500d"),
        ("[slurm]\ncluster = 5", "slurm.cluster: 5 is not text"),
        ('[slurm]\ncluster = "a\\u001b[31m"', "slurm.cluster: 'a\\x1b[31m' is not the name of a cluster"),
        ('[slurm]\ncluster = "all"', "slurm.cluster: 'all' is not the name of a cluster"),
        ('[web]\nlisten = "no such host:1"', "web.listen: 'no such host:1' is not of the form HOST:PORT"),
        ("[scan]\nallowed_roots = []", "scan.allowed_roots: must not be empty"),
        ("[slurm]\ntimeout = '1s'\ntimeout = '2s'\n", "timeout is given twice (at line 3, column"),
        ("[slurm]\ntimeout = '1s'\ntimeout = '2s'", "timeout is given twice (at end of document)"),
        ("[slurm]\n[scan]\n[slurm]", "[slurm] is given twice (at line 3, column"),
        ("[retention.caps]\nfilesystem_share = true", "retention.caps.filesystem_share: true is not a number"),
    ],
)
def test_a_wrong_value_is_refused_in_the_words_of_the_file(tmp_path, text, complaint):
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, text)
    assert f"config.toml: {complaint}" in str(caught.value)


@pytest.mark.parametrize("text", ['store = "a:secret@b"', '[[store]]\nurl = "a:secret@b"'])
def test_errors_show_no_value_that_may_hold_a_password(tmp_path, text):
    with pytest.raises(config.ConfigError, match=r"store: (must be a table|a list is not a table)") as caught:
        read(tmp_path, text)
    assert "secret" not in str(caught.value)


def test_a_syntax_error_names_file_and_line(tmp_path):
    with pytest.raises(config.ConfigError, match=r"config\.toml: .*line 2"):
        read(tmp_path, "[slurm]\nsource = \n")


def test_an_error_in_the_environment_names_the_variable(tmp_path):
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, "[scan]\ninterval = '6x'", CKPTD_SLURM__POLL_INTERVAL="5x", CKPTD_SLURM__NOPE="1")
    assert {line.partition(": ")[0].rpartition("/")[2] for line in str(caught.value).splitlines()} == {
        "config.toml",
        "CKPTD_SLURM__POLL_INTERVAL in the environment",
        "CKPTD_SLURM__NOPE in the environment",
    }


def test_files_of_other_encodings_are_read_or_refused_with_the_line(tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf[scan]\r\nmax_depth = 3\r\n")
    assert config.read_config(path, {}).scan.max_depth == 3
    path.write_bytes("[scan]\n# größer\nmax_depth = 3\n".encode("latin-1"))
    with pytest.raises(config.ConfigError, match=r"config\.toml: line 2 is not UTF-8; save"):
        config.read_config(path, {})


def test_the_environment_lies_over_the_file(tmp_path):
    found = read(
        tmp_path,
        '[slurm]\nsource = "squeue"\n',
        CKPTD_SLURM__POLL_INTERVAL="10s",
        CKPTD_SCAN__ALLOWED_ROOTS='["/scratch", "/home"]',
        CKPTD_SCAN__INOTIFY="false",
        UNRELATED="1",
    )
    assert found.slurm.poll_interval == timedelta(seconds=10)
    assert [str(root) for root in found.scan.allowed_roots] == ["/scratch", "/home"]
    assert found.scan.inotify is False
    assert found.slurm.source == "squeue"


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(config.ConfigError, match=r"absent\.toml: No such file"):
        config.read_config(tmp_path / "absent.toml", {})


def test_a_disabled_rule_is_left_out_and_thresholds_are_taken():
    rules = {
        rule.name: rule
        for rule in config.build_rules({"at-risk": {"margin": "2m"}, "not-resuming": {"enabled": False}})
    }
    assert "not-resuming" not in rules
    assert rules["at-risk"].margin == timedelta(minutes=2)


@pytest.mark.parametrize(
    ("rule", "key", "value", "complaint"),
    [
        ("restart-loop", "attempts", 0, "must be at least 1, not 0"),
        ("at-risk", "notice_saves", -4, "must be at least 0, not -4"),
        ("at-risk", "min_chance", 7, r"must be 0 to 1, not 7\.0"),
        ("at-risk", "margin", "-5m", "duration"),
        ("too-sparse", "factor", 0, r"must be above 0, not 0\.0"),
        ("no-room", "factor", float("inf"), "inf is not a finite number"),
        ("no-checkpoint-yet", "share_of_limit", 25, r"must be 0 to 1, not 25\.0"),
        ("at-risk", "enabled", "no", "'no' is not a boolean; use true or false"),
        ("at-risk", "margin", 5, '5 is not a duration; use for example "90s", "1h30m" or "7d"'),
        ("at-risk", "notice_saves", True, "true is not a number"),
    ],
)
def test_thresholds_out_of_bounds_are_refused(rule, key, value, complaint):
    with pytest.raises(ValueError, match=rf"{rule}\.{key}: .*{complaint}"):
        config.build_rules({rule: {key: value}})


def test_accounts_are_named_or_numbered(tmp_path):
    text = "[health.rules.foreign-owner]\nservice_uids = [{}]\n"
    given = read(tmp_path, text.format('"root", 4711, "4712"'))
    [rule] = [rule for rule in config.build_rules(given.health.rules) if rule.name == "foreign-owner"]
    assert rule.service_uids == (0, 4711, 4712)
    for wrong in ('"no-such-account"', '"a\\u0000b"', '""'):
        with pytest.raises(
            config.ConfigError, match=r"foreign-owner\.service_uids: there is no account '.*' on this host"
        ):
            read(tmp_path, text.format(wrong))
    with pytest.raises(config.ConfigError, match=r"foreign-owner\.service_uids: "):
        read(tmp_path, text.format("1.5"))


def test_the_shipped_example_is_what_the_program_prints_and_is_accepted(tmp_path):
    shipped = (ROOT / "deploy/config.toml").read_text()
    assert shipped == config.format_example()
    assert read(tmp_path, shipped) == config.Config()


@pytest.mark.parametrize("name", RULES)
def test_the_example_explains_every_threshold_of_a_rule(name):
    heading = f"# [health.rules.{name}]"
    (block,) = [each for each in config.format_example().split("\n\n") if heading in each.splitlines()]
    comment, _, settings = block.partition(heading)
    thresholds = [line.removeprefix("# ").split(" = ")[0] for line in settings.strip().splitlines()]
    assert [threshold for threshold in thresholds if f"`{threshold}`" not in comment] == []


def test_every_example_setting_is_accepted_when_it_is_switched_on(tmp_path):
    lines = []
    for line in config.format_example().splitlines():
        bare = line.removeprefix("# ")
        is_setting = " = " in bare and bare.split(" = ")[0].isidentifier() and "(unset)" not in bare
        is_header = bare.startswith("[") and bare.endswith("]")
        lines.append(bare if is_setting or is_header else "")
    assert read(tmp_path, "\n".join(lines)).scan == config.Config().scan


def test_an_override_lays_its_thresholds_over_those_of_the_site(tmp_path):
    text = (
        '[health.rules.at-risk]\nmin_loss = "9m"\nmargin = "2m"\n'
        '[[health.override]]\npartition = "debug*"\n'
        '[health.override.rules.at-risk]\nmin_loss = "30m"\n[health.override.rules.too-sparse]\nenabled = false\n'
    )
    [override] = config.build_overrides(read(tmp_path, text).health)
    rules = {rule.name: rule for rule in override.rules}
    assert (override.partition, override.account) == ("debug*", "*")
    assert (rules["at-risk"].min_loss, rules["at-risk"].margin) == (timedelta(minutes=30), timedelta(minutes=2))
    assert "too-sparse" not in rules


def test_errors_of_an_override_are_named(tmp_path):
    text = '[[health.override]]\npartitoin = "x"\n[health.override.rules.at-risk]\nmargn = 1\n'
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, text)
    assert "did you mean 'partition'?" in str(caught.value)
    assert "did you mean 'margin'?" in str(caught.value)


def test_a_rule_in_an_override_that_is_not_in_its_table_is_told_where_to_go(tmp_path):
    with pytest.raises(config.ConfigError, match=r"use the table \[health\.override\.rules\.at-risk\]"):
        read(tmp_path, "[[health.override]]\n[health.override.at-risk]\nenabled = false\n")


def test_the_name_of_a_rule_is_no_threshold(tmp_path):
    with pytest.raises(config.ConfigError, match=r"at-risk\.name: unknown threshold"):
        read(tmp_path, '[health.rules.at-risk]\nname = "x"\n')


def test_what_the_site_deletes_is_read_in_days(tmp_path):
    text = '[[purge]]\npath = "/scratch"\ndays = 60\n[[purge]]\npath = "/lustre/*"\ndays = 14\nby = "mtime"\n'
    assert build_purge_rules(read(tmp_path, text)) == (
        PurgeRule(path="/scratch", age=timedelta(days=60), by=FileClock.ATIME),
        PurgeRule(path="/lustre/*", age=timedelta(days=14), by=FileClock.MTIME),
    )
