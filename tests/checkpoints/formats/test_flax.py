import shutil
from pathlib import Path

import msgpack
import numpy as np
import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

DATA = Path(__file__).parents[2] / "data" / "formats" / "flax"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(DATA, tmp_path / "run"))


def array(values):
    values = np.asarray(values)
    return msgpack.ExtType(1, msgpack.packb((values.shape, values.dtype.name, values.tobytes())))


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_whole_files_tell_epoch_and_step(run, level):
    found = recognise(run, level)
    assert (found["checkpoint_50"].state, found["checkpoint_50"].step) == (CheckpointState.COMPLETE, 50)
    named = found["params_epoch_5.msgpack"]
    assert (named.state, named.epoch, named.step) == (CheckpointState.COMPLETE, 5, 50)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
        lambda data: bytes(len(data)),
        lambda _: b"",
        lambda data: data + b"\0",
        lambda data: b"\xc4" + data[1:],
        lambda _: b"Traceback (most recent call last):\n",
        lambda _: b"\x81" * 50_000,
        lambda _: b"\xdf\xff\xff\xff\xff",
        lambda _: b"\x81\xa1k\xc6\xff\xff\xff\xff",
    ],
)
def test_damage_is_found_in_the_structure(run, change):
    path = run / "checkpoint_50"
    path.write_bytes(change(path.read_bytes()))
    assert recognise(run)["checkpoint_50"].state is not CheckpointState.COMPLETE


def test_an_array_that_its_shape_does_not_fit_is_damage(run):
    wrong = msgpack.ExtType(1, msgpack.packb(((3,), "float32", bytes(8))))
    (run / "x.msgpack").write_bytes(msgpack.packb({"w": wrong}))
    assert recognise(run)["x.msgpack"].state is CheckpointState.DAMAGED


def test_the_updates_that_optax_counts_are_the_step_where_nothing_else_is(run):
    state = {"opt_state": {"0": {"count": array(np.int32(70)), "mu": {"w": array(np.ones(500, np.float32))}}}}
    (run / "x.msgpack").write_bytes(msgpack.packb(state))
    assert recognise(run)["x.msgpack"].step == 70


def test_the_temporary_of_a_save_is_not_finished(run):
    (run / "checkpoint_tmp").write_bytes(b"\x81\xa1")
    assert recognise(run)["checkpoint_tmp"].state is CheckpointState.WRITING
