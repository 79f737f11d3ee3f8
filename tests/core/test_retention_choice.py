"""Whose policy a run has, and how far its owner's own file is heard."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import retention
from ckptd.core.retention import (
    Bounds,
    KeepBest,
    KeepCalendar,
    KeepEvery,
    KeepEverything,
    KeepLast,
    KeepWithin,
    Policy,
    PolicyMatch,
)
from ckptd.core.retention.parse_rules import parse_all_retention_settings
from core.retention_facts import NOW, policy_of, removed, run_of, running_job, saved, series

FIRST = Policy(name="first", rules=(KeepLast(1),))
SECOND = Policy(name="second", rules=(KeepLast(2),))


def run(*formats):
    return run_of(*(saved(f"step_{n}.pt", n + 1, step=n, format=name) for n, name in enumerate(formats)))


ALL = Bounds(is_everything_allowed=True)


def chosen(matches, job, found=None, user_settings=None, bounds=None):
    files = {"/w": user_settings} if user_settings else {}
    return retention.choose_policy(matches, bounds or Bounds(), found or run("torch"), job, files)


@pytest.mark.parametrize("key", ["partition", "account", "user", "qos", "name"])
def test_the_first_policy_that_matches_the_latest_job_is_the_one(key):
    field = {"name": "job_name"}.get(key, key)
    matches = [PolicyMatch(policy=FIRST, **{field: "gpu*"}), PolicyMatch(policy=SECOND)]
    assert chosen(matches, replace(running_job(), **{key: "gpu-long"})).policy == FIRST
    assert chosen(matches, replace(running_job(), **{key: "cpu"})).policy == SECOND


def test_a_policy_for_one_format_is_not_for_a_run_that_has_another_one_too():
    matches = [PolicyMatch(policy=FIRST, format="torch*")]
    assert chosen(matches, running_job(), run("torch", "torch-dcp")).policy == FIRST
    assert chosen(matches, running_job(), run("torch", "hdf5")).policy is None


def test_a_run_whose_job_is_not_known_has_no_policy():
    assert chosen([PolicyMatch(policy=FIRST)], None).policy is None


def test_wishes_within_the_bounds_are_beside_the_sites_rules():
    user_settings = {
        "keep": {"last": 5, "every": {"epochs": 2}, "within": "3d", "best": {"metric": "loss", "mode": "min"}}
    }
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings=user_settings)
    assert found.policy.rules == FIRST.rules
    assert set(found.policy.user_rules) == {
        KeepLast(5),
        KeepEvery(2, "epochs"),
        KeepWithin(timedelta(days=3)),
        KeepBest(1, "loss", "min"),
    }
    assert found.refused == ()


def test_wishes_beyond_the_bounds_go_as_far_as_they_do_and_that_is_told():
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings={"keep": {"last": 5000, "hourly": 3}})
    assert found.policy.user_rules == (KeepLast(100), KeepCalendar("hourly", 3))
    assert found.refused == ("last: this site allows at most 100, not 5000",)


def test_everything_is_kept_only_where_the_site_allows_it():
    user_settings = {"keep": "everything"}
    refused = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings=user_settings)
    assert refused.policy.user_rules == (KeepLast(100),)
    assert "no more than last = 100" in refused.refused[0]
    allowed = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings=user_settings, bounds=ALL)
    assert allowed.policy.user_rules == (KeepEverything(),)


@pytest.mark.parametrize(
    "user_settings",
    [
        {"keep": "all"},
        {"keep": 7},
        {"keep": []},
        {"keep": {"lats": 5}},
        {"keep": {"last": -1}},
        {"keep": {"last": 10**30}},
        {"keep": {"within": {"a": 1}}},
        {"keep": {"best": [[[]]]}},
        {"keep": {"best": {"metric": 5}}},
        {"keep": {"every": {"epochs": "x"}}},
        {"keep": {"pinned": "no"}},
        {"problem": "Invalid statement (at line 1)"},
        {"last": 10},
        {"Keep": {"last": 10}},
        {"retention": {"last": 10}},
    ],
)
def test_a_wish_that_is_not_understood_keeps_everything_where_that_is_allowed(user_settings):
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings=user_settings, bounds=ALL)
    assert KeepEverything() in found.policy.user_rules
    assert found.refused


def test_what_a_file_said_before_it_could_not_be_read_is_still_wished():
    document = {"keep": {"within": "3d"}, "problem": "Invalid statement (at line 1)"}
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings=document)
    assert set(found.policy.user_rules) == {KeepWithin(timedelta(days=3)), KeepEverything()}


def test_a_file_that_wishes_nothing_to_be_kept_changes_nothing():
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings={"directory": "x", "mail": "end"})
    assert found == retention.PolicyChoice(policy=FIRST)


# files in several directories


def joined(*said):
    known = {}
    for where, document in said:
        known = retention.join_retention_settings(known, where, document)
    return known


def granted(files, bounds=ALL):
    return retention.choose_policy([PolicyMatch(policy=FIRST)], bounds, run("torch"), running_job(), files)


def test_files_in_several_directories_keep_what_any_of_them_wishes():
    files = joined(("/a", {"keep": {"last": 5}}), ("/b", {"keep": {"last": 3, "daily": 2}}), ("/c", {}))
    assert set(granted(files).policy.user_rules) == {KeepLast(5), KeepLast(3), KeepCalendar("daily", 2)}


def test_a_file_replaces_only_what_it_said_itself():
    files = joined(("/a", {"keep": {"last": 5}}), ("/b", {"keep": "everything"}), ("/a", {"keep": {"last": 2}}))
    assert files == {"/a": {"keep": {"last": 2}}, "/b": {"keep": "everything"}}
    assert joined(*files.items(), ("/b", {"directory": "x"})) == {"/a": {"keep": {"last": 2}}}


def test_what_one_of_several_files_says_wrong_is_told_with_its_directory():
    files = joined(("/a", {"keep": {"last": 5}}), ("/b", {"keep": {"lats": 5}}), ("/b", {"problem": "not TOML"}))
    assert granted(files).refused == (
        f"/b: keep: 'lats' is no rule; there are {', '.join(retention.RULE_KEYS)}",
        "/b: it cannot be read: not TOML",
    )
    assert KeepEverything() in granted(files).policy.user_rules


def test_of_more_files_than_anybody_has_the_further_ones_count_as_a_wish_for_everything():
    files = joined(*((f"/{number}", {"keep": {"last": number}}) for number in range(1, 100)))
    assert len(files) == 21
    assert KeepEverything() in granted(files).policy.user_rules
    assert granted(joined(*files.items(), ("/3", {"keep": {"last": 50}}))).policy.user_rules.count(KeepLast(50)) == 1


def test_what_an_older_record_says_of_wishes_counts_until_a_file_says_it_anew():
    for older in ({"keep": "everything"}, {"problem": "x"}):
        assert granted(retention.sort_retention_settings(older)).policy.user_rules == (KeepEverything(),)
        assert joined(("/a", {"keep": {"last": 5}})) == retention.join_retention_settings(
            older, "/a", {"keep": {"last": 5}}
        )


# files that a user allows to be pruned


def test_a_user_names_files_that_may_go_beside_those_of_the_site():
    site = replace(FIRST, prune_files=("*.tmp",))
    found = chosen([PolicyMatch(policy=site)], running_job(), user_settings={"prune_files": ["samples/*.npz", "*.tmp"]})
    assert found.policy.prune_files == ("*.tmp", "samples/*.npz")
    assert found.policy.user_rules == ()
    assert found.refused == ()


@pytest.mark.parametrize("value", ["samples/*", ["*"], [7], {"a": 1}, ["/etc/x"]])
def test_a_pattern_that_is_not_understood_allows_nothing_and_that_is_told(value):
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings={"prune_files": value}, bounds=ALL)
    assert found.policy.prune_files == ()
    assert "prune_files: " in found.refused[0]


def test_a_file_that_cannot_be_read_any_more_allows_nothing():
    files = joined(("/a", {"prune_files": ["emb_*"]}), ("/a", {"problem": "not TOML"}))
    assert files["/a"]["prune_files"] == ["emb_*"]
    assert granted(files).policy.prune_files == ()


def test_a_file_takes_back_what_it_allowed_and_others_stay_as_they_are():
    files = joined(("/a", {"prune_files": ["emb_*"]}), ("/b", {"prune_files": ["out_*"]}), ("/a", {"directory": "x"}))
    assert granted(files).policy.prune_files == ("out_*",)


def test_files_that_only_locate_allow_nothing():
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), user_settings={"files": ["epoch_*.pt"]})
    assert found == retention.PolicyChoice(policy=FIRST)
    assert retention.join_retention_settings({}, "/a", {"files": ["epoch_*.pt"]}) == {}


def test_a_policy_for_one_format_counts_the_parts_of_each_checkpoint():
    mixed = saved("step_1", 2, step=1, format="torch")
    part = replace(mixed.checkpoint, format="hdf5")
    mixed = replace(mixed, checkpoint=replace(mixed.checkpoint, parts=(mixed.checkpoint, part)))
    assert chosen([PolicyMatch(policy=FIRST, format="torch*")], running_job(), run_of(mixed)).policy is None


def test_a_file_that_cannot_be_read_keeps_everything_whatever_the_bounds_and_the_reason_says_so():
    rules, _ = parse_all_retention_settings({"/a": {"keep": "everything"}, "/b": {"problem": "Permission denied"}})
    policy, refused = retention.apply_user_rules(policy_of(), rules, retention.Bounds(max_count=2))
    run = run_of(*series(6))
    assert removed(run, policy) == set()
    told = {why for each in retention.plan_run(run, policy, NOW).keep for why in each.reasons}
    assert "its owner's .ckptd.toml could not be read, so everything is kept" in told
    assert not any("as its owner wishes" in why for why in told)
    assert refused == ()
