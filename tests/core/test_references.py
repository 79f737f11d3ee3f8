"""Which checkpoints of a run some paths name."""

import time

from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.retention.references import Reference, ReferenceCounts, match, measure

RUN = "/scratch/alice/run"
FILES = [[f"{RUN}/epoch_{n}.pt"] for n in range(1, 5)]
SHARDED = [[f"{RUN}/step_{n}", f"{RUN}/step_{n}/rank0.pt", f"{RUN}/step_{n}/actor/rank0.pt"] for n in range(1, 5)]


def named(paths, *references):
    return sorted({index for index, _ in match(references, paths)})


def exact(path):
    return Reference(path, "a reason")


def unsure(path):
    return Reference(path, "a reason", is_exact=False)


def test_a_path_names_the_checkpoint_that_it_is_or_that_it_is_a_file_of():
    assert named(FILES, exact(f"{RUN}/epoch_3.pt")) == [2]
    assert named(SHARDED, exact(f"{RUN}/step_3")) == [2]
    assert named(SHARDED, exact(f"{RUN}/step_3/rank0.pt")) == [2]
    assert named(SHARDED, exact(f"{RUN}/step_3/actor")) == [2]
    assert named(FILES, exact(f"{RUN}/epoch_9.pt"), exact("/elsewhere/epoch_3.pt")) == []


def test_a_directory_names_the_checkpoints_below_it_but_the_runs_own_names_none():
    paths = [*SHARDED, [f"{RUN}/old/step_1", f"{RUN}/old/step_1/rank0.pt"], [f"{RUN}/old/step_2"]]
    assert named(paths, exact(f"{RUN}/old")) == [4, 5]
    assert named(paths, exact(RUN)) == []
    assert named(paths, exact("/scratch")) == []
    assert named(paths, unsure(RUN)) == [0, 1, 2, 3, 4, 5]
    assert named(paths, unsure("/")) == [0, 1, 2, 3, 4, 5]


def test_a_reference_may_leave_one_suffix_out_or_two():
    for path in (f"{RUN}/epoch_3.*", f"{RUN}/epoch=3-loss=0.5.*"):
        for name in (path[:-2] + ".ckpt", path[:-2] + ".pth.tar"):
            assert named([*FILES, [name]], exact(path)) == ([2] if "_3" in path else []) + [4]
    assert named(FILES, unsure("run/epoch_3.*")) == [2]
    assert named(FILES, exact(f"{RUN}/epoch_.*"), exact("/elsewhere/epoch_3.*"), exact(f"{RUN}.*")) == []


def test_what_is_not_sure_names_all_that_ends_like_it():
    assert named(FILES, unsure("epoch_3.pt")) == [2]
    assert named(FILES, unsure("run/epoch_3.pt")) == [2]
    assert named(FILES, unsure("other/epoch_3.pt"), unsure("och_3.pt")) == []
    assert named(SHARDED, unsure("rank0.pt")) == [0, 1, 2, 3]
    assert named(SHARDED, unsure("step_2")) == [1]
    assert named(FILES, unsure("alice/run")) == [0, 1, 2, 3]


def test_a_checkpoint_that_many_name_has_a_few_of_their_reasons_each_once():
    references = [Reference(f"{RUN}/epoch_3.pt", f"job {n} names it") for n in range(1000)]
    references.insert(1, references[0])
    told = [reason for _, reason in match(references, FILES)]
    assert told[0] == "job 0 names it"
    assert len(told) == len(set(told)) <= 3


def test_how_many_checkpoints_a_reference_names_is_counted():
    references = [exact(f"{RUN}/epoch_3.pt"), exact(RUN), unsure("run"), unsure("nothing"), exact(f"{RUN}/epoch_3.pt")]
    assert measure(references, FILES) == [
        ReferenceCounts(1, 0),
        ReferenceCounts(0, 4),
        ReferenceCounts(0, 4),
        ReferenceCounts(0, 0),
        ReferenceCounts(1, 0),
    ]


NAMES = st.sampled_from(["a", "b", "c.pt", "step_1", "\udcff", "x\ny"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
SETS = st.lists(st.lists(PATHS, min_size=1, max_size=3), min_size=1, max_size=6)
REFERENCES = st.lists(
    st.one_of(
        st.builds(Reference, PATHS, st.text(max_size=3), st.booleans()),
        st.builds(Reference, PATHS.map(lambda path: path[1:]), st.text(max_size=3), st.just(value=False)),
    ),
    max_size=6,
)


def is_at_or_above(reference, path):
    if reference.path.startswith("/"):
        return path == reference.path or path.startswith(reference.path.rstrip("/") + "/")
    return f"/{reference.path}/" in f"{path}/"


@given(references=REFERENCES, paths=SETS)
def test_the_index_finds_what_comparing_each_with_each_finds(references, paths):
    expected = set()
    for reference in references:
        below = {index for index, own in enumerate(paths) if any(is_at_or_above(reference, path) for path in own)}
        direct = {
            index
            for index, own in enumerate(paths)
            if any(path == reference.path or (path.endswith(f"/{reference.path}")) for path in own)
        }
        is_around = reference.is_exact and len(paths) > 1 and not direct and below == set(range(len(paths)))
        is_partly_around = reference.is_exact and len(paths) > 1 and (below - direct) == set(range(len(paths)))
        expected |= direct if is_around or is_partly_around else below
    assert set(named(paths, *references)) == expected


def test_the_time_grows_with_the_paths_and_the_references_and_not_with_their_product():
    paths = [[f"{RUN}/step_{n}", *(f"{RUN}/step_{n}/rank{rank}.pt" for rank in range(4))] for n in range(100_000)]
    references = [exact(f"{RUN}/x{n}/epoch_{n}.pt") for n in range(4000)]
    references += [unsure(f"a{n}/b/rank3.pt") for n in range(4000)]
    references += [unsure("step_77/rank3.pt")]
    began = time.process_time()
    assert named(paths, *references) == [77]
    assert time.process_time() - began < 10
