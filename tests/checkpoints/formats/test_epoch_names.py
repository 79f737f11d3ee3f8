from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptd.checkpoints.formats import checkpoint_names, keras_names
from ckptd.core.checkpoint_sets import group
from ckptd.core.model import Role
from support.checkpoints import make_checkpoint


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        ("best_model_5_acc=0.7383.pt", 5),
        ("best_model_12_val_loss=0.21.pt", 12),
        ("best_checkpoint_3_valid_f1=0.5.pt", 3),
        ("model_7_loss_0.33.pth", 7),
        ("ckpt-5-acc=0.73.pt", 5),
        ("model_epoch_2_step_40_loss=0.1.pt", 2),
        ("resnet_50_acc=0.7.pt", None),
        ("model_v2_acc=0.7.pt", None),
        ("model_acc=0.7.pt", None),
    ],
)
def test_the_number_before_a_measured_value_is_the_epoch_that_was_measured(name, epoch):
    assert checkpoint_names.parse_name(name).epoch == epoch


@pytest.mark.parametrize(
    ("name", "epoch"),
    [("1.ckpt", 1), ("012.ckpt", 12), ("03-0.85.h5", 3), ("03-1.35", 3), ("1", None), ("2.5.ckpt", None)],
)
def test_a_number_alone_is_the_epoch_of_a_keras_callback(name, epoch):
    assert keras_names.epoch_of_name(name) == epoch


def test_the_epoch_of_a_bare_number_is_shown_and_allows_no_pruning():
    """Folds and ensembles are called `1.ckpt`, too."""
    start = datetime(2026, 11, 22, tzinfo=UTC)
    found = [
        make_checkpoint(
            f"/run/{number}.ckpt",
            start + timedelta(hours=number),
            inode=number,
            format="tensorflow",
            role=Role.STATE,
            epoch=number,
            name_epoch=number,
        )
        for number in (1, 2, 3)
    ]
    made = group(found, (), root=PurePosixPath("/run"), unchanged_since_ns=2**62)
    assert [each.epoch for each in made] == [1, 2, 3]
    assert all(each.grouping.doubt for each in made)


PIECES = [
    "epoch",
    "epochs",
    "EPOCHS",
    "epoch\u017f",
    "Ep",
    "e",
    "E",
    "_",
    "-",
    "=",
    ".",
    "0",
    "12",
    "x",
    "max_",
    "step",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@settings(max_examples=1000)
def test_no_epoch_is_passed_over_because_the_hint_of_one_is_missing(name):
    found = any(pattern.search(name) for pattern in checkpoint_names._EPOCHS)
    assert not found or checkpoint_names._EPOCH_HINT.search(name)
