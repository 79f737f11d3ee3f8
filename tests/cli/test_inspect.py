import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from click.testing import CliRunner

from ckptd.cli import main
from demo.patience import allow

TORCH = Path(__file__).parents[1] / "data" / "formats" / "torch"
KEYS = {
    "path",
    "format",
    "files",
    "size_bytes",
    "modified_at",
    "state",
    "reason",
    "level",
    "epoch",
    "step",
    "is_best",
    "metrics",
    "unsafe",
    "role",
    "role_evidence",
    "is_result",
    "members",
    "series",
    "progress",
    "progress_evidence",
    "grouping_doubt",
    "locations",
}


@pytest.fixture
def run(tmp_path):
    shutil.copytree(TORCH / "run_epochs", tmp_path / "run")
    for file in (tmp_path / "run").iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    return tmp_path / "run"


def inspect(*arguments):
    outcome = CliRunner().invoke(main, ["inspect", *map(str, arguments)])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def document(*arguments):
    outcome = inspect(*arguments, "--json")
    return outcome.exit_code, json.loads(outcome.stdout)


def test_json_has_exactly_the_promised_keys(run):
    status, found = document(run)
    assert status == 0
    assert set(found) == {"checkpoints", "unrecognised", "errors"}
    assert all(set(one) == KEYS for one in found["checkpoints"])
    by_name = {os.path.basename(one["path"]): one for one in found["checkpoints"]}
    assert (by_name["epoch_010.pt"]["epoch"], by_name["epoch_010.pt"]["files"]) == (10, ["epoch_010.pt"])
    assert by_name["model_best.pth"]["is_best"] is True
    assert by_name["epoch_010.pt"]["modified_at"] == "2023-11-14T22:13:20+00:00"


def test_one_file_is_inspected_alone(run):
    status, found = document(run / "epoch_010.pt")
    assert (status, [os.path.basename(one["path"]) for one in found["checkpoints"]]) == (0, ["epoch_010.pt"])


@pytest.mark.parametrize("arguments", [["--verify", "everything", "."], [], ["/nowhere/at/all"], ["."]])
def test_wrong_usage_ends_with_2(arguments, run, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert inspect(*arguments).exit_code == (0 if arguments == ["."] else 2)


def test_a_name_that_is_no_checkpoint_is_said_so(run):
    (run / "train.py").write_text("print()")
    status, found = document(run / "train.py")
    assert (status, found["errors"][0]["reason"]) == (2, "not recognised as a checkpoint")


def test_damage_ends_with_1_and_is_found_at_its_level(run):
    shutil.copy(TORCH / "epochs_damaged/flip_data/epoch_010.pt", run / "epoch_011.pt")
    os.utime(run / "epoch_011.pt", (1_700_000_000, 1_700_000_000))
    assert inspect(run).exit_code == 0
    outcome = inspect(run, "--verify", "full")
    assert outcome.exit_code == 1
    assert "CRC-32" in outcome.stdout


def test_an_unsafe_pickle_is_trouble(tmp_path):
    shutil.copy(TORCH / "hostile/evil_epoch_4.pt", tmp_path / "a.pt")
    outcome = inspect(tmp_path)
    assert outcome.exit_code == 1
    assert "posix.system" in outcome.stdout


def test_the_table_marks_best_and_newest_and_prints_hostile_names_safely(run):
    os.rename(run / "epoch_010.pt", os.fsencode(run) + b"/epoch_010\x1b[2J\xff\n.pt")
    outcome = inspect(run)
    assert "\x1b" not in outcome.stdout
    assert "epoch_010\\x1b[2J\\xff\\n.pt" in outcome.stdout
    assert "best" in outcome.stdout
    assert "newest" in outcome.stdout


def test_files_that_look_like_nothing_are_named_and_ordinary_ones_are_not(run):
    for name in ("train.py", "slurm-12.out", "mystery.xyz"):
        (run / name).write_text("x")
    _, found = document(run)
    assert [os.path.basename(path) for path in found["unrecognised"]] == ["mystery.xyz"]


def test_a_directory_that_cannot_be_read_is_an_error_and_not_empty(run):
    os.mkfifo(run / "epoch_020.pt")
    status, found = document(run)
    assert status == 0
    assert all("epoch_020" not in one["path"] for one in found["checkpoints"])


def test_a_link_is_shown_under_its_own_name(run):
    (run / "latest.pt").symlink_to("epoch_010.pt")
    _, found = document(run)
    link = next(one for one in found["checkpoints"] if one["path"].endswith("latest.pt"))
    assert (link["epoch"], link["files"], link["reason"]) == (10, ["epoch_010.pt"], "a link to epoch_010.pt")


def test_a_copy_in_another_path_is_recognised_by_names_and_sizes_and_at_full_level_by_content(tmp_path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    paths = {}
    for place, data in (("run", b"\1" * 8), ("copy", b"\1" * 8), ("other", b"\2" * 8)):
        paths[place] = tmp_path / place / "step_1.safetensors"
        paths[place].parent.mkdir()
        paths[place].write_bytes(len(header).to_bytes(8, "little") + header + data)

    def list_copies(*options):
        _, found = document(*(path.parent for path in paths.values()), *options)
        return {each["path"]: each["locations"] for each in found["checkpoints"]}

    run, copy, other = map(str, paths.values())
    assert list_copies() == {run: [copy, other], copy: [run, other], other: [run, copy]}
    assert list_copies("--verify", "full") == {run: [copy], copy: [run], other: []}


def test_a_new_process_reads_hdf5_though_numpy_would_start_a_thread_for_each_processor(tmp_path):
    with h5py.File(tmp_path / "chk_00500.h5", "w") as file:
        file["velocity"] = [1.0, 2.0]
        file.attrs["step"] = 500
    os.utime(tmp_path / "chk_00500.h5", (1_700_000_000, 1_700_000_000))
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", "from ckptd.cli import main; main()", "inspect", "--json", str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=allow(60), env=environment)
    (found,) = json.loads(done.stdout)["checkpoints"]
    assert (found["state"], found["reason"], found["step"]) == ("complete", None, 500)
