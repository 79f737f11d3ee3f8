"""What a parser in a child says of checkpoints arrives as it was sent, and what is malformed harms nothing else."""

import json
from types import SimpleNamespace

import pytest

from ckptd.checkpoints.agent.limited_child import ChildLimits, ChildReporter, LimitedChild
from ckptd.checkpoints.formats.interface import Examination
from ckptd.checkpoints.scanning.examination import _Answers, decode, decode_all, encode, examine_in_child
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
SMALL = EVERYTHING._replace(**LARGE)
OTHERS = [
    BLANK,
    EVERYTHING,
    Examination(reason="", is_best=True),
    EVERYTHING._replace(epoch=1.0, step=0, metrics={"loss": 0.0}),
    EVERYTHING._replace(epoch=1, step=False, metrics={"loss": -0.0}),
]


@pytest.mark.parametrize("before", OTHERS)
@pytest.mark.parametrize("found", OTHERS)
def test_an_examination_arrives_as_it_was_sent_after_any_other(found, before):
    arrived = decode(json.loads(json.dumps(encode(found, before))), before)
    assert arrived == found
    assert (repr(arrived.epoch), repr(arrived.metrics)) == (repr(found.epoch), repr(found.metrics))


def test_every_field_of_an_examination_is_sent():
    assert encode(EVERYTHING, BLANK).keys() == {*Examination._fields}
    assert encode(BLANK, EVERYTHING).keys() == {*Examination._fields} - LARGE.keys()


def test_what_the_examination_before_has_as_well_is_not_sent():
    assert encode(SMALL._replace(step=8), SMALL) == {"step": 8}
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


def report(found):
    """Return the answers of a child that reports these examinations."""

    def work(teller: ChildReporter) -> None:
        answers = _Answers(teller)
        for number, each in enumerate(found):
            teller.begin(number, 5.0)
            answers.add(each)

    child = LimitedChild(work, ChildLimits(), lambda _: 5.0, [])
    try:
        return list(child.answers())
    finally:
        child.close()


def arrive(answers, most):
    arrived = []
    for answer in answers:
        arrived += decode_all(answer, arrived[-1] if arrived else BLANK, most - len(arrived))
    return arrived


def test_examinations_that_differ_in_epoch_and_step_alone_arrive_together():
    found = [SMALL._replace(epoch=[1, 1.0, None][at % 3], step=None if at % 7 == 0 else at) for at in range(1000)]
    answers = report(found)
    assert len(answers) < 10
    arrived = arrive(answers, len(found))
    assert arrived == found
    assert [repr(each.epoch) for each in arrived] == [repr(each.epoch) for each in found]


@pytest.mark.parametrize("other", [*OTHERS, SMALL._replace(goal_epoch=3.0), SMALL._replace(reason="it ends late")])
def test_those_before_and_after_another_one_arrive_in_order(other):
    alike = [SMALL._replace(step=at) for at in range(5)]
    found = [*alike, other, *alike, other, other, *alike]
    arrived = arrive(report(found), len(found))
    assert arrived == found
    assert [repr(each.goal_epoch) for each in arrived] == [repr(each.goal_epoch) for each in found]


@pytest.mark.parametrize(
    "wrong",
    [
        [], [[]], [[], []], [[1]], [[1], []], [[1], [1, 2]], [[1, 2, 3], [1, 2, 3]], [1, 2], [None, None],
        [["x"], [1]], [[1], ["x"]], [[1], [float("inf")]], [[1], [[1]]], [[1], [1], [1]],
    ],
)  # fmt: skip
def test_malformed_columns_are_refused(wrong):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        decode_all(wrong, BLANK, 2)
