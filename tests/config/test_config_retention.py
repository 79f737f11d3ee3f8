"""What a site may write about retention, and what it is told where it makes no sense."""

from datetime import timedelta

import pytest

from ckptd import config
from ckptd.core import retention
from ckptd.core.model import Level, Role


def read(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.read_config(path, {})


def policy(lines, name="p"):
    return f'[[retention.policy]]\nname = "{name}"\n{lines}\n'


def test_without_a_policy_nothing_is_retained_or_removed(tmp_path):
    assert config.build_policies(read(tmp_path, "").retention) == ()


def test_every_rule_can_be_written(tmp_path):
    text = policy(
        'last = 3\nbest = [{ count = 2, metric = "val_loss", mode = "min" }, 1]\nevery = { epochs = 10, steps = 500 }\n'
        'within = "2d"\nhourly = 24\ndaily = 7\nweekly = 4\nmonthly = 12\npinned = true\nmax_total_size = "1.5TiB"\n'
        'mode = "enforce"\nverify = "full"\nmin_age = "2h"\npartition = "gpu*"\nformat = "lightning"\n'
        'roles = ["state", "weights"]\nformats = ["torch*"]\nprune_files = ["samples/**/*.npz"]\nverify_age = "6h"'
    )
    (match,) = config.build_policies(read(tmp_path, text).retention)
    assert (match.partition, match.format, match.user) == ("gpu*", "lightning", "*")
    found = match.policy
    assert set(found.rules) == {
        retention.KeepLast(3),
        retention.KeepBest(2, "val_loss", "min"),
        retention.KeepBest(1),
        retention.KeepEvery(10, "epochs"),
        retention.KeepEvery(500, "steps"),
        retention.KeepWithin(timedelta(days=2)),
        retention.KeepCalendar("hourly", 24),
        retention.KeepCalendar("daily", 7),
        retention.KeepCalendar("weekly", 4),
        retention.KeepCalendar("monthly", 12),
        retention.KeepPinned(),
    }
    assert found.max_total_size_bytes == int(1.5 * 2**40)
    assert (found.mode, found.verify, found.min_age) == (retention.PolicyMode.ENFORCE, Level.FULL, timedelta(hours=2))
    assert found.roles == {Role.STATE, Role.WEIGHTS}
    assert (found.formats, found.prune_files) == (("torch*",), ("samples/**/*.npz",))
    assert found.verify_age == timedelta(hours=6)


def test_without_a_word_of_it_a_policy_prunes_states_of_all_formats_alone(tmp_path):
    (match,) = config.build_policies(read(tmp_path, policy("last = 1")).retention)
    assert match.policy.roles == {Role.STATE}
    assert (match.policy.formats, match.policy.prune_files) == ((), ())
    assert match.policy.verify_age == timedelta(days=1)


def test_a_policy_takes_what_it_does_not_say_from_the_section(tmp_path):
    text = (
        '[retention]\nmin_age = "3h"\nverify = "full"\nverify_age = "2d"\n[retention.guards]\nrestart_grace = "1s"\n'
        + policy("last = 1")
    )
    (match,) = config.build_policies(read(tmp_path, text).retention)
    assert (match.policy.mode, match.policy.min_age) == (retention.PolicyMode.PLAN, timedelta(hours=3))
    assert (match.policy.verify, match.policy.verify_age) == (Level.FULL, timedelta(days=2))
    assert match.policy.guards.restart_grace == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", "no rule that keeps anything"),
        ("pinned = true", "no rule that keeps anything"),
        ("pinned = false\nlast = 1", "write pinned = true or nothing"),
        ("last = 0", "must be at least 1, not 0"),
        ("last = true", "must be at least 1, not True"),
        ('last = "3"', "must be at least 1, not '3'"),
        ("best = { count = 1, metrik = 'x' }", "'metrik' is unknown"),
        ("best = { metric = 'loss' }", "smallest ('min') or the largest ('max')"),
        ("best = { count = 1, mode = 'min' }", "needs a metric"),
        ("best = [1, 2]", "'best' is given 2 times"),
        ("every = 10", "write { epochs = 10 }"),
        ("every = {}", "write { epochs = 10 }"),
        ("every = { minutes = 10 }", "write { epochs = 10 }"),
        ("within = 5", "write a duration"),
        ("within = '0s'", "write a duration"),
        ("within = '99999999999999999999w'", "write a duration"),
        ("within = '30m'", "keeps nothing that min_age"),
        ("last = 1\nprune_files = ['*']", "prune_files: '*' matches every file; name the files"),
        ("last = 1\nprune_files = ['../x_*']", "is not a path below the run's directory"),
        ("last = 1\nmax_total_size = '1GiB'", "removes only what `within` or the calendar keeps"),
    ],
)
def test_an_empty_or_contradictory_policy_is_an_error_that_names_it(tmp_path, lines, expected):
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, policy("last = 2", "good") + policy(lines, "bad"))
    assert "retention policy 'bad': " in str(caught.value)
    assert expected in str(caught.value)
    assert "'good'" not in str(caught.value)


KEYS = ("partition", "user", "job_name", "format")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[retention.policy]]\nlast = 1\n", "retention.policy.0.name: must be given"),
        (policy("lats = 1"), "retention.policy.0.lats: unknown setting; did you mean 'last'?"),
        (
            policy("last = 1\nmode = 'enforced'"),
            "retention.policy.0.mode: 'enforced' is not 'off', 'plan' or 'enforce'",
        ),
        (policy("within = '2d'\nmax_total_size = 'big'"), "retention.policy.0.max_total_size:"),
        ("[retention]\nhold = '0s'\n", "retention.hold:"),
        (policy("last = 1\nroles = ['data']"), "retention.policy.0.roles.0: 'data' is not 'state' or 'weights'"),
        (
            policy("last = 1\nroles = 'state'"),
            "retention.policy.0.roles: 'state' is not a list; use for example [\"state\"]",
        ),
        (policy("last = 1\nformats = ['']"), "retention.policy.0.formats.0: an empty pattern matches nothing"),
        ("[retention]\nverify_age = '0s'\n", "retention.verify_age:"),
        ("[retention]\nholds = '1d'\n", "retention.holds: unknown setting; did you mean 'hold'?"),
        ("[retention]\nmin_age = '0s'\n", "retention.min_age:"),
        ("[retention]\nverify = 'listed'\n", "retention.verify:"),
        ("[retention.caps]\nerror_count = 0\n", "retention.caps.error_count:"),
        ("[retention.caps]\ncycle = 1\n", "retention.caps.cycle: unknown setting"),
        ("[retention.guards]\nstale_after = '-1h'\n", "retention.guards.stale_after:"),
        (policy("last = 1") + policy("last = 2"), "retention policy 'p': 2 policies have this name"),
        (policy("last = 1", ""), "retention.policy.0.name: must not be empty"),
        *(
            (policy(f"last = 1\n{key} = ''"), f"retention.policy.0.{key}: an empty pattern matches nothing")
            for key in KEYS
        ),
        ("[retention]\nhold = '1d'\nno_room_hold = '2d'\n", "retention: no_room_hold: 2 d is longer than"),
    ],
)
def test_other_mistakes_are_told_with_their_key(tmp_path, text, expected):
    with pytest.raises(config.ConfigError) as caught:
        read(tmp_path, text)
    assert expected in str(caught.value)


def two(first, second):
    return policy(f"last = 1\n{first}", "first") + policy(f"last = 2\n{second}", "second")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", ""),
        ("", 'user = "alice"'),
        ('partition = "gpu*"', 'partition = "gpu*"\nformat = "torch"'),
        ('partition = "gpu*"', 'partition = "gpu-long*"'),
        ('partition = "[gc]pu"', 'partition = "cpu"'),
        ('format = "torch*"', 'format = "torch-dcp"'),
    ],
)
def test_a_policy_that_no_run_could_have_is_an_error_that_names_both(tmp_path, first, second):
    with pytest.raises(config.ConfigError, match="policy 'second' never applies, because the earlier policy 'first'"):
        read(tmp_path, two(first, second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('user = "alice"', ""),
        ('partition = "gpu-long*"', 'partition = "gpu*"'),
        ('partition = "gpu"', 'partition = "gpu*"'),
        ('partition = "*gpu"', 'partition = "gpu*"'),
        ('partition = "g?u*"', 'partition = "g?us"'),
        ('partition = "gpu"\nuser = "a*"', 'partition = "gpu"\naccount = "b"'),
        ('account = ""', 'account = "b"'),
    ],
)
def test_a_policy_that_some_run_may_have_is_none(tmp_path, first, second):
    assert len(config.build_policies(read(tmp_path, two(first, second)).retention)) == 2


def test_a_format_that_is_none_is_told_with_the_nearest_one(tmp_path):
    section = read(tmp_path, two('format = "torhc"', 'format = "torch*"')).retention
    (told,) = config.list_unknown_formats(section, ["torch", "torch-dcp", "generic"])
    assert told == "retention.policy.0.format: 'torhc' matches no known format; did you mean 'torch'?"
    section = read(tmp_path, policy('last = 1\nformats = ["torch*", "torhc"]')).retention
    (told,) = config.list_unknown_formats(section, ["torch", "torch-dcp", "generic"])
    assert told == "retention.policy.0.formats: 'torhc' matches no known format; did you mean 'torch'?"
