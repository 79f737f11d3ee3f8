"""Packed checkpoints read as the tuple that they were, in a tenth of its memory."""

from ckptd.core.fleet import fleet_totals
from ckptd.steps.packed_checkpoints import is_packed, pack, unpack
from core.histories import at, history, saved

SAVES = [saved(minute, step=minute * 10) for minute in range(64)]


def test_a_packed_history_reads_as_before():
    plain = history(now=70, checkpoints=SAVES)
    packed = pack(plain)
    assert is_packed(packed)
    assert not is_packed(unpack(packed))
    assert unpack(packed) == plain == unpack(plain)
    assert list(packed.checkpoints) == SAVES
    assert (len(packed.checkpoints), packed.checkpoints[-1], packed.checkpoints[:2]) == (
        64,
        SAVES[-1],
        tuple(SAVES[:2]),
    )
    assert fleet_totals.sum_up([packed], at(70)) == fleet_totals.sum_up([plain], at(70))


def test_it_takes_little_memory():
    assert pack(history(checkpoints=SAVES)).checkpoints.size_bytes < 64 * 150
