"""The checkpoint that a marker names is known as the newest, whatever format it has, also when the marker changes."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from checkpoints.recognising import recognise
from ckptd.checkpoints.formats import marker as markers
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import list_tree
from support import checkpoint_bytes

LATER = datetime.now(UTC) + timedelta(hours=1)


def write(root, *names):
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(checkpoint_bytes.torch_state(step=number))


def list_newest(found):
    return {str(path) for path, each in found.items() if each.is_newest}


@pytest.mark.parametrize(
    ("marker", "text", "names", "newest"),
    [
        ("last_checkpoint", "model_0024999.pth", ["model_0024999.pth", "model_0029999.pth"], {"model_0024999.pth"}),
        ("last_checkpoint", "/data/run/epoch_5.pth\n", ["epoch_5.pth", "epoch_6.pth"], {"epoch_5.pth"}),
        ("last_checkpoint", f"/{'data/' * 60}epoch_5.pth", ["epoch_5.pth", "epoch_6.pth"], {"epoch_5.pth"}),
        (
            "last_checkpoint",
            "/data/ckpts/epoch_5.pth",
            ["ckpts/epoch_5.pth", "ckpts/epoch_6.pth"],
            {"ckpts/epoch_5.pth"},
        ),
        ("latest", "step_5", ["step_5/a.pt", "step_5/b/c.pt", "step_50/a.pt"], {"step_5/a.pt", "step_5/b/c.pt"}),
        ("latest", "epoch_5.pt", ["epoch_5.pt", "epoch_6.pt"], {"epoch_5.pt"}),
        (
            "latest_checkpointed_iteration.txt",
            "5",
            ["global_step_5/a.pt", "global_step_6/a.pt"],
            {"global_step_5/a.pt"},
        ),
        ("latest", "ckpts", ["ckpts/epoch_5.pt", "ckpts/epoch_6.pt"], set()),
        ("latest", "run_7", ["run_7/epoch_5.pt", "run_7/epoch_6.pt"], set()),
        ("last_checkpoint", "../epoch_5.pth", ["epoch_5.pth"], set()),
        ("last_checkpoint", "", ["epoch_5.pth"], set()),
        ("last_checkpoint", "x" * 5000, ["epoch_5.pth"], set()),
    ],
)
def test_what_a_marker_names_is_the_newest(tmp_path, marker, text, names, newest):
    write(tmp_path, *names)
    (tmp_path / marker).write_text(text)
    assert list_newest(recognise(tmp_path)) == newest


@pytest.mark.parametrize("name", ["global_step_{}/actor/model.pt", "epoch_{}/model.pt"])
def test_a_marker_that_is_set_back_or_deleted_counts_where_files_are_not_read_again(tmp_path, name):
    write(tmp_path, *(name.format(number) for number in (1, 2, 3)))
    is_verl = name.startswith("global")
    marker = tmp_path / ("latest_checkpointed_iteration.txt" if is_verl else "latest")
    found = ()
    for number in (3, 2):
        marker.write_text(str(number) if is_verl else f"epoch_{number}")
        found = inspect_tree(tmp_path, now=LATER, known=found).checkpoints
        assert list_newest({each.path: each for each in found}) == {str(tmp_path / name.format(number).split("/")[0])}
    os.remove(marker)
    assert not any(each.is_newest for each in inspect_tree(tmp_path, now=LATER, known=found).checkpoints)


class CountingPattern:
    def __init__(self, pattern):
        self.pattern = pattern
        self.call_count = 0

    def __getattr__(self, name):
        self.call_count += 1
        return getattr(self.pattern, name)


def test_a_note_that_names_hundreds_of_files_is_not_compared_with_each_of_them(tmp_path, monkeypatch):
    names = [f"{first}{second}{third}1" for first in "abcdefgh" for second in "abcdefgh" for third in "abcdefgh"]
    for name in names:
        (tmp_path / name).touch()
    for letter in "abcd":
        (tmp_path / f"best_{letter}.txt").write_text(" ".join(names))
    counting = CountingPattern(markers._DIGITS)
    monkeypatch.setattr(markers, "_DIGITS", counting)
    tree = list_tree(tmp_path)
    with Reader(tmp_path) as reader:
        assert not markers.find_named(tree, reader)
    assert len(names) < counting.call_count < 20 * len(names)


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_a_note_that_is_no_regular_file_names_nothing(tmp_path, kind):
    write(tmp_path, "run/epoch_5.pth", "run/epoch_6.pth")
    (tmp_path / "note").write_text("epoch_5.pth")
    note = tmp_path / "run/best.txt"
    os.mkfifo(note) if kind == "fifo" else note.symlink_to("../note")
    assert not any(each.is_listed for each in inspect_tree(tmp_path, now=LATER).checkpoints)
