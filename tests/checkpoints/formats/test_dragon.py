import os
import pickle
import struct

import pytest

from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level


def persisted(number, content, *, forget=0):
    """Return the bytes of one manager's file, without its last `forget` records."""
    keys, values, records = {}, {}, []
    for count, (key, value) in enumerate(content.items()):
        memory_id = (1 << 27) + 2 * count
        keys[memory_id] = memory_id
        values[memory_id] = [memory_id + 1]
        records += [(memory_id, pickle.dumps(key)), (memory_id + 1, pickle.dumps(value))]
    state = pickle.dumps((number, keys, values, set(), set(), {1}, None, False), 4)
    body = state[:2] + b"cdragon.data.ddict.manager\nCheckpoint\n)\x81" + state[11:-1] + b"b."
    data = struct.pack("<Q", len(body)) + body
    for record_id, record in records[: len(records) - forget]:
        data += struct.pack("<QQ", record_id, len(record)) + record
    return data


CONTENT = {"step": 100, "epoch": 10, "coordinates": list(range(500))}


@pytest.fixture
def run(tmp_path):
    for number in (0, 3):
        (tmp_path / f"sim_0_{number}.ddict").write_bytes(persisted(number, CONTENT))
        (tmp_path / f"sim_1_{number}.ddict").write_bytes(persisted(number, {"more": 1.5}))
    (tmp_path / "ddict_orc_sim").write_bytes(b"orchestrator")
    return tmp_path


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
def test_the_managers_files_of_one_id_are_one_checkpoint(run, level):
    found = recognise(run, level)
    assert set(found) == {"sim_*_0.ddict", "sim_*_3.ddict"}
    one = found["sim_*_3.ddict"]
    assert one.files == ("sim_0_3.ddict", "sim_1_3.ddict")
    assert (one.state, one.epoch, one.step) == (CheckpointState.COMPLETE, 10, 100)


def test_a_manager_that_other_ids_have_is_missed(run):
    (run / "sim_1_3.ddict").unlink()
    found = recognise(run)
    assert found["sim_*_0.ddict"].state is CheckpointState.COMPLETE
    assert found["sim_*_3.ddict"].state is CheckpointState.DAMAGED
    assert "sim_1_3.ddict is missing" in found["sim_*_3.ddict"].reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (bytes(900), "claims 0 bytes"),
        (b"Traceback (most recent call last):", "claims"),
        (persisted(3, CONTENT)[:-700], "record at byte"),
        (persisted(3, CONTENT) + b"1234", "ends within the record"),
        (persisted(3, CONTENT, forget=1), "1 of the 6 records"),
        (persisted(4, CONTENT), "its name says id 3, its checkpoint record 4"),
        (struct.pack("<Q", 12) + pickle.dumps([3], 2)[:12].ljust(12, b"."), "not one of Dragon"),
        (persisted(3, CONTENT).replace(b"\nCheckpoint\n", b"\nCheckpoinT\n"), "not one of Dragon"),
    ],
)
def test_a_file_that_does_not_hold_together_is_damage(tmp_path, content, reason):
    (tmp_path / "sim_0_3.ddict").write_bytes(content)
    found = recognise(tmp_path)["sim_*_3.ddict"]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_callables_in_keys_and_values_are_named(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.system, ("true",)

    (tmp_path / "sim_0_3.ddict").write_bytes(persisted(3, {"step": Hostile()}))
    assert recognise(tmp_path)["sim_*_3.ddict"].unsafe == (f"{os.system.__module__}.system",)
