"""The log in a checkpoint of the Trainer proves which one its training was continued from."""

import json
import shutil

import pytest

from checkpoints.formats.real_files import DATA, copy_real
from checkpoints.recognising import recognise
from ckptd.core.runs import program_trace
from ckptd.core.runs.saved_state import SavedState
from core.histories import at

LOGS = DATA.parent / "trainer-logs"
NEXT = {"from-30": 40, "from-20": 30, "started-over": 10}  # the step of each


@pytest.fixture
def read_state(tmp_path):
    def read(name, step, change=None):
        """Recognise a real checkpoint with one of the logs; return what is kept of it."""
        state = json.loads((LOGS / f"{name}.json").read_text())
        if change:
            change(state)
        directory = copy_real("huggingface_trainer/run_best/checkpoint-60", tmp_path / name)
        directory = shutil.move(directory, directory.with_name(f"checkpoint-{step}"))
        (directory / "trainer_state.json").write_text(json.dumps(state))
        found = recognise(directory.parent)[directory.name]
        assert found.step == step
        return SavedState(path=f"{name}/{step}", completed_at=at(step), step=step, computation=found.computation)

    return read


@pytest.fixture
def before(read_state):
    return [read_state(f"first-{step}", step) for step in (10, 20, 30)]


@pytest.mark.parametrize(("name", "loaded"), [("from-30", ["first-30/30"]), ("from-20", ["first-20/20"])])
def test_the_log_says_which_checkpoint_was_loaded(read_state, before, name, loaded):
    trace = program_trace.read(read_state(name, NEXT[name]), before)
    assert not trace.is_fresh
    assert [each.path for each in trace.possible] == loaded


def test_a_log_without_any_earlier_evaluation_is_of_a_training_that_started_over(read_state, before):
    assert program_trace.read(read_state("started-over", 10), before).is_fresh


def test_many_evaluations_between_two_saves_prove_no_start_over(read_state, before):
    def evaluate_often(state):
        state["log_history"] += [{"step": 31, "eval_runtime": number / 7} for number in range(500)]

    trace = program_trace.read(read_state("from-30", 40, evaluate_often), before)
    assert (trace.is_fresh, trace.possible) == (False, [])  # it continues one of them, or what is not on record


def test_without_evaluations_the_log_proves_nothing(read_state, before):
    def forget(state):
        state["log_history"] = [each for each in state["log_history"] if "eval_runtime" not in each]

    own = read_state("from-30", 40, forget)
    assert own.computation is None
    assert program_trace.read(own, before) is None


def test_checkpoints_from_before_the_first_evaluation_are_not_what_a_log_with_one_continues(read_state, before):
    early = SavedState(path="early/5", completed_at=at(5), step=5)
    trace = program_trace.read(read_state("from-20", 30), [early, *before])
    assert [each.path for each in trace.possible] == ["first-20/20"]
    assert program_trace.read(read_state("started-over", 10), [early, *before]) is None


def test_what_users_write_into_a_log_is_bounded(read_state):
    def write(state):
        state["log_history"] = [
            7,
            {"eval_runtime": "x" * 10_000},
            {"eval_runtime": {"a": [1]}},
            None,
            {"eval_x_runtime": 1},
        ]

    assert len(read_state("from-30", 40, write).computation.split()) == 3
