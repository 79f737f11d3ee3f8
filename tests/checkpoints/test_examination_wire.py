"""What a parser in a child says of checkpoints arrives as it was sent, and what is malformed harms nothing else."""

import json
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.formats.interface import Examination
from ckptd.checkpoints.scanning.examination import decode, encode, examine_in_child
from ckptd.core.model import CheckpointState, Level, Role

EVERYTHING = Examination(
    state=CheckpointState.DAMAGED,
    reason="it ends early",
    epoch=1.5,
    step=7,
    is_best=False,
    best_paths=("best.pt", "by_acc/best.pt"),
    metrics={"loss": 0.5},
    goal_epoch=3,
    goal_step=70,
    unsafe=("os.system",),
    has_checksum=True,
    unchecked="no checksum in this format for a.bin",
    role=Role.STATE,
    role_evidence="holds the state of an optimizer",
    is_result=True,
    continued_count=2,
    continued_from_step=5,
    computation="a b",
)


BLANK = Examination()
LARGE = {"best_paths": (), "metrics": {}, "unsafe": ()}  # what is as long as a file likes
SMALL = replace(EVERYTHING, **LARGE)
OTHERS = [
    BLANK,
    EVERYTHING,
    Examination(reason="", is_best=True),
    replace(EVERYTHING, epoch=1.0, step=0, metrics={"loss": 0.0}),
    replace(EVERYTHING, epoch=1, step=False, metrics={"loss": -0.0}),
]


@pytest.mark.parametrize("before", OTHERS)
@pytest.mark.parametrize("found", OTHERS)
def test_an_examination_arrives_as_it_was_sent_after_any_other(found, before):
    arrived = decode(json.loads(json.dumps(encode(found, before))), before)
    assert arrived == found
    assert (repr(arrived.epoch), repr(arrived.metrics)) == (repr(found.epoch), repr(found.metrics))


def test_every_field_of_an_examination_is_sent():
    assert encode(EVERYTHING, BLANK).keys() == {each.name for each in fields(Examination)}
    assert encode(BLANK, EVERYTHING).keys() == {each.name for each in fields(Examination)} - LARGE.keys()


def test_what_the_examination_before_has_as_well_is_not_sent():
    assert encode(replace(SMALL, step=8), SMALL) == {"step": 8}
    assert decode({}, SMALL) is SMALL


def test_what_may_be_large_is_sent_with_each_examination():
    """A child that sends it once must not make its parent copy it for each of 100,000 checkpoints."""
    assert encode(EVERYTHING, EVERYTHING).keys() == LARGE.keys()
    assert decode({}, EVERYTHING) == SMALL


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "fine"},
        {"state": []},
        {"role": None},
        {"step": "x"},
        {"metrics": 3},
        {"metrics": {"a": None}},
        {"unsafe": 1},
        {"best_paths": 1},
    ],
)
def test_a_malformed_examination_is_refused(wrong):
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        decode(encode(EVERYTHING, BLANK) | wrong, BLANK)


@pytest.mark.parametrize("wrong", [{"step": float("inf")}, {"metrics": {"loss": 10**400}}, {"state": "fine"}])
def test_a_malformed_answer_fails_only_its_claim(wrong):
    failures = []
    child = SimpleNamespace(step=0, failure="its answer is malformed", fail=failures.append)
    answers = iter([encode(EVERYTHING, BLANK), wrong])
    begun = SimpleNamespace(child=child, answers=answers, is_shared=False)
    claims = [None, None]
    first, second = examine_in_child(claims, None, Level.STRUCTURE, limits=ChildLimits(), begun=begun)
    assert first == EVERYTHING
    assert (second.state, second.reason) == (CheckpointState.UNKNOWN, "its answer is malformed")
    assert len(failures) == 1
