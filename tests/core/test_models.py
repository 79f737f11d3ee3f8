from ckptd.core.model import EndCause
from ckptd.core.runs import lost_work
from ckptd.core.runs.lost_work import LedgerLine
from ckptd.present.models import run_view
from core.histories import at, attempt, history


def line(ended):
    return LedgerLine(
        attempt=(ended.job, ended.restart_count),
        user="alice",
        account="lab",
        partition="gpu",
        cause=EndCause.REQUEUE,
        ended_at=ended.ended_at,
        loss=lost_work.measure_loss(ended, ()),
        is_final=True,
    )


def test_attempts_that_are_not_told_one_by_one_are_counted_and_what_they_lost_is_in_the_sum():
    first, second = (attempt(10 * number, 10 * number + 5, restart_count=number) for number in range(2))
    view = run_view(history(attempts=[second]), (), at(20), [line(first), line(second)])
    assert (len(view["attempts"]), view["earlier_attempt_count"], view["lost"]["seconds"]) == (1, 1, 600)
    assert run_view(history(attempts=[first, second]), (), at(20), [line(first)])["earlier_attempt_count"] == 0
