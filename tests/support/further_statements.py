"""What is asked of the database once for a message, a removal, a report or a day."""

from collections.abc import Callable
from datetime import timedelta

from ckptd.core.notices.delivery import SendOutcome, SendResult
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.core.runs.observations import TALLY_AGE
from ckptd.store.store import Store
from support.hot_call import HotCall
from support.recorded_year import NOW, RecordedYear

MINUTE, DAY, WEEK = timedelta(minutes=1), timedelta(days=1), timedelta(days=7)
CLUSTERS = ("alpha", "beta")
LAST_SUMMED = (NOW - 2 * DAY).date()


def sum_up_days(store: Store) -> None:
    """Sum up each day, as the daemon does once a day."""
    for cluster in CLUSTERS:
        for day in store.summed_days.list_missing(cluster, LAST_SUMMED):
            store.summed_days.sum_up(cluster, day)


def list_further_calls(year: RecordedYear, a_day: int, calls: Callable[..., list[HotCall]]) -> list[HotCall]:
    keys = year.list_newest(20)
    sums = max(1000, year.job_count // 6)  # rows of day_sums: a few of the attempts of a day are alike
    return [
        *calls(
            "send",
            1000,
            message=_send,
            drop=lambda store: store.claims.drop_undelivered("alpha", ["mail"], NOW, 15 * MINUTE),
        ),
        *calls(
            "scan",
            100,
            settled=lambda store: store.settled_scans.read(keys),
        ),
        *calls(
            "show",
            100,
            refused=lambda store: store.notices.list_refused_addresses(keys[0]),
            settings=lambda store: store.runs.has_retention_settings(keys[0]),
        ),
        *calls("prune", 100, links=lambda store: store.mentions.read_links([key.uid for key in keys])),
        *calls("prune", year.active_count, directories=lambda store: store.jobs.read_directories("alpha")),
        *calls(
            "report",
            8 * a_day,
            by_user=lambda store: store.lost_work_sums.sum_by(GroupedBy.USER, NOW - WEEK),
            by_rule=lambda store: store.lost_work_sums.sum_by(GroupedBy.RULE, NOW - WEEK),
        ),
        *calls(
            "publish",
            max(sums, 4 * a_day),
            old=lambda store: store.lost_work_sums.sum_by_day("alpha", last=LAST_SUMMED),
        ),
        *calls(
            "show", max(sums, 4 * a_day), ends=lambda store: store.restart_state.read_ends("alpha", NOW - TALLY_AGE)
        ),
        *calls(
            "expire",
            2 * a_day,
            missing=lambda store: store.summed_days.list_missing("alpha", LAST_SUMMED),
            sum_up=lambda store: store.summed_days.sum_up("alpha", LAST_SUMMED),
        ),
    ]


def _send(store: Store) -> None:
    """Claim a message, count what it is about, put it off, and record its notices a second time."""
    claim = store.claims.take("alpha", ["mail"], NOW, timedelta(minutes=5))
    assert claim is not None
    store.outbox.read_notified({notice.topic for notice in claim.notices})
    store.topic_counts.read(claim.notices)
    store.claims.finish(claim, SendOutcome(result=SendResult.DEFERRED), NOW)
    store.outbox.record(claim.notices)
