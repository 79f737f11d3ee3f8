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
from core.retention_facts import run_of, running_job, saved

FIRST = Policy(name="first", rules=(KeepLast(1),))
SECOND = Policy(name="second", rules=(KeepLast(2),))


def run(*formats):
    return run_of(*(saved(f"step_{n}.pt", n + 1, step=n, format=name) for n, name in enumerate(formats)))


ALL = Bounds(is_everything_allowed=True)


def chosen(matches, job, found=None, wishes=None, bounds=None):
    return retention.choose_policy(matches, bounds or Bounds(), found or run("torch"), job, wishes or {})


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
    wishes = {"keep": {"last": 5, "every": {"epochs": 2}, "within": "3d", "best": {"metric": "loss", "mode": "min"}}}
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes=wishes)
    assert found.policy.rules == FIRST.rules
    assert set(found.policy.wishes) == {
        KeepLast(5),
        KeepEvery(2, "epochs"),
        KeepWithin(timedelta(days=3)),
        KeepBest(1, "loss", "min"),
    }
    assert found.refused == ()


def test_wishes_beyond_the_bounds_go_as_far_as_they_do_and_that_is_told():
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes={"keep": {"last": 5000, "hourly": 3}})
    assert found.policy.wishes == (KeepLast(100), KeepCalendar("hourly", 3))
    assert found.refused == ("last: this site allows at most 100, not 5000",)


def test_everything_is_kept_only_where_the_site_allows_it():
    wishes = {"keep": "everything"}
    refused = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes=wishes)
    assert refused.policy.wishes == (KeepLast(100),)
    assert "no more than last = 100" in refused.refused[0]
    allowed = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes=wishes, bounds=ALL)
    assert allowed.policy.wishes == (KeepEverything(),)


@pytest.mark.parametrize(
    "wishes",
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
def test_a_wish_that_is_not_understood_keeps_everything_where_that_is_allowed(wishes):
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes=wishes, bounds=ALL)
    assert KeepEverything() in found.policy.wishes
    assert found.refused


def test_what_a_file_said_before_it_could_not_be_read_is_still_wished():
    document = {"keep": {"within": "3d"}, "problem": "Invalid statement (at line 1)"}
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes=document)
    assert found.policy.wishes == (KeepWithin(timedelta(days=3)), KeepLast(100))


def test_a_file_that_wishes_nothing_to_be_kept_changes_nothing():
    found = chosen([PolicyMatch(policy=FIRST)], running_job(), wishes={"directory": "x", "mail": "end"})
    assert found == retention.Choice(policy=FIRST)
