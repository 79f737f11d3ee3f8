import json
import shutil
from pathlib import Path

import pytest
import zstandard

from checkpoints.formats.real_files import copy_real
from checkpoints.recognising import recognise
from ckptd.core.model import CheckpointState, Level

DATA = Path(__file__).parents[2] / "data" / "formats" / "orbax"
METADATA = "_CHECKPOINT_METADATA"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(DATA, tmp_path / "run"))


def rewrite(path, change):
    path.write_bytes(bytes(change(bytearray(path.read_bytes()))))


def flip(offset):
    def change(data):
        data[offset] ^= 0x40
        return data

    return change


def empty(_):
    return b""


def halve(data):
    return data[: len(data) // 2]


def zero(data):
    return bytes(len(data))


def largest(directory):
    return max((path for path in directory.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("level", [Level.STRUCTURE, Level.FULL])
@pytest.mark.parametrize(
    ("name", "epoch", "step"), [("40", 4, 40), ("old_40", 4, 40), ("checkpoint_30", 3, 30), ("epoch_2", 2, 20)]
)
def test_whole_steps_tell_epoch_and_step(run, level, name, epoch, step):
    found = recognise(run, level)
    assert set(found) >= {"40", "old_40", "checkpoint_30", "epoch_2", "50.orbax-checkpoint-tmp"}
    assert (found[name].state, found[name].reason or "no checksum in this format") == (
        CheckpointState.COMPLETE,
        "no checksum in this format",
    )
    assert (found[name].epoch, found[name].step) == (epoch, step)


def test_the_metrics_item_is_read(run):
    assert recognise(run)["40"].metrics == {"loss": pytest.approx(0.0918783)}


def test_the_temporary_name_means_a_save_that_is_not_finished(run):
    (run / "checkpoint_70.orbax-checkpoint-tmp-1795207350415535174").mkdir()
    (run / "checkpoint_70.orbax-checkpoint-tmp-1795207350415535174" / "x").write_bytes(b"1")
    found = recognise(run)
    writing = [name for name, each in found.items() if each.state is CheckpointState.WRITING]
    assert len(writing) == 2
    assert (found["50.orbax-checkpoint-tmp"].step, found[writing[1]].name_step) in {(50, 50), (50, 70)}


@pytest.mark.parametrize(
    ("place", "change", "reason"),
    [
        ("40/state/manifest.ocdbt", halve, "header states"),
        ("40/state/manifest.ocdbt", empty, "magic"),
        ("40/state/manifest.ocdbt", flip(40), "checksum"),
        ("40/state/manifest.ocdbt", zero, "magic"),
        ("40/state/_METADATA", halve, "no whole JSON"),
        ("40/state/_sharding", halve, "no whole JSON"),
        ("40/metrics/metrics", empty, "no whole JSON"),
        ("40/_CHECKPOINT_METADATA", halve, "no whole JSON"),
        ("old_40/default/checkpoint", halve, "cut off"),
        ("checkpoint_30/step/.zarray", halve, "metadata"),
    ],
)
def test_damage_of_indexes_and_metadata_is_found_in_the_structure(run, place, change, reason):
    rewrite(run / place, change)
    found = recognise(run)[place.partition("/")[0]]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


@pytest.mark.parametrize(
    ("name", "gone", "reason"),
    [
        ("40", "state/manifest.ocdbt", "manifest.ocdbt is missing"),
        ("40", "state/ocdbt.process_0", "is missing"),
        ("40", "state/d", "is missing"),
        ("40", "metrics", "item 'metrics' is missing"),
        ("40", "state/_METADATA", "_METADATA is missing"),
        ("epoch_2", "_METADATA", "_METADATA is missing"),
        ("checkpoint_30", "params.Dense_1.kernel", "'params.Dense_1.kernel'"),
        ("checkpoint_30", "params.Dense_1.kernel/0.0", "lacks its chunk 0.0"),
        ("checkpoint_30", "params.Dense_1.kernel/.zarray", "arrays are missing"),
    ],
)
def test_what_is_missing_is_found_in_the_structure(run, name, gone, reason):
    path = run / name / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = recognise(run)[name]
    assert found.state is CheckpointState.DAMAGED
    assert reason in found.reason


def test_an_old_tree_without_its_metadata_is_told_by_its_aggregate(run):
    (run / "old_40/default/_METADATA").unlink()
    assert recognise(run)["old_40"].state is CheckpointState.COMPLETE


@pytest.mark.parametrize("gone", [METADATA, "commit_success.txt", "state/commit_success.txt"])
def test_commit_files_are_optional(run, gone):
    (run / "40" / gone).unlink()
    assert recognise(run, Level.FULL)["40"].state is CheckpointState.COMPLETE


def test_a_step_that_was_never_committed_is_damaged(run):
    content = json.loads((run / "40" / METADATA).read_text())
    (run / "40" / METADATA).write_text(json.dumps({**content, "commit_timestamp_nsecs": None}))
    assert "never committed" in recognise(run)["40"].reason


def test_an_item_that_is_still_temporary_is_damage(run):
    (run / "40" / "metrics").rename(run / "40" / "metrics.orbax-checkpoint-tmp")
    assert "still temporary" in recognise(run)["40"].reason


@pytest.mark.parametrize("change", [zero, empty, halve, flip(1)])
def test_damaged_arrays_in_a_data_file_are_found_at_level_full(run, change):
    rewrite(largest(run / "40/state/ocdbt.process_0"), change)
    assert recognise(run, Level.FULL)["40"].state is CheckpointState.DAMAGED


@pytest.mark.parametrize("change", [zero, empty, halve, lambda _: b"<html>403</html>\n"])
def test_damaged_chunks_of_zarr_are_found_at_level_full(run, change):
    rewrite(run / "checkpoint_30/params.Dense_1.kernel/0.0", change)
    in_structure = CheckpointState.COMPLETE if change is halve else CheckpointState.DAMAGED
    assert recognise(run)["checkpoint_30"].state is in_structure
    assert recognise(run, Level.FULL)["checkpoint_30"].state is CheckpointState.DAMAGED


@pytest.mark.parametrize("settings", [{"compressor": None}, {"compressor": {"id": "blosc", "cname": "lz4"}}])
@pytest.mark.parametrize("content", [bytes(5), b"<html>403</html>\n" * 20])
def test_a_chunk_that_its_codec_cannot_have_written_is_damage_in_the_structure(run, settings, content):
    array = run / "checkpoint_30/params.Dense_1.kernel"
    rewrite(array / ".zarray", lambda data: json.dumps({**json.loads(data), **settings}).encode())
    (array / "0.0").write_bytes(content)
    assert "damaged chunk 0.0" in recognise(run)["checkpoint_30"].reason


def test_a_chunk_that_is_not_compressed_has_the_size_of_its_array(run):
    array = run / "checkpoint_30/params.Dense_1.kernel"
    metadata = {**json.loads((array / ".zarray").read_bytes()), "compressor": None}
    (array / ".zarray").write_text(json.dumps(metadata))
    rows, columns = metadata["chunks"]
    (array / "0.0").write_bytes(b"\1" * 4 * rows * columns)
    assert recognise(run)["checkpoint_30"].state is CheckpointState.COMPLETE


def test_a_tree_that_no_metadata_describe_cannot_be_restored(run):
    (run / "epoch_2" / "_METADATA").unlink()
    assert "_METADATA is missing" in recognise(run)["epoch_2"].reason
    (run / "sharded" / "step_7" / "_METADATA").unlink()
    assert "_METADATA is missing" in recognise(run)["sharded/step_7"].reason


def test_an_item_whose_json_is_missing_is_damage(run):
    (run / "40" / "metrics" / "metrics").unlink()
    assert recognise(run)["40"].reason == "metrics: its JSON is missing"


def test_a_chunk_that_unpacks_to_more_than_it_may_is_damage_and_no_bomb(run):
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(1 << 28))
    (run / "checkpoint_30/params.Dense_1.kernel/0.0").write_bytes(bomb)
    assert "more than" in recognise(run, Level.FULL)["checkpoint_30"].reason


def test_a_grid_of_more_chunks_than_there_are_files_costs_no_work(run):
    path = run / "checkpoint_30/params.Dense_1.kernel/.zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "shape": [2**40, 2**20]}))
    assert "lacks its chunk" in recognise(run)["checkpoint_30"].reason


def test_a_run_whose_steps_are_single_trees_is_no_checkpoint_itself(run):
    outer = run.parent
    assert set(recognise(outer)) >= {"run/40", "run/epoch_2"}
    assert "run" not in recognise(outer)


def test_an_empty_chunk_is_seen_without_decoding(tmp_path):
    copy = copy_real("orbax/sharded/step_7", tmp_path)
    (copy / "w" / "c" / "0" / "0").write_bytes(b"")
    assert "has an empty chunk" in recognise(tmp_path)["step_7"].reason
    assert recognise(tmp_path)["step_7"].state is CheckpointState.DAMAGED


def test_trees_within_an_item_are_checked_too(tmp_path):
    """A random key's item holds one."""
    step = tmp_path / "7"
    copy_real("orbax/sharded/step_7", tmp_path).rename(step)
    shutil.copytree(step, tmp_path / "key")
    (tmp_path / "key").rename(step / "rng_key")
    (step / "rng").mkdir()
    (step / "rng_key").rename(step / "rng" / "key")
    for path in list(step.iterdir()):
        if path.name != "rng":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (step / "_CHECKPOINT_METADATA").write_text('{"item_handlers": {"rng": "JaxRandomKeyCheckpointHandler"}}')
    assert recognise(tmp_path, Level.FULL)["7"].state is CheckpointState.COMPLETE
    (step / "rng" / "key" / "_METADATA").write_bytes(b"{")
    found = recognise(tmp_path)["7"]
    assert found.state is CheckpointState.DAMAGED
    assert found.reason.startswith("rng/key: _METADATA")
