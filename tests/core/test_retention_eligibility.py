"""What pruning may touch at all, and what is said of everything else."""

from dataclasses import replace

import pytest

from ckptd.core import retention
from ckptd.core.model import CheckpointState, FileIdentity, Grouping, Role
from ckptd.core.retention import KeepLast
from ckptd.core.retention.file_patterns import match, parse_patterns
from core.retention_facts import DIRECTORY, NOW, grouping_of, names, policy_of, removed, run_of, saved, series

ROLES = frozenset({Role.STATE, Role.WEIGHTS})


def reasons(*others, policy=None):
    """Plan these beside three states, and return why each of these stays."""
    made = retention.plan_run(run_of(*series(3, prefix="state_"), *others), policy or policy_of(), NOW)
    assert names(made.remove) == {"state_100.pt", "state_200.pt"}
    paths = {str(one.checkpoint.path) for one in others}
    return {reason for one in made.keep if one.path in paths for reason in one.reasons}


def numbered(pattern, **changes):
    return [saved(pattern.format(n), 20 - n, grouping=grouping_of(pattern.format(n)), **changes) for n in range(5)]


@pytest.mark.parametrize(
    "pattern",
    [
        "shard_{:04}.npz",
        "emb_{:05}.pt",
        "processed/data_{}.pt",
        "fields_step_{}.npz",
        "snapshot_{:03}.hdf5",
        "fold{}.pt",
        "expert_{}.pt",
        "samples/epoch_{}.pt",
    ],
)
def test_data_is_never_pruned_whatever_its_name_counts(pattern):
    told = reasons(*numbered(pattern, role=Role.DATA, role_evidence="an array without any state"))
    assert told == {"role data: an array without any state"}


def test_bare_weights_stay_unless_the_site_says_so():
    weights = numbered("model_epoch_{}.pt", role=Role.WEIGHTS, role_evidence="parameters only")
    assert reasons(*weights) == {"role weights: parameters only"}
    gone = removed(run_of(*weights), policy_of(roles=ROLES))
    assert gone == {f"model_epoch_{n}.pt" for n in range(4)}


def test_weights_without_a_progress_word_are_a_zoo_or_an_ensemble_and_stay():
    facts = {"role": Role.WEIGHTS, "role_evidence": "parameters only"}
    zoo = [
        saved(f"vit_b_{n}.pth", n, grouping=grouping_of(f"vit_b_{n}", has_progress_word=False), **facts)
        for n in (16, 32)
    ]
    download = saved("llama-7b.safetensors", 30, grouping=Grouping(), **facts)
    (told,) = reasons(*zoo, download, policy=policy_of(roles=ROLES))
    assert told == "role weights: parameters only, and no word such as `epoch` or `step` is beside a number in its name"


def test_a_grouping_that_is_not_known_is_never_pruned_not_even_by_name():
    doubt = "two numbers rise together"
    unknown = [saved(f"a_{n}_{n}.pt", 20 - n, grouping=Grouping(doubt=doubt)) for n in range(5)]
    assert reasons(*unknown) == {"grouping unknown: two numbers rise together"}
    assert reasons(*unknown, policy=policy_of(prune_files=("a_*.pt",))) == {
        "grouping unknown: two numbers rise together"
    }


def test_a_state_that_is_also_a_result_is_kept_like_data():
    times = numbered("{}", is_result=True, role_evidence="OpenFOAM time", format="openfoam")
    assert reasons(*times) == {"also a result: OpenFOAM time"}
    assert removed(run_of(*times), policy_of(prune_files=("[0-9]",))) == {"0", "1", "2", "3"}


def test_a_policy_for_some_formats_leaves_every_other_alone():
    other = numbered("step_{}.h5", format="hdf5")
    assert reasons(*other, policy=policy_of(formats=("torch*",))) == {"format hdf5: the policy's formats are torch*"}
    mixed = [replace(one, checkpoint=replace(one.checkpoint, format="torch", parts=(one.checkpoint,))) for one in other]
    assert reasons(*mixed, policy=policy_of(formats=("torch*",))) == {"format hdf5: the policy's formats are torch*"}
    assert len(removed(run_of(*other), policy_of(formats=("torch*", "hdf?")))) == 4


def test_files_that_a_person_names_may_go_whatever_their_role():
    data = numbered("samples/emb_{}.npy", role=Role.DATA)
    policy = policy_of(KeepLast(2), prune_files=("samples/*.npy",))
    made = retention.plan_run(run_of(*data), policy, NOW)
    assert names(made.remove) == {"emb_0.npy", "emb_1.npy", "emb_2.npy"}
    assert all("a prune_files pattern names all of its files" in one.reasons for one in made.remove)


def test_every_member_must_be_named():
    names_of_two = ("a_1.npy", "b_1.npy")

    def save(n):
        identities = (FileIdentity(1, 10 + n, 1, 1, 1), FileIdentity(1, 20 + n, 1, 1, 1))
        return saved(f"a_{n}.npy", 20 - n, role=Role.DATA, files=(f"a_{n}.npy", f"b_{n}.npy"), identities=identities)

    pairs = [save(n) for n in range(3)]
    assert len(pairs[1].checkpoint.files) == len(names_of_two)
    assert not retention.plan_run(run_of(*pairs), policy_of(prune_files=("a_*.npy",)), NOW).remove
    assert len(removed(run_of(*pairs), policy_of(prune_files=("a_*.npy", "b_*.npy")))) == 2


def test_what_is_named_but_was_written_by_nobody_known_stays():
    data = numbered("emb_{}.npy", role=Role.DATA, by=None)
    assert reasons(*data, policy=policy_of(prune_files=("emb_*",))) == {"no job of this run was seen writing it"}


def test_data_is_no_reason_to_prune_a_state():
    newer = numbered("emb_{}.npy", role=Role.DATA)
    older = [saved(f"state_{n}.pt", 90 - n, step=n) for n in (1, 2)]
    assert removed(run_of(*newer, *older)) == {"state_1.pt"}
    damaged = saved("state_3.pt", 80, step=3, state=CheckpointState.DAMAGED)
    assert removed(run_of(*newer, *older, damaged)) == {"state_1.pt"}


def test_what_is_named_never_stands_for_the_newest_state():
    samples = numbered("emb_{}.npy", role=Role.DATA)
    made = retention.plan_run(run_of(*samples, saved("state_1.pt", 90, step=1)), policy_of(prune_files=("emb_*",)), NOW)
    (newest,) = (one.path for one in made.keep if retention.NEWEST in one.reasons)
    assert newest == f"{DIRECTORY}/state_1.pt"


def test_each_series_is_counted_on_its_own():
    folds = [
        saved(f"fold{f}/epoch_{n}.pt", 40 - n - f, epoch=n, grouping=grouping_of(f"fold{f}/epoch_{n}.pt"))
        for f in (1, 2)
        for n in range(4)
    ]
    made = retention.plan_run(run_of(*folds), policy_of(KeepLast(2)), NOW)
    kept = {one.path.removeprefix(DIRECTORY + "/") for one in made.keep}
    assert kept == {f"fold{f}/epoch_{n}.pt" for f in (1, 2) for n in (2, 3)}


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("emb_1.npy", "emb_*.npy", True),
        ("a/b/emb_1.npy", "emb_*.npy", True),  # by its base name
        ("a/emb_1.npy", "a/*.npy", True),
        ("a/b/emb_1.npy", "a/*.npy", False),
        ("a/b/emb_1.npy", "a/**/*.npy", True),
        ("a/emb_1.npy", "a/**/*.npy", True),
        ("a/b/c/d", "a/**", True),
        ("b/a/c", "a/**", False),
        ("x/y/a/c", "**/a/*", True),
        ("a/c", "**/a/*", True),
        ("step_1/model.pt", "step_*", False),  # a directory's name is none of its files'
        ("step_1/model.pt", "step_*/**", True),
        ("emb_12.npy", "emb_?.npy", False),
        ("Emb_1.npy", "emb_*.npy", False),
    ],
)
def test_patterns_stay_within_a_directory_unless_they_say_otherwise(path, pattern, matches):
    assert match(path, pattern) is matches


def test_a_pattern_of_many_wildcards_takes_no_time():
    assert not match("a" * 250 + "/" + "a" * 250, "*a" * 100 + "/" + "*a" * 100 + "b")
    assert not match("/".join("a" * 500), "/".join(["**", "a"] * 200) + "/b")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("emb_*", "write a list of patterns"),
        ([7], "is no text"),
        (["/scratch/x*"], "not a path below the run's directory"),
        (["../x*"], "not a path below the run's directory"),
        (["a//b"], "not a path below the run's directory"),
        ([""], "not a path below the run's directory"),
        (["a**b"], "must be a whole component"),
        (["*"], "matches every file"),
        (["**/*"], "matches every file"),
        (["a" * 2000], "is longer than"),
        (["a"] * 60, "at most 50"),
    ],
)
def test_a_pattern_that_names_nothing_allows_nothing(value, problem):
    patterns, problems = parse_patterns(value)
    assert patterns == ()
    assert any(problem in one for one in problems), problems
