import mmap
import os
import shutil
import signal
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ckptd.checkpoints import formats
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.interface import DamagedError, Examination
from ckptd.checkpoints.scanning import inspection
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.model import CheckpointState, Level
from demo.patience import Deadline

DATA = Path(__file__).parents[1] / "data" / "formats"
LIMITS = ChildLimits(memory_bytes=256 << 20, seconds=2)
LATER = timedelta(hours=1)


def list_children():
    """Return the ids of all children of this process, those included that have ended and were not waited for."""
    return {number for task in Path("/proc/self/task").iterdir() for number in (task / "children").read_text().split()}


class Hostile:
    """A format whose files do to their reader what their names say."""

    name = "hostile"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory, reader):
        for file in directory.by_suffix.get("hostile", ()):
            yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim, reader, level):
        with reader.open(claim.path) as file:
            file.read()
        getattr(self, claim.path.partition(".")[0].rpartition("_")[2])()
        return Examination(epoch=7)

    def fine(self):
        pass

    def crash(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def unnamed(self):
        os.kill(os.getpid(), signal.SIGRTMIN + 1)

    def close(self):
        os.closerange(3, 64)
        time.sleep(60)

    def loop(self):
        while True:
            pass

    def hang(self):
        time.sleep(60)

    def balloon(self):
        bytearray(1 << 30)

    def leave(self):
        os._exit(3)

    def write(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"x")

    def descriptors(self):
        return [os.dup(0) for _ in range(1000)]

    def recurse(self):
        self.recurse()

    def damage(self):
        raise DamagedError("as it says itself")


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.setitem(formats.FORMATS, "hostile", Hostile())


def say_what_is_there(self, directory, reader):
    """Claim in the child, from where only a failure comes back as text."""
    raise ValueError(" ".join(sorted(directory.files)))


def look(root, **options):
    return inspect_tree(root, now=datetime.now(UTC) + LATER, limits=LIMITS, **options)


@pytest.mark.parametrize(
    ("deed", "state", "reason"),
    [
        ("fine", CheckpointState.COMPLETE, None),
        ("crash", CheckpointState.UNKNOWN, "ended by SIGKILL"),
        ("close", CheckpointState.UNKNOWN, "ended by SIGKILL"),
        ("unnamed", CheckpointState.UNKNOWN, f"ended by signal {signal.SIGRTMIN + 1}"),
        ("loop", CheckpointState.UNKNOWN, "s"),
        ("hang", CheckpointState.UNKNOWN, "did not finish within 2 s"),
        ("balloon", CheckpointState.UNKNOWN, "more memory"),
        ("leave", CheckpointState.UNKNOWN, "ended with status 3"),
        ("write", CheckpointState.UNKNOWN, "Operation not permitted"),
        ("descriptors", CheckpointState.UNKNOWN, "Too many open files"),
        ("recurse", CheckpointState.UNKNOWN, "nested too deeply"),
        ("damage", CheckpointState.DAMAGED, "as it says itself"),
    ],
)
def test_trouble_with_one_file_is_its_own_and_the_next_goes_on(hostile, tmp_path, deed, state, reason):
    for name in (f"1_{deed}.hostile", "2_fine.hostile"):
        (tmp_path / name).write_bytes(b"content")
    descriptors, children = set(os.listdir("/proc/self/fd")), list_children()
    found = {one.path.name: one for one in look(tmp_path).checkpoints}
    assert found[f"1_{deed}.hostile"].state is state
    assert (reason or "") in (found[f"1_{deed}.hostile"].reason or "")
    assert (found["2_fine.hostile"].state, found["2_fine.hostile"].epoch) == (CheckpointState.COMPLETE, 7)
    assert set(os.listdir("/proc/self/fd")) == descriptors
    assert list_children() == children


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("crash", "ended by SIGKILL"),
        ("loop", "s"),
        ("hang", "did not finish within 2 s"),
        ("balloon", "MemoryError"),
        ("leave", "ended with status 3"),
        ("write", "Operation not permitted"),
        ("descriptors", "Too many open files"),
        ("recurse", "RecursionError"),
    ],
)
def test_trouble_with_claiming_costs_that_format_in_that_directory_and_nothing_else(
    hostile, tmp_path, monkeypatch, deed, reason
):
    def claim(self, directory, reader):
        if "trap" in directory.files:
            getattr(self, deed)()
        return Hostile.claim_all(self, directory, reader)

    monkeypatch.setattr(Hostile, "claim_all", Hostile.claim, raising=False)
    monkeypatch.setattr(Hostile, "claim", claim)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1_fine.hostile").write_bytes(b"content")
        shutil.copy(DATA / "numpy" / "run_numpy" / "field_it0042.npy", tmp_path / name)
    (tmp_path / "b" / "trap").touch()
    descriptors, children = set(os.listdir("/proc/self/fd")), list_children()
    found = look(tmp_path)
    assert sorted(str(one.path.relative_to(tmp_path)) for one in found.checkpoints) == [
        "a/1_fine.hostile",
        "a/field_it0042.npy",
        "b/field_it0042.npy",
        "c/1_fine.hostile",
        "c/field_it0042.npy",
    ]
    (problem,) = found.problems
    assert problem.what == "b"
    assert problem.reason.startswith("could not be searched for hostile: ")
    assert reason in problem.reason
    assert set(os.listdir("/proc/self/fd")) == descriptors
    assert list_children() == children


def test_one_child_claims_and_examines_and_another_only_after_a_failure(hostile, tmp_path, monkeypatch):
    forks = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: ((pid := fork()) and forks.append(pid)) or pid)
    for name in ("1_fine.hostile", "3_fine.hostile"):
        (tmp_path / name).write_bytes(b"content")
    assert [one.epoch for one in look(tmp_path).checkpoints] == [7, 7]
    assert len(forks) == 1
    (tmp_path / "2_crash.hostile").write_bytes(b"content")
    found = {one.path.name: one.state for one in look(tmp_path).checkpoints}
    assert list(found.values()).count(CheckpointState.COMPLETE) == 2
    assert found["2_crash.hostile"] is CheckpointState.UNKNOWN
    assert len(forks) == 3


def test_what_did_not_change_is_not_opened_again(hostile, tmp_path, monkeypatch):
    for name in ("a_fine.hostile", "b_fine.hostile", "c_damage.hostile"):
        (tmp_path / name).write_bytes(b"content")
    first = look(tmp_path)
    (tmp_path / "b_fine.hostile").write_bytes(b"other content")
    examined = []
    monkeypatch.setattr(
        "ckptd.checkpoints.scanning.inspection.examine_in_child",
        lambda claims, *_, **__: examined.extend(claim.path for claim in claims) or iter([Examination()] * len(claims)),
    )
    second = look(tmp_path, known=first.checkpoints)
    assert sorted(examined) == ["b_fine.hostile", "c_damage.hostile"]
    assert {one.path.name: one.epoch for one in second.checkpoints}["a_fine.hostile"] == 7


def test_a_directory_that_did_not_change_is_not_even_claimed_again(hostile, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    for name in ("a_fine.hostile", "b_fine.hostile", "train.log"):
        (tmp_path / "run" / name).write_bytes(b"content")
    first = look(tmp_path)
    monkeypatch.setattr(Hostile, "claim", say_what_is_there)
    again = look(tmp_path, known=first.checkpoints)
    assert sorted(again.checkpoints, key=str) == sorted(first.checkpoints, key=str)
    assert [problem.reason.partition(": ")[2] for problem in again.problems] == [
        "ValueError: ",
        "ValueError: train.log",
    ]


def test_a_new_file_beside_known_ones_is_claimed_together_with_them(hostile, tmp_path, monkeypatch):
    (tmp_path / "a_fine.hostile").write_bytes(b"content")
    first = look(tmp_path)
    (tmp_path / "index.json").write_bytes(b"{}")
    monkeypatch.setattr(Hostile, "claim", say_what_is_there)
    again = look(tmp_path, known=first.checkpoints)
    assert [problem.reason.partition(": ")[2] for problem in again.problems] == [
        "ValueError: a_fine.hostile index.json"
    ]


def test_a_full_check_opens_again_what_was_looked_at_less_deeply(hostile, tmp_path):
    (tmp_path / "a_fine.hostile").write_bytes(b"content")
    first = look(tmp_path)
    assert (
        look(tmp_path, known=first.checkpoints, level=Level.FULL).checkpoints[0].reason == "no checksum in this format"
    )


def test_a_file_that_a_process_has_open_is_being_written_however_old_it_looks(tmp_path):
    path = tmp_path / "epoch_3.pt"
    path.write_bytes(b"PK\x03\x04 half of one")
    assert look(tmp_path).checkpoints[0].state is CheckpointState.DAMAGED
    with path.open("ab"):
        found = look(tmp_path).checkpoints[0]
    assert found.state is CheckpointState.WRITING
    assert "open for writing" in found.reason


def test_a_format_that_fails_on_a_directory_is_a_problem_of_it(hostile, tmp_path, monkeypatch):
    (tmp_path / "a_fine.hostile").write_bytes(b"content")
    monkeypatch.setattr(formats.FORMATS["torch"], "claim", lambda *_: 1 / 0, raising=False)
    found = look(tmp_path)
    assert [one.path.name for one in found.checkpoints] == ["a_fine.hostile"]
    assert "torch" in found.problems[0].reason


def test_links_stand_for_what_they_name(tmp_path, hostile):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a_fine.hostile").write_bytes(b"content")
    (tmp_path / "latest").symlink_to("run/a_fine.hostile")
    (tmp_path / "best.pt").symlink_to("run/gone.pt")
    (tmp_path / "data").symlink_to("/nowhere")
    (tmp_path / "last.pt").symlink_to("/etc/passwd")
    links = {link.path: link for link in look(tmp_path).links}
    assert sorted(links) == ["best.pt", "latest"]
    assert links["latest"].checkpoint.epoch == 7
    assert "run/gone.pt" in links["best.pt"].problem


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("huggingface_trainer", "no checksum in this format for model.safetensors"),
        ("saved-model", "no checksum in this format for saved_model.pb"),
        ("torch/run_epochs", None),
        ("safetensors", "no checksum in this format"),
    ],
)
def test_a_full_check_says_of_which_part_no_checksum_could_be_compared(tmp_path, path, reason):
    shutil.copytree(DATA / path, tmp_path / "copy")
    found = look(tmp_path, level=Level.FULL).checkpoints
    assert reason in {one.reason for one in found if one.state is CheckpointState.COMPLETE}


def test_an_array_in_a_codec_that_is_not_decoded_is_said_to_be_unchecked(tmp_path):
    shutil.copytree(DATA / "orbax" / "sharded" / "step_7", tmp_path / "step_7")
    metadata = tmp_path / "step_7" / "w" / "zarr.json"
    metadata.write_text(metadata.read_text().replace('"zstd"', '"lz77"'))
    (found,) = look(tmp_path, level=Level.FULL).checkpoints
    assert "lz77, which are not decoded here" in found.reason


def test_a_number_in_a_name_is_no_epoch_where_the_content_calls_it_a_step(tmp_path):
    shutil.copy(DATA / "torch" / "run_formats2" / "checkpoint_3000.pt", tmp_path / "checkpoint_3000.pt")
    (found,) = look(tmp_path).checkpoints
    assert (found.epoch, found.step, found.name_epoch) == (None, 3000, 3000)


@pytest.mark.parametrize(
    ("name", "epoch", "step"),
    [
        ("rl_model_50000_steps.pt", None, 50000),
        ("weights-10epochs.pt", 10, None),
        ("epoch_5_step_40.pt", 5, 40),
        ("3_epoch.pt", 3, None),
        ("val_0.5steps.pt", None, None),
    ],
)
def test_a_number_may_stand_before_its_word(name, epoch, step):
    said = checkpoint_names.parse_name(name, bare="epoch")
    assert (said.epoch, said.step) == (epoch, step)


def test_a_file_cannot_make_what_is_said_of_it_long(hostile, tmp_path, monkeypatch):
    def say_much(self):
        raise DamagedError("x" * 1_000_000)

    monkeypatch.setattr(Hostile, "damage", say_much)
    (tmp_path / "1_damage.hostile").write_bytes(b"content")
    (tmp_path / "checkpoint").write_bytes(b'model_checkpoint_path: "' + b"y" * 900_000 + b'"')
    (tmp_path / "latest").write_bytes(b"epoch_1" * 500)
    found = {one.path.name: one.reason for one in look(tmp_path).checkpoints}
    assert len(found["1_damage.hostile"]) == 1000
    assert found["checkpoint"] == "a text file, of no format that is known here"


def test_no_child_outlives_its_parent(hostile, tmp_path, monkeypatch):
    """The agent kills what misses its deadline; a loop in a reader must end with it."""
    told = mmap.mmap(-1, 8)  # shared with it; what else is open here is closed there

    def tell_and_hang(self):
        told[:] = os.getpid().to_bytes(8, "little")
        time.sleep(600)

    monkeypatch.setattr(Hostile, "hang", tell_and_hang)
    (tmp_path / "1_hang.hostile").write_bytes(b"content")
    parent = os.fork()
    if parent == 0:
        inspect_tree(tmp_path, now=datetime.now(UTC) + LATER, limits=ChildLimits(seconds=600))
        os._exit(0)
    until = Deadline(30)
    try:
        while not (child := int.from_bytes(told[:], "little")):
            assert not until.has_passed()
            time.sleep(0.01)
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
    while is_running(child):
        assert not until.has_passed()
        time.sleep(0.01)


def is_running(process):
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(("year", "shown"), [(10_000, 2262), (-500, 1677), (2300, 2262), (1980, 1980)])
def test_a_file_of_a_time_that_no_calendar_knows_hides_nothing(year, shown):
    """File systems in memory, ZFS and Lustre hold any second of 64 bits; what cannot hold it, takes the nearest."""
    source = DATA / "huggingface_shards/run_best/sharded_model/model-00001-of-00002.safetensors"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = Path(directory, "step_5.safetensors")
        shutil.copy(source, path)
        os.utime(path, ns=(0, int((year - 1970) * 365.2425 * 86400) * 10**9))
        (found,) = look(directory).checkpoints
    assert (found.modified_at.year, found.step) == (shown, 5)


def test_of_any_number_of_leftovers_the_newest_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "MAX_LEFTOVERS", 2)
    for number in (1, 4, 3, 2):
        path = tmp_path / f"step_{number}.safetensors.tmp"
        path.touch()
        os.utime(path, (number, number))
    assert sorted(look(tmp_path).leftovers) == ["step_3.safetensors.tmp", "step_4.safetensors.tmp"]
