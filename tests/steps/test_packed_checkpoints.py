"""Packed checkpoints read as the tuple that they were, in a tenth of its memory."""

from dataclasses import replace

import pytest

from ckptd.core.fleet import fleet_totals
from ckptd.core.model import Certainty, Resume, ResumeCandidate, ResumeReason, Role
from ckptd.steps import packed_checkpoints
from ckptd.steps.packed_checkpoints import PackedCheckpoints, last_modified_at, pack, roles_of, unpack
from core.histories import at, attempt, history, saved

SAVES = [saved(minute, step=minute * 10) for minute in range(64)]


def test_a_packed_history_reads_as_before():
    plain = history(now=70, checkpoints=SAVES)
    packed = pack(plain)
    assert isinstance(packed.checkpoints, PackedCheckpoints)
    assert pack(packed) is packed
    assert unpack(packed) == plain == unpack(plain)
    assert list(packed.checkpoints) == SAVES
    assert (len(packed.checkpoints), packed.checkpoints[-1], packed.checkpoints[:2]) == (
        64,
        SAVES[-1],
        tuple(SAVES[:2]),
    )
    assert fleet_totals.sum_up([packed], at(70)) == fleet_totals.sum_up([plain], at(70))


def test_what_an_attempt_may_have_loaded_is_packed_too():
    candidates = tuple(ResumeCandidate(f"/scratch/alice/run/step-{number}.pt", at(number)) for number in range(40))
    resume = Resume(certainty=Certainty.UNKNOWN, reason=ResumeReason.AMBIGUOUS, candidates=candidates)
    plain = history(now=70, attempts=[replace(attempt(), resumed_from=resume)], checkpoints=SAVES)
    packed = pack(plain)
    found = packed.attempts[0].resumed_from.candidates
    assert (found == candidates, found == candidates[1:]) == (True, False)
    assert (tuple(found), len(found), found[-1], found[:2]) == (candidates, 40, candidates[-1], candidates[:2])
    assert found.size_bytes < 40 * 20
    assert unpack(packed) == plain == packed
    assert pack(unpack(packed)) == packed == pack(packed)


def test_when_a_run_saved_last_and_what_is_known_without_unpacking(monkeypatch):
    weights = saved(75, role=Role.WEIGHTS)
    deleted = replace(saved(80, role=Role.STATE), deleted_at=at(90))
    plain = history(checkpoints=[*(saved(minute, role=Role.DATA) for minute in range(9)), weights, deleted])
    packed = pack(plain)
    monkeypatch.setattr(type(packed.checkpoints), "unpack", lambda _: pytest.fail("unpacked"))
    for each in (plain, packed):
        assert last_modified_at(each.checkpoints) == at(80)
        assert roles_of(each.checkpoints) == {Role.DATA, Role.WEIGHTS}
    assert last_modified_at(()) is None


def test_it_takes_little_memory(monkeypatch):
    monkeypatch.setattr(packed_checkpoints, "_dictionary", packed_checkpoints._Dictionary())
    found = [
        pack(history(checkpoints=[saved(minute, step=minute * 7 + run) for minute in range(64)])) for run in range(20)
    ]
    sizes = [each.checkpoints.size_bytes for each in found]
    assert max(sizes) < 64 * 150
    assert sizes[-1] < 64 * 25, "the ones before it are its dictionary"
    for run, each in enumerate(found):
        assert [known.checkpoint.step for known in each.checkpoints] == [minute * 7 + run for minute in range(64)]
