"""A checkpoint that is put into a group stays the same in everything else."""

from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import Checkpoint, CheckpointState, Grouping, Level, Role


def test_a_checkpoint_in_a_group_differs_in_its_grouping_only():
    found = Checkpoint(
        path=PurePosixPath("/runs/a/step_7.pt"),
        format="torch",
        files=("step_7.pt",),
        identities=(),
        size_bytes=1,
        modified_at=datetime(2026, 1, 1, tzinfo=UTC),
        state=CheckpointState.COMPLETE,
        level=Level.STRUCTURE,
        role=Role.STATE,
    )
    # every field has a value of its own, so that none can be left out or taken for another
    found = replace(found, **{each.name: (each.name,) for each in fields(found) if each.name != "grouping"})
    grouping = Grouping(series="step_#.pt", progress=(7,))
    made = found.in_group(grouping)
    assert made == replace(found, grouping=grouping)
    assert type(made) is Checkpoint
    with pytest.raises(FrozenInstanceError):
        made.step = 3
    assert found.grouping == Grouping()
