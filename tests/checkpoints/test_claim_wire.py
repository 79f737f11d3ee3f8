"""Claims arrive from a parser in a child as it made them, and only of files that its parent listed itself."""

import json
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.scanning import claiming
from ckptd.checkpoints.scanning.claiming import claim_in_child, claim_tree
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import list_tree

DATA = Path(__file__).parents[1] / "data" / "formats"
LIMITS = ChildLimits(memory_bytes=256 << 20, seconds=2)


def test_claims_arrive_from_the_child_as_they_were_made():
    """Every real file has its say, with metrics, markers, remarks and whole directories among what claims hold."""
    for root in sorted(path for path in DATA.iterdir() if path.is_dir()):
        with Reader(root) as reader:
            made, left = claim_tree(list_tree(root), reader)
            arrived, also_left = claim_in_child(list_tree(root), reader, limits=LIMITS)
        assert (arrived, also_left) == (made, left)


def test_a_claim_of_what_was_not_listed_is_refused(tmp_path):
    (tmp_path / "a.pt").touch()
    tree = list_tree(tmp_path)
    (claim,) = claim_tree(tree, Reader(tmp_path))[0]
    data = claiming.encode(claim, tree)
    for forged in ({"path": "../a.pt"}, {"path": "b.pt"}, {"format": "none"}, {"files": ["b.pt"]}, {"shape": "?"}):
        with pytest.raises((KeyError, ValueError)):
            claiming.decode({**data, **forged}, tree, {file.path: file for file in tree.walk_files()})


def test_the_plain_claims_of_a_directory_arrive_together(tmp_path):
    for name in ("ckpt_1.pt", "ckpt_2.pt", "ckpt_3_acc=0.5.pt", "best_4.pt", "a.npy", "epoch_5.pt"):
        (tmp_path / name).touch()
    tree = list_tree(tmp_path)
    made = claim_tree(tree, Reader(tmp_path))[0]
    answers = json.loads(json.dumps(list(claiming.encode_all(made, tree))))
    assert [type(each) for each in answers].count(list) < len(made)
    listed = list(tree.files.values())
    arrived = []
    for answer in answers:
        if isinstance(answer, list):
            arrived += claiming.decode_plain(answer, listed)
        else:
            arrived.append(claiming.decode(answer, tree, tree.files))
    assert arrived == made


@pytest.mark.parametrize(
    "forged",
    [
        ["torch", [1], [None], [None]],
        ["torch", [-1], [None], [None]],
        ["torch", [0.0], [None], [None]],
        ["torch", ["a.pt"], [None], [None]],
        ["torch", [True], [None], [None]],
        ["torch", [None], [None], [None]],
        ["torch", [0, 0], [None], [None, None]],
        ["torch", [0, 0], [None, None], [None, None]],
        ["torch", [0], ["x"], [None]],
        ["torch", [0], [None], [float("inf")]],
        ["torch", 0, [None], [None]],
        ["none", [0], [None], [None]],
        [["torch"], [0], [None], [None]],
        ["torch", [0], [None]],
        [],
    ],
)
def test_plain_claims_of_what_was_not_listed_are_refused(tmp_path, forged):
    (tmp_path / "a.pt").touch()
    listed = list(list_tree(tmp_path).files.values())
    with pytest.raises((TypeError, ValueError, OverflowError)):
        list(claiming.decode_plain(forged, listed))


def test_a_child_that_claims_files_again_and_again_fails(tmp_path):
    (tmp_path / "a.pt").touch()
    parent = claiming._Parent(list_tree(tmp_path))
    parent.begin_directory()
    parent.take(["torch", [0], [None], [None]])
    with pytest.raises(ValueError, match="more claims than files"):
        parent.take(["torch", [0], [None], [None]])
