from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.model import CheckpointState, EndCause, Role
from ckptd.core.runs import lost_work
from ckptd.core.runs.lost_work import SavedWork
from ckptd.core.runs.lost_work_totals import LossTotal
from core.histories import at, attempt, saved

OWN = (attempt().job, 0)
OTHER = (attempt().job, 1)


@pytest.mark.parametrize(
    ("saves", "lost_minutes", "saved_minute"),
    [
        pytest.param([], 60, None, id="nothing was saved"),
        pytest.param([SavedWork(at(20)), SavedWork(at(50)), SavedWork(at(35))], 10, 50, id="the newest counts"),
        pytest.param([SavedWork(at(-5))], 60, None, id="an earlier attempt's save is not its own"),
        pytest.param([SavedWork(at(0))], 60, 0, id="a save at the very start"),
        pytest.param([SavedWork(at(60))], 0, 60, id="a save at the very end"),
        pytest.param(
            [SavedWork(at(30)), SavedWork(at(50), at(55))], 30, 30, id="what was removed before the end is no help"
        ),
        pytest.param([SavedWork(at(50), at(70))], 10, 50, id="what was removed later was there"),
        pytest.param([SavedWork(at(61), None, OWN)], 0, 61, id="its own processes finished a save after its end"),
        pytest.param(
            [SavedWork(at(50)), SavedWork(at(90), None, OWN)],
            10,
            50,
            id="the next attempt saved before a poll told that there is one",
        ),
        pytest.param(
            [SavedWork(at(61)), SavedWork(at(62), None, OTHER)], 60, None, id="somebody else's save after its end"
        ),
    ],
)
def test_lost_is_the_time_since_the_newest_usable_save(saves, lost_minutes, saved_minute):
    ended = replace(attempt(0, 60), node_count=2, cpu_count=8, gpu_count=3)
    loss = lost_work.measure_loss(ended, saves)
    seconds = lost_minutes * 60
    assert loss.lost == timedelta(minutes=lost_minutes)
    assert loss.saved_at == (None if saved_minute is None else at(saved_minute))
    assert (loss.node_seconds, loss.cpu_seconds, loss.gpu_seconds) == (seconds * 2, seconds * 8, seconds * 3)


@pytest.mark.parametrize("cause", list(EndCause))
def test_only_completed_work_is_not_lost(cause):
    loss = lost_work.measure_loss(attempt(0, 60, cause=cause), [])
    assert loss.lost == (timedelta(0) if cause is EndCause.COMPLETED else timedelta(hours=1))


@pytest.mark.parametrize(
    ("changes", "saves", "lost", "most"),
    [
        pytest.param({"is_located": False}, [], 0, 60, id="nobody knows where it saves"),
        pytest.param({"is_located": False}, [SavedWork(at(50))], 10, 10, id="a save of it was seen"),
        pytest.param({"is_followed": True, "read_at": at(55)}, [], 60, 60, id="it was read, and saved nothing"),
        pytest.param({"is_followed": True}, [], 0, 60, id="it was never read before the next attempt started"),
        pytest.param({"is_followed": True, "read_at": at(30)}, [], 0, 60, id="it was read for half of its time"),
        pytest.param(
            {"is_followed": True, "read_at": at(30)}, [SavedWork(at(20))], 0, 40, id="later saves may be gone"
        ),
        pytest.param({"is_followed": True, "read_at": at(30)}, [SavedWork(at(40))], 20, 20, id="a later save stayed"),
        pytest.param(
            {"is_followed": True, "read_at": at(55), "is_replaced": True},
            [SavedWork(at(50))],
            *(0, 10),
            id="the next attempt overwrote its file before it was read",
        ),
        pytest.param(
            {"is_followed": True, "read_at": at(55), "is_replaced": True},
            [SavedWork(at(57))],
            *(3, 3),
            id="the next attempt overwrote another file",
        ),
        pytest.param(
            {"is_followed": True, "read_at": at(60), "is_replaced": True},
            [SavedWork(at(50))],
            *(10, 10),
            id="it was read before the next attempt overwrote its file",
        ),
    ],
)
def test_what_is_not_known_is_a_bound(changes, saves, lost, most):
    ended = replace(attempt(0, 60), gpu_count=2)
    loss = lost_work.measure_loss(ended, saves, **changes)
    assert (loss.lost, loss.most) == (timedelta(minutes=lost), timedelta(minutes=most))
    assert loss.gpu_seconds == 2 * 60 * lost


def test_an_attempt_that_was_over_before_it_was_seen_may_have_saved_what_was_overwritten():
    unseen = replace(attempt(0, 60), first_seen_at=at(70))
    assert lost_work.measure_loss(unseen, []).lost == timedelta(hours=1)
    followed = lost_work.measure_loss(unseen, [], is_followed=True)
    assert (followed.lost, followed.most) == (timedelta(0), timedelta(hours=1))


def test_an_attempt_under_way_has_lost_nothing_that_could_be_told():
    with pytest.raises(ValueError, match="has not ended"):
        lost_work.measure_loss(attempt(), [])


def test_only_complete_checkpoints_are_saves():
    torn = saved(5, state=CheckpointState.DAMAGED)
    assert lost_work.list_saves([torn, saved(3, gone=9, role=Role.STATE)]) == (SavedWork(at(3), at(9)),)


def test_data_beside_states_save_no_work():
    state, sample = SavedWork(at(30)), SavedWork(at(59), is_state=False)
    assert lost_work.measure_loss(attempt(0, 60), [state, sample]).lost == timedelta(minutes=30)
    assert lost_work.measure_loss(attempt(0, 60), [sample]).lost == timedelta(minutes=1)


@given(st.lists(st.tuples(st.integers(-30, 90), st.none() | st.integers(-30, 90))))
def test_never_more_than_the_attempt_ran_nor_less_than_nothing(minutes):
    saves = [SavedWork(at(done), None if gone is None else at(gone)) for done, gone in minutes]
    loss = lost_work.measure_loss(attempt(0, 60), saves)
    assert timedelta(0) <= loss.lost <= timedelta(hours=1)
    assert loss == lost_work.measure_loss(attempt(0, 60), reversed(saves))


def test_totals_add_up():
    one = LossTotal(attempt_count=1, seconds=2, node_seconds=3, cpu_seconds=4, gpu_seconds=5)
    assert one + LossTotal() == one
    assert one + one == LossTotal(attempt_count=2, seconds=4, node_seconds=6, cpu_seconds=8, gpu_seconds=10)
