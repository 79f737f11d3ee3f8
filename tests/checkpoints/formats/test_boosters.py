import json
import shutil
from pathlib import Path

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

DATA = Path(__file__).parents[2] / "data" / "formats"
SNAPSHOT = "LightGBM_model.txt.snapshot_iter_5"


@pytest.fixture
def run(tmp_path):
    shutil.copytree(DATA / "lightgbm", tmp_path / "run")
    return Path(shutil.copytree(DATA / "xgboost", tmp_path / "run", dirs_exist_ok=True))


def edit(path, change):
    model = json.loads(path.read_text())
    change(model["learner"])
    path.write_text(json.dumps(model))


def trees(learner):
    return learner["gradient_booster"]["model"]["trees"]


def rename(holder, old, new):
    holder[new] = holder.pop(old)


def half_zeros(data):
    return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
@pytest.mark.parametrize(
    ("name", "step"), [("model_0004.json", 4), ("model_0004.ubj", 4), ("ckpt_5.ubj", 6), (SNAPSHOT, 5)]
)
def test_whole_models_tell_their_rounds(run, level, name, step):
    found = recognise(run, level)[name]
    assert (found.state, found.step) == (CheckpointState.COMPLETE, step)


@pytest.mark.parametrize("name", ["model_0004.json", "model_0004.ubj", SNAPSHOT])
@pytest.mark.parametrize("change", [lambda data: data[: len(data) // 2], half_zeros, lambda data: data[:-120]])
def test_cut_off_models_are_found_in_the_structure(run, name, change):
    path = run / name
    path.write_bytes(change(path.read_bytes()))
    assert recognise(run)[name].state is CheckpointState.DAMAGED


@pytest.mark.parametrize(
    "change",
    [
        lambda learner: rename(trees(learner)[1]["tree_param"], "size_leaf_vector", "s(ze_leaf_vector"),
        lambda learner: rename(trees(learner)[0], "sum_hessian", "sum_hess)an"),
        lambda learner: trees(learner)[2]["left_children"].pop(),
        lambda learner: trees(learner)[2]["tree_param"].update(num_nodes="x"),
    ],
)
def test_a_tree_that_does_not_hold_together_is_found_at_level_full(run, change):
    edit(run / "model_0004.json", change)
    assert recognise(run, Level.FULL)["model_0004.json"].state is CheckpointState.DAMAGED


@pytest.mark.parametrize(
    "change",
    [
        lambda learner: trees(learner).pop(),
        lambda learner: learner.pop("objective"),
        lambda learner: rename(learner["gradient_booster"]["model"], "trees", "treez"),
        lambda learner: learner.update(gradient_booster=[]),
    ],
)
def test_a_model_without_its_parts_is_found_in_the_structure(run, change):
    edit(run / "model_0004.json", change)
    assert recognise(run)["model_0004.json"].state is CheckpointState.DAMAGED


def test_a_booster_of_dart_wraps_one_of_trees(run):
    def wrap(learner):
        learner["gradient_booster"] = {"gbtree": learner["gradient_booster"], "name": "dart", "weight_drop": [1.0] * 4}

    edit(run / "model_0004.json", wrap)
    found = recognise(run, Level.FULL)["model_0004.json"]
    assert (found.state, found.step) == (CheckpointState.COMPLETE, 4)


def test_parallel_trees_and_classes_share_a_round(run):
    def forget(learner):
        model = learner["gradient_booster"]["model"]
        del model["iteration_indptr"]
        model["gbtree_model_param"]["num_parallel_tree"] = "2"

    edit(run / "model_0004.json", forget)
    assert recognise(run)["model_0004.json"].step == 2


@pytest.mark.parametrize(
    "data",
    [b"{", b"[" * 100_000, b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", b"{L\x80\0\0\0\0\0\0\0", b"[$Z#U\xff", b"Q"],
)
def test_binary_json_that_lies_is_refused(run, data):
    (run / "model_0004.ubj").write_bytes(data)
    assert recognise(run)["model_0004.ubj"].state is not CheckpointState.COMPLETE


def test_other_json_is_no_model(run):
    (run / "model_config.json").write_text('{"layers": 3}')
    assert "model_config.json" not in recognise(run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("split_gain=", "split_x"),
        ("leaf_value=", "leaf_value=o"),
        (
            "\n",
            "\n7",
        ),
    ],
)
def test_a_damaged_tree_of_text_is_found_at_level_full(run, old, new):
    path = run / SNAPSHOT
    text = path.read_text()
    at = text.index(old, text.index("Tree=2"))
    path.write_text(text[:at] + new + text[at + len(new) :])
    assert recognise(run, Level.FULL)[SNAPSHOT].state is CheckpointState.DAMAGED


@pytest.mark.parametrize("name", ["model_0004.json", "model_0004.ubj", SNAPSHOT])
def test_a_flipped_first_byte_does_not_hide_a_model(run, name):
    data = bytearray((run / name).read_bytes())
    data[0] ^= 0x08
    (run / name).write_bytes(bytes(data))
    assert recognise(run)[name].state is CheckpointState.DAMAGED
