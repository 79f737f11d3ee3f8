"""What every plan must keep to, whatever the run, the policy and the order of the facts."""

from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from ckptd.core import retention
from ckptd.core.model import CheckpointState, Grouping, Role
from core.retention_facts import DIRECTORY, NOW, attempt, grouping_of, policy_of, run_of, saved, without

COMPLETE = CheckpointState.COMPLETE
STATES = frozenset({Role.STATE})

counts = st.integers(1, 6)
keep_rules = st.one_of(
    st.builds(retention.KeepLast, counts),
    st.builds(retention.KeepBest, counts),
    st.builds(retention.KeepBest, counts, st.just("loss"), st.sampled_from(["min", "max"])),
    st.builds(retention.KeepEvery, st.integers(1, 400), st.sampled_from(["steps", "epochs"])),
    st.builds(retention.KeepWithin, st.timedeltas(timedelta(0), timedelta(days=9))),
    st.builds(retention.KeepCalendar, st.sampled_from(list(retention.CALENDAR_PERIODS)), counts),
    st.just(retention.KeepPinned()),
)
rule_sets = st.lists(keep_rules, min_size=1, max_size=3, unique_by=lambda rule: rule.key).map(tuple)


numbers = st.integers(0, 500)
ages = st.floats(-2.0, 300.0)  # hours
seeds = st.integers(0, 2**32)


@st.composite
def checkpoints(draw):
    """Draw the number, the age and a seed of everything else: to draw each fact costs more than the plan."""
    number, age, chance = draw(numbers), draw(ages), Random(draw(seeds))

    def mostly(usual, *others, of=10):
        return usual if chance.random() * of >= len(others) else chance.choice(others)

    stem = mostly("step_", "model_", "optim_", "fold1_epoch", "last", of=13)
    name = f"{stem}{'' if stem == 'last' else number}.pt"
    state = mostly(COMPLETE, CheckpointState.DAMAGED, CheckpointState.WRITING, of=11)
    age = max(age, 1.0) if state is CheckpointState.WRITING else age
    return saved(
        name,
        age,
        step=mostly(number, None),
        epoch=mostly(number / 10, None, float("nan"), of=11),
        by=mostly(chance.choice([(1, 0), (1, 1), (2, 0)]), None, of=15),
        size=chance.randint(1, 100),
        state=state,
        is_best=mostly(None, True, of=15),
        is_newest=mostly(None, True, of=20),
        metrics=mostly({"loss": number / 7}, {}, {"loss": float("inf")}, of=11),
        first_seen_at=NOW - timedelta(hours=max(age, 0)),
        is_pinned=mostly(False, True, of=15),
        verified_full_at=mostly(None, NOW, of=3),
        pruned_at=mostly(None, NOW, of=4),
        role=mostly(Role.STATE, Role.WEIGHTS, Role.DATA, of=11),
        is_result=mostly(False, True, of=15),
        grouping=mostly(grouping_of(name), Grouping(doubt="two numbers rise together"), of=15),
    )


runs = st.lists(checkpoints(), min_size=6, max_size=25, unique_by=lambda one: one.checkpoint.path.name).map(
    lambda records: run_of(
        *records,
        attempts=[
            attempt(0, begun=400, ended=200),
            attempt(1, begun=190, ended=100),
            attempt(0, job=2, begun=90, resumed_from=f"{DIRECTORY}/{records[0].checkpoint.path.name}"),
        ],
    )
)
sizes = st.one_of(st.none(), st.integers(1, 1500))
allowed_roles = st.sampled_from([STATES, STATES, STATES | {Role.WEIGHTS}, frozenset()])
consents = st.sampled_from([(), (), ("step_1*",), ("model_*", "optim_*")])


def present_sets(run):
    return [one for one in run.checkpoints if one.pruned_at is None and one.deleted_at is None]


def is_allowed(one, policy):
    found = one.checkpoint
    return found.role in policy.roles and not found.is_result


def present(run):
    return {str(one.checkpoint.path): one for one in run.checkpoints if one.pruned_at is None}


def removed(run, policy):
    return {decision.path for decision in retention.plan_run(run, policy, NOW).remove}


@given(runs, rule_sets, sizes)
def test_keep_and_remove_are_disjoint_and_together_all_that_is_there(run, rules, size):
    made = retention.plan_run(run, policy_of(*rules, max_total_size_bytes=size), NOW)
    paths = [decision.path for decision in made.decisions]
    assert sorted(paths) == sorted(present(run))
    assert {decision.path for decision in made.keep}.isdisjoint(decision.path for decision in made.remove)
    assert all(decision.reasons for decision in made.decisions)


@given(runs, rule_sets, sizes, st.randoms(use_true_random=False))
def test_the_order_of_the_facts_is_irrelevant(run, rules, size, random):
    policy = policy_of(*rules, max_total_size_bytes=size)
    records, listed, attempts = list(run.checkpoints), list(run.scan.checkpoints), list(run.attempts)
    for facts in (records, listed, attempts):
        random.shuffle(facts)
    scan = replace(run.scan, checkpoints=tuple(listed))
    shuffled = replace(run, checkpoints=tuple(records), scan=scan, attempts=tuple(attempts))
    one, other = (retention.plan([(each, policy)], NOW) for each in (run, shuffled))
    assert one.plan_id == other.plan_id
    assert [decision.reasons for decision in one.runs[0].decisions] == [
        decision.reasons for decision in other.runs[0].decisions
    ]


@given(runs, rule_sets, sizes)
def test_the_floor_stays(run, rules, size):
    gone = removed(run, policy_of(*rules, max_total_size_bytes=size))
    event("removes something" if gone else "removes nothing")
    whole = [
        one
        for one in present(run).values()
        if one.checkpoint.state is COMPLETE
        and one.attempt
        and one.checkpoint.role is Role.STATE
        and not one.checkpoint.is_result
        and not one.checkpoint.grouping.doubt
    ]
    written = [one for one in whole if one.checkpoint.modified_at <= NOW + retention.Guards().clock_tolerance]
    newest = max((one.checkpoint.modified_at for one in written), default=None)
    left = [one for one in written if str(one.checkpoint.path) not in gone]
    verified = [one.checkpoint.modified_at for one in written if one.verified_full_at]
    assert not written or any(one.checkpoint.modified_at == newest for one in left)
    assert not verified or any(one.verified_full_at for one in left)
    assert run.attempts[-1].resumed_from.path not in gone
    for path in gone:
        record = present(run)[path]
        assert record.attempt is not None
        assert not record.is_pinned
        assert not record.checkpoint.is_newest
        assert record.checkpoint.state in {COMPLETE, CheckpointState.DAMAGED}
        assert NOW - record.checkpoint.modified_at >= timedelta(hours=1)
        assert record.checkpoint.modified_at <= newest
        assert record.checkpoint.path.name != "last.pt"


@given(runs, rule_sets, sizes, allowed_roles, consents)
def test_what_is_not_allowed_or_not_known_is_never_removed_and_the_newest_of_every_series_stays(
    run, rules, size, roles, consent
):
    policy = policy_of(*rules, max_total_size_bytes=size, roles=roles, prune_files=consent)
    gone = removed(run, policy)
    for path in gone:
        record = present(run)[path]
        is_named = any(fnmatchcase(record.checkpoint.path.name, pattern) for pattern in consent)
        assert is_allowed(record, policy) or is_named
        assert record.attempt is not None
        assert record.checkpoint.grouping.doubt is None
        assert record.checkpoint.grouping.progress
        assert record.checkpoint.state in {COMPLETE, CheckpointState.DAMAGED}
    complete = {one.checkpoint.grouping.series for one in present_sets(run) if one.checkpoint.state is COMPLETE}
    left = {
        one.checkpoint.grouping.series
        for path, one in present(run).items()
        if path not in gone and one.checkpoint.state is COMPLETE
    }
    assert complete == left


@given(runs, rule_sets, allowed_roles)
def test_allowing_less_never_adds_a_removal(run, rules, roles):
    wide = policy_of(*rules, roles=frozenset({Role.STATE, Role.WEIGHTS}))
    assert removed(run, replace(wide, roles=roles)) <= removed(run, wide)


@given(runs, rule_sets, keep_rules)
def test_adding_a_keep_rule_never_adds_a_removal(run, rules, rule):
    assert removed(run, policy_of(*rules, rule)) <= removed(run, policy_of(*rules))


@given(runs, rule_sets, sizes, keep_rules)
def test_a_users_wish_never_adds_a_removal_not_even_under_a_size_limit(run, rules, size, wish):
    policy = policy_of(*rules, max_total_size_bytes=size)
    wished, refused = retention.apply_user_rules(policy, (wish,), retention.Bounds(is_everything_allowed=True))
    assert removed(run, wished) <= removed(run, policy)
    assert wished == policy if refused else wished.rules == policy.rules


@given(runs, rule_sets, sizes)
def test_planning_the_survivors_again_removes_nothing(run, rules, size):
    policy = policy_of(*rules, max_total_size_bytes=size)
    gone = removed(run, policy)
    assert removed(without(run, gone), policy) == set()


@given(runs, rule_sets, st.integers(1, 5), st.floats(0, 1))
def test_limits_only_ever_keep_more_and_reach_the_plan_in_the_end(run, rules, count, share):
    policy = policy_of(*rules, mode=retention.PolicyMode.ENFORCE)
    whole = retention.plan([(run, policy)], NOW)
    caps = retention.Caps(user_count=count, filesystem_share=share)
    limited = retention.limit(whole, caps, [], NOW)
    gone = {decision.path for decision in limited.runs[0].remove}
    assert gone <= removed(run, policy)
    assert len(gone) <= count
    assert limited.plan_id == whole.plan_id
    assert len(limited.runs[0].decisions) == len(whole.runs[0].decisions)
