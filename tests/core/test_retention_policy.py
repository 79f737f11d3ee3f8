"""Which policies are refused, what users may wish for, and what stops a plan from being carried out at once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import retention
from ckptd.core.model import FileIdentity, Level, Role
from ckptd.core.retention import KeepBest, KeepCalendar, KeepEvery, KeepEverything, KeepLast, KeepPinned, KeepWithin
from core.retention_facts import NOW, hours, policy_of, run_of, saved, series

GOOD = (KeepLast(3), KeepBest(1), KeepEvery(10, "epochs"), KeepWithin(timedelta(days=2)), KeepCalendar("daily", 7))


def test_a_sensible_policy_has_no_problems():
    assert retention.check_policy(policy_of(*GOOD, max_total_size_bytes=10**12)) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rules": ()}, "no rule that keeps anything"),
        ({"rules": (KeepPinned(),)}, "no rule that keeps anything"),
        ({"rules": (KeepLast(0),)}, "last: the number to keep must be at least 1, not 0"),
        ({"rules": (KeepLast(1), KeepLast(2))}, "'last' is given 2 times"),
        ({"rules": (KeepBest(1, "loss", "min"), KeepBest(2, "loss", "max"))}, "'best by loss' is given 2 times"),
        ({"rules": (KeepBest(1, "loss"),)}, "best by loss: say whether the smallest"),
        ({"rules": (KeepBest(1, None, "min"),)}, "best: mode 'min' needs a metric"),
        ({"rules": (KeepEvery(5, "minutes"),)}, "the unit is 'epochs' or 'steps', not 'minutes'"),
        ({"rules": (KeepEvery(-1, "steps"),)}, "every steps: the number to keep must be at least 1"),
        ({"rules": (KeepWithin(timedelta(0)),)}, "within: the duration must be positive"),
        ({"rules": (KeepWithin(timedelta(minutes=5)),)}, "keeps nothing that min_age 1 h does not keep already"),
        ({"rules": (KeepCalendar("yearly", 1),)}, "the period is one of hourly, daily, weekly, monthly, not 'yearly'"),
        ({"min_age": timedelta(0)}, "min_age must be positive"),
        ({"max_total_size_bytes": 5}, "the policy has neither"),
        ({"rules": (KeepWithin(hours(9)),), "max_total_size_bytes": 0}, "max_total_size must be positive"),
        ({"rules": (KeepEverything(),), "max_total_size_bytes": 5}, "contradicts keep = 'everything'"),
        ({"verify": Level.LISTED}, "checks nothing"),
        ({"verify_age": timedelta(0)}, "verify_age must be positive"),
        ({"roles": frozenset({Role.DATA})}, "data is never pruned for its role"),
        ({"prune_files": ("*",)}, "matches every file"),
        ({"guards": retention.Guards(last_minutes=timedelta(-1))}, "last_minutes must not be negative"),
    ],
)
def test_an_empty_or_contradictory_policy_is_an_error_that_names_it(changes, problem):
    found = retention.check_policy(replace(policy_of(KeepLast(1)), **changes))
    assert any(problem in one and one.startswith("retention policy 'test': ") for one in found), found


@pytest.mark.parametrize(
    ("wish", "granted", "told"),
    [
        (KeepLast(101), KeepLast(100), "last: this site allows at most 100, not 101"),
        (KeepCalendar("daily", 999), KeepCalendar("daily", 100), "daily: this site allows at most 100, not 999"),
        (KeepWithin(timedelta(days=999)), KeepWithin(timedelta(days=365)), "within: this site allows at most"),
        (KeepEverything(), KeepLast(100), "everything: this site allows no more than last = 100"),
        (KeepEvery(1, "steps"), KeepEvery(10, "steps"), "at closest every 10, not 1"),
        (KeepEvery(0, "steps"), None, "at least 1"),
        (KeepLast(0), None, "at least 1"),
        (KeepLast(100), KeepLast(100), None),
    ],
)
def test_a_users_wish_is_granted_as_far_as_the_sites_bounds_go(wish, granted, told):
    policy, refused = retention.apply_user_rules(policy_of(KeepLast(2)), (wish,), retention.Bounds(min_every=10))
    assert policy.user_rules == (() if granted is None else (granted,))
    assert [told in one for one in refused] == ([] if told is None else [True])


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (KeepLast(3), {600, 700, 800}),
        (KeepBest(2, "loss", "min"), {100, 200, 800}),
        (KeepBest(1, "loss", "max"), {800}),
        (KeepEvery(300, "steps"), {100, 300, 600, 800}),
        (KeepWithin(hours(30)), {700, 800}),
        (KeepCalendar("daily", 3), {600, 700, 800}),
        (KeepCalendar("weekly", 2), {300, 800}),
        (KeepCalendar("monthly", 2), {800}),
        (KeepCalendar("hourly", 2), {700, 800}),
        (KeepPinned(), {200, 800}),
        (KeepEverything(), {100, 200, 300, 400, 500, 600, 700, 800}),
    ],
)
def test_each_rule_keeps_what_it_says_beside_the_newest(rule, kept):
    # the newest is of Friday the 20th at 08:00, each older one a day before it
    records = [
        saved(f"step_{n}00.pt", 4 + 24 * (8 - n), step=n * 100, metrics={"loss": n % 8 or 7.5}) for n in range(1, 9)
    ]
    records[1] = replace(
        records[1], is_pinned=isinstance(rule, KeepPinned | KeepEverything) or rule == KeepBest(2, "loss", "min")
    )
    made = retention.plan_run(run_of(*records), policy_of(rule), NOW)
    assert {decision.record.checkpoint.step for decision in made.keep} == kept


def test_the_plans_id_tells_when_anything_changed_and_not_that_time_passed():
    run = run_of(*series(5))
    plan_id = retention.plan([(run, policy_of())], NOW).plan_id
    assert retention.plan([(run, policy_of())], NOW + timedelta(minutes=20)).plan_id == plan_id
    changed = replace(
        run.checkpoints[0], checkpoint=replace(run.checkpoints[0].checkpoint, identities=(FileIdentity(7, 1, 2, 3),))
    )
    for other, policy in (
        (run_of(changed, *run.checkpoints[1:]), policy_of()),
        (run_of(*run.checkpoints[1:]), policy_of()),
        (run, policy_of(KeepLast(2))),
        (run, policy_of(mode=retention.PolicyMode.ENFORCE)),
    ):
        assert retention.plan([(other, policy)], NOW).plan_id != plan_id


def plan_of(count, mode=retention.PolicyMode.ENFORCE):
    return retention.plan([(run_of(*series(count)), policy_of(mode=mode))], NOW)


@pytest.mark.parametrize(
    ("caps", "count", "reason"),
    [
        ({"cycle_count": 4}, 4, "removals in one cycle"),
        ({"user_count": 3}, 3, "per user"),
        ({"filesystem_count": 2}, 2, "per file system"),
        ({"filesystem_share": 0.5}, 5, "50% of a file system"),
        ({"filesystem_share": 0.0}, 1, "0% of a file system"),
    ],
)
def test_caps_let_the_oldest_go_first_and_the_others_wait(caps, count, reason):
    wide = {"cycle_count": 99, "user_count": 99, "filesystem_count": 99, "filesystem_share": 1.0}
    limited = retention.limit(plan_of(10), retention.Caps(**{**wide, **caps}), [], NOW).runs[0]
    assert [decision.record.checkpoint.step for decision in limited.remove] == [100 * (n + 1) for n in range(count)]
    waiting = [decision for decision in limited.keep if "deferred" in decision.reasons[0]]
    assert len(waiting) == 9 - count
    assert all(reason in decision.reasons[0] for decision in waiting)


def test_the_error_brake_stops_everything_until_its_window_is_over():
    failed = [retention.RemovalAttempt(NOW - hours(age), is_error=True) for age in (1, 2, 3)]
    braked = retention.limit(plan_of(10), retention.Caps(), failed, NOW)
    assert braked.remove_count == 0
    assert "circuit breaker" in braked.runs[0].keep[-1].reasons[0]
    assert retention.limit(plan_of(10), retention.Caps(), failed, NOW + hours(6)).remove_count > 0
    assert retention.limit(plan_of(10), retention.Caps(), failed[:2], NOW).remove_count > 0


def test_a_checkpoint_counts_once_however_many_files_it_has_and_the_files_of_a_user_have_a_cap():
    many = [
        saved(
            f"step_{n}.pt",
            20 - n,
            step=n,
            files=tuple(f"step_{n}.pt/{rank}" for rank in range(40)),
            identities=tuple(FileIdentity(1, 100 * n + rank, 1, n, n) for rank in range(40)),
        )
        for n in range(1, 8)
    ]
    made = retention.plan([(run_of(*many), policy_of(mode=retention.PolicyMode.ENFORCE))], NOW)
    wide = retention.Caps(filesystem_share=1.0)
    assert retention.limit(made, replace(wide, user_count=5), [], NOW).remove_count == 5
    limited = retention.limit(made, replace(wide, user_files=90), [], NOW)
    assert limited.remove_count == 2
    assert any("the cap of 90 files per user" in one.reasons[0] for one in limited.runs[0].keep)
    assert retention.limit(made, replace(wide, user_files=1), [], NOW).remove_count == 1


def test_a_plan_that_is_only_shown_uses_up_no_cap():
    assert (
        retention.limit(plan_of(10, retention.PolicyMode.PLAN), retention.Caps(user_count=1), [], NOW).remove_count == 9
    )
