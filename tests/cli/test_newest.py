import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import ckptd
from ckptd.checkpoints.scanning import find_newest as search
from ckptd.cli import main, output
from demo.patience import allow
from support import hanging_file_system
from support.checkpoint_bytes import npz_arrays, torch_optimizer, torch_state, torch_weights

START = 1_700_000_000
NAMES = ["epoch 1.pt", "epoch_1\n.pt", "-epoch_1.pt", b"epoch_1_\xff.pt"]


def put(path, content, minute=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (START + 60 * minute, START + 60 * minute))
    return path


@pytest.fixture
def run(tmp_path):
    for number in (1, 2, 3):
        put(tmp_path / f"run/epoch_{number}.pt", torch_state(number, 100 * number), number)
    return tmp_path / "run"


@pytest.fixture
def ckptd_in_path(tmp_path):
    """An environment in which this very tree is the command `ckptd`."""
    command = tmp_path / "bin/ckptd"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ckptd "$@"\n')
    command.chmod(0o755)
    path = f"{Path(ckptd.__file__).parents[1]}"
    return {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": path}


def newest(*arguments):
    outcome = CliRunner().invoke(main, ["newest", *map(str, arguments)])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def shell(script, *arguments, **more):
    words = ["bash", "-c", script, "job", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=allow(120), check=False, **more)


def test_the_path_is_printed_as_the_directory_was_given(run, monkeypatch):
    (run.parent / "link").symlink_to(run)
    monkeypatch.chdir(run.parent)
    for given in ("run", "run/", "link", run):
        outcome = newest(given)
        expected = os.path.join(run.parent, str(given).rstrip("/"), "epoch_3.pt")
        assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, f"{expected}\n", "")


def test_the_newest_of_several_directories_is_printed(run):
    other = put(run.parent / "other/epoch_9.pt", torch_state(9, 900), minute=9)
    assert newest(run, other.parent).stdout == f"{other}\n"


@pytest.fixture
def lightning_logs(tmp_path):
    """Two trainings of one program: the second is younger and has not come as far."""
    logs = tmp_path / "lightning_logs"
    for version, number, minute in ((0, 8, 8), (0, 9, 9), (1, 1, 130), (1, 2, 140)):
        name = f"version_{version}/checkpoints/epoch={number}-step={number}00.ckpt"
        put(logs / name, torch_state(number, 100 * number), minute)
    return logs


def test_a_checkpoint_of_another_run_below_the_directory_that_is_further_is_named(lightning_logs):
    outcome = newest(lightning_logs)
    further = f"{lightning_logs}/version_0/checkpoints/epoch=9-step=900.ckpt"
    assert (outcome.exit_code, outcome.stdout) == (
        0,
        f"{lightning_logs}/version_1/checkpoints/epoch=2-step=200.ckpt\n",
    )
    assert outcome.stderr == (
        "ckptd newest: another directory holds one that is further (step 900, the printed one step 200) and older "
        f"(written 2 h 11 min earlier): {further}\n"
    )
    (other,) = json.loads(newest("--json", lightning_logs).stdout)["elsewhere"]
    assert (other["path"], other["is_further"], other["is_newer"], other["step"]) == (further, True, False, 900)


@pytest.mark.parametrize("given", ["version_0", "version_0/checkpoints"])
def test_a_later_start_of_the_same_training_beside_the_directory_is_named(given, lightning_logs):
    outcome = newest(lightning_logs / given)
    assert (outcome.exit_code, outcome.stdout) == (
        0,
        f"{lightning_logs}/version_0/checkpoints/epoch=9-step=900.ckpt\n",
    )
    assert outcome.stderr == (
        "ckptd newest: another directory holds one that is newer (written 2 h 11 min later): "
        f"{lightning_logs}/version_1/checkpoints/epoch=2-step=200.ckpt\n"
    )


def test_an_earlier_start_of_the_same_training_is_named_where_there_is_none_yet(lightning_logs):
    (lightning_logs / "version_2").mkdir()
    outcome = newest(lightning_logs / "version_2")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == (
        f"ckptd newest: no complete checkpoint below {lightning_logs}/version_2\n"
        f"ckptd newest: another directory holds one: {lightning_logs}/version_0/checkpoints/epoch=9-step=900.ckpt\n"
        f"ckptd newest: another directory holds one: {lightning_logs}/version_1/checkpoints/epoch=2-step=200.ckpt\n"
    )


def test_other_starts_that_cannot_be_read_change_no_answer(lightning_logs, monkeypatch):
    inspect = search.inspect_tree

    def refuse(root, **more):
        if "version_1" in str(root):
            raise PermissionError(13, "Permission denied")
        return inspect(root, **more)

    monkeypatch.setattr(search, "inspect_tree", refuse)
    outcome = newest(lightning_logs / "version_0")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.endswith("epoch=9-step=900.ckpt\n")


def test_a_second_location_that_is_further_is_named(run):
    archive = put(run.parent / "archive/epoch_9.pt", torch_state(9, 900), minute=1)
    outcome = newest(run, archive.parent)
    assert (outcome.exit_code, outcome.stdout) == (0, f"{run}/epoch_3.pt\n")
    assert "is further (step 900, the printed one step 300) and older" in outcome.stderr
    assert str(archive) in outcome.stderr


def test_at_most_five_other_directories_are_named(run):
    for number in range(20):
        put(run / f"seed_{number}/epoch_9.pt", torch_state(9, 900 + number))
    assert newest(run).stderr.count("another directory") == 5


def test_a_newest_that_is_half_written_or_damaged_gives_way_to_the_one_before(run):
    data = torch_state(4, 400)
    (run / "epoch_4.pt").write_bytes(data[: len(data) // 2])
    outcome = newest(run)
    assert (outcome.exit_code, outcome.stdout) == (0, f"{run}/epoch_3.pt\n")
    assert "epoch_4.pt: writing" in outcome.stderr


def test_every_byte_of_the_one_that_is_printed_is_read_on_request(run):
    data = bytearray((run / "epoch_3.pt").read_bytes())
    data[data.index(b"\0\0\0\x3f" * 2)] ^= 1
    put(run / "epoch_3.pt", bytes(data), minute=3)
    assert newest(run).stdout == f"{run}/epoch_3.pt\n"
    outcome = newest("--verify", "full", run)
    assert (outcome.exit_code, outcome.stdout) == (0, f"{run}/epoch_2.pt\n")
    assert "CRC-32" in outcome.stderr


def test_a_set_of_several_files_is_one_checkpoint_also_when_every_byte_is_read(tmp_path):
    for number in (1, 2):
        put(tmp_path / f"run/model_step_{number}00.pt", torch_weights(), number)
        put(tmp_path / f"run/optim_step_{number}00.pt", torch_optimizer(), number)
    for level in ("structure", "full"):
        found = json.loads(newest("--json", "--verify", level, tmp_path / "run").stdout)
        assert found["path"] == f"{tmp_path}/run/model_step_200.pt"
        assert found["checkpoint"]["files"] == ["model_step_200.pt", "optim_step_200.pt"]
        assert (found["checkpoint"]["role"], found["checkpoint"]["level"]) == ("state", level)
    (tmp_path / "run/optim_step_200.pt").unlink()
    assert newest(tmp_path / "run").stdout == f"{tmp_path}/run/model_step_100.pt\n"


def test_a_step_can_be_asked_for(run):
    assert newest("--step", 200, run).stdout == f"{run}/epoch_2.pt\n"
    assert newest("--step", 250, run).exit_code == 1


def test_nothing_there_yet_ends_with_1(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/train.py").write_text("print()")
    for directory in ("empty", "logs", "not-made-yet"):
        outcome = newest(tmp_path / directory)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert "no complete checkpoint" in outcome.stderr


def test_what_nobody_can_tell_ends_with_3(run):
    (run.parent / "link").symlink_to(run.parent / "unmounted")
    put(run.parent / "unknown-format/model_300.eqx", b"\x93what")
    put(run.parent / "without-model/optimizer_300.pt", torch_optimizer())
    put(run.parent / "data/shard_0001.npz", npz_arrays())
    deep = put(run.parent / "deep" / "/".join("abcdefghijklm") / "epoch_1.pt", torch_state(1, 1))
    assert deep.exists()
    for directory in ("unmounted/run", "link", "unknown-format", "without-model", "data", "deep"):
        outcome = newest(run.parent / directory)
        assert (outcome.exit_code, outcome.stdout) == (3, ""), directory
        assert "unknown:" in outcome.stderr


def test_one_directory_that_cannot_be_read_makes_the_answer_unknown(run):
    assert newest(run, run.parent / "unmounted/run").exit_code == 3


@pytest.mark.parametrize("arguments", [[], [""], ["a\0b"], ["--verify", "all", "."], ["--timeout", "0", "."], ["file"]])
def test_wrong_usage_ends_with_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert newest(*arguments).exit_code == 2


def test_the_whole_answer_is_there_as_json(run):
    put(run / "epoch_4.pt", b"PK cut off", minute=4)
    found = json.loads(newest("--json", run).stdout)
    assert (found["outcome"], found["path"], found["unknown"]) == ("found", f"{run}/epoch_3.pt", [])
    assert (found["checkpoint"]["epoch"], found["checkpoint"]["step"]) == (3, 300)
    assert [(each["path"], each["state"]) for each in found["skipped"]] == [(f"{run}/epoch_4.pt", "damaged")]
    outcome = newest("--json", run / "nowhere/at/all")
    found = json.loads(outcome.stdout)
    assert (outcome.exit_code, found["outcome"], found["path"], len(found["unknown"])) == (3, "unknown", None, 1)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_survives(name, tmp_path):
    name = os.fsdecode(name)
    put(tmp_path / "run" / name, torch_state(1, 100))
    assert json.loads(newest("--json", tmp_path / "run").stdout)["path"] == f"{tmp_path}/run/{name}"
    assert newest("-0", tmp_path / "run").stdout_bytes == os.fsencode(f"{tmp_path}/run/{name}\0")


def test_a_path_that_cannot_be_printed_is_no_fresh_start(run, ckptd_in_path):
    done = shell('ckptd newest "$1" > /dev/full; echo $?', run, env=ckptd_in_path)
    assert int(done.stdout) not in {0, 1}


@pytest.mark.parametrize("error", [RuntimeError("a bug"), MemoryError(), KeyboardInterrupt()])
def test_a_crash_of_the_command_ends_with_3(error, run, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(search, "decode", fail)
    outcome = newest(run)
    assert (outcome.exit_code, outcome.stdout) == (output.EXIT_UNKNOWN, "")


@pytest.mark.parametrize("ending", ["raise RuntimeError('a bug')", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_reader_that_dies_ends_with_3(ending, run, monkeypatch):
    monkeypatch.setattr(search, "find_newest", lambda *_: exec(ending, {"os": os}))
    outcome = newest(run)
    assert (outcome.exit_code, outcome.stdout) == (3, "")
    assert "unknown:" in outcome.stderr


def test_a_reader_that_hangs_is_given_up(run, monkeypatch):
    monkeypatch.setattr(search, "find_newest", lambda *_: time.sleep(3600))
    began = time.monotonic()
    outcome = newest("--timeout", "0.5", run)
    assert (outcome.exit_code, outcome.stdout) == (3, "")
    assert time.monotonic() - began < 30
    assert "did not answer within 0.5 s" in outcome.stderr


def test_a_reader_is_not_given_up_while_bytes_come(run, monkeypatch):
    def read_slowly(_directories, _level, _step, progress):
        for _ in range(8):
            time.sleep(0.25)
            progress()
        return {"chosen": None, "unknown": [], "skipped": [], "notes": [], "elsewhere": []}

    monkeypatch.setattr(search, "find_newest", read_slowly)
    assert newest("--timeout", "1", run).exit_code == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_dead_file_system_holds_up_no_script(run, ckptd_in_path):
    """A blocked process must not keep the pipe of `$(...)` either: the shell would wait for it."""
    script = 'CKPT=$(ckptd newest --timeout 1 "$@" 2>&1) || echo "status $?: $CKPT"'
    with hanging_file_system.mounted(run.parent / "dead") as is_mounted:
        if not is_mounted:
            pytest.skip("this system lets not even root mount FUSE")
        began = time.monotonic()
        for directories in ([run.parent / "dead"], [run.parent / "dead/run"], [run, run.parent / "dead/run"]):
            done = shell(script, *directories, env=ckptd_in_path)
            assert done.stdout.startswith("status 3: "), done
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("name", ["model.tar", "ck_0002.tar", "snap_3.t7"])
def test_a_file_of_torch_under_another_suffix_is_found(tmp_path, name):
    path = put(tmp_path / name, torch_state(3))
    found = newest(tmp_path)
    assert (found.exit_code, found.stdout) == (0, f"{path}\n")


def test_an_archive_of_files_is_no_checkpoint(tmp_path):
    put(tmp_path / "data.tar", b"a/b.txt".ljust(512, b"\0") + bytes(1024))
    assert newest(tmp_path).exit_code == 1


def test_stages_of_a_training_are_no_parts_of_one_checkpoint(tmp_path):
    for stage, epochs in ((1, 4), (2, 2)):
        for epoch in range(1, epochs + 1):
            last = put(tmp_path / f"stage{stage}_epoch{epoch}.pt", torch_state(epoch), stage * 10 + epoch)
    found = newest(tmp_path)
    assert (found.exit_code, found.stdout) == (0, f"{last}\n")


def test_an_older_copy_with_a_newer_date_is_not_taken_for_the_newest(run):
    put(run / "backup/epoch_2.pt", torch_state(2, 200), 9)
    outcome = newest(run)
    assert (outcome.exit_code, outcome.stdout) == (0, f"{run}/epoch_3.pt\n")
    assert "newer" in outcome.stderr


def test_of_a_directory_that_was_copied_without_its_dates_the_furthest_is_printed(tmp_path):
    for minute, epoch in ((1, 10), (1.02, 9), (1.01, 8)):
        put(tmp_path / f"copied/epoch_{epoch}.pt", torch_state(epoch, 100 * epoch), minute)
    assert newest(tmp_path / "copied").stdout == f"{tmp_path}/copied/epoch_10.pt\n"
