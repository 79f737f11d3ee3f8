"""Metrics of lost work: sums over the database, which do not reset when the daemon restarts.

Except for `other`: after a restart it may stand for other partitions or accounts, so it counts from the daemon's start.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from ckptd.core.runs.lost_work_totals import LossKey, LossTotal
from ckptd.metrics.bounded_names import BoundedNames
from ckptd.metrics.metric_families import OTHER, Labels, counters

NAMED_PARTITIONS = 12  # each has a series per cause and unit; some clusters have too many partitions
NAMED_ACCOUNTS = 6  # `ckptd report --by account` has all
REST = "`other` counts from the start of the daemon."
LATE = "A requeue counts up to an hour after the end, because accounting may correct its cause until then."

_UNITS = {
    "seconds": "",
    "node_seconds": ", multiplied by the nodes of the attempt",
    "cpu_seconds": ", multiplied by the CPUs of the attempt",
    "gpu_seconds": ", multiplied by the GPUs of the attempt",
}
_UNSAVED = "Unsaved work of ended attempts, since their newest usable checkpoint or start"
_REDONE = "Saved work that is computed again because later attempts did not resume from it"
_KNOWN = "of the attempts for which it is known"
_BY_END = "by the cause that ended the attempt that had saved it"
Split = Callable[[LossKey], Labels]


def collect_losses(
    losses: Mapping[LossKey, LossTotal],
    places: BoundedNames,
    accounts: BoundedNames,
    before: Mapping[LossKey, LossTotal] | None = None,
) -> Iterator[Metric]:
    """Yield the lost work since the first record; completed attempts lose none.

    The lower bounds of unsaved work are by cause and partition, those of both parts by account and cause, and all else
    by cause. `before` is the lost work when the daemon started, which `other` leaves out.
    """
    before = before or {}
    partitions = places.assign(_weigh(losses, lambda key: key.partition))

    def by_cause(key: LossKey) -> Labels:
        return (key.cause.value,)

    def by_partition(key: LossKey) -> Labels:
        return (key.cause.value, key.partition if key.partition in partitions else OTHER)

    for unit, factor in _UNITS.items():
        help_text = f"{_UNSAVED}{factor} (lower bound), by cause and partition. {LATE} {REST}"
        found = _sum(losses, unit, by_partition, before)
        yield counters(f"ckptd_lost_{unit}", help_text, ("cause", "partition"), found)
    for unit, factor in _UNITS.items():
        help_text = f"{_UNSAVED}{factor} (upper bound), by cause. {LATE}"
        yield counters(f"ckptd_lost_high_{unit}", help_text, ("cause",), _sum(losses, f"high_{unit}", by_cause))
    for unit, factor in _UNITS.items():
        help_text = f"{_REDONE}{factor} (lower bound), {_BY_END}. {LATE}"
        yield counters(f"ckptd_redone_{unit}", help_text, ("cause",), _sum(losses, f"redone_{unit}", by_cause))
    for unit, factor in _UNITS.items():
        help_text = f"{_REDONE}{factor} (upper bound, {_KNOWN}), {_BY_END}. {LATE}"
        yield counters(
            f"ckptd_redone_high_{unit}", help_text, ("cause",), _sum(losses, f"redone_high_{unit}", by_cause)
        )
    help_text = f"Ended attempts whose unsaved work is completely unknown, by cause. {LATE}"
    yield counters("ckptd_lost_unknown_attempts", help_text, ("cause",), _sum(losses, "unknown_count", by_cause))
    help_text = f"Ended attempts for which it was unknown whether their saved work is computed again, by cause. {LATE}"
    yield counters(
        "ckptd_redone_unknown_attempts", help_text, ("cause",), _sum(losses, "redone_unknown_count", by_cause)
    )
    yield from _collect_accounts(losses, accounts, before)


def _collect_accounts(
    losses: Mapping[LossKey, LossTotal], accounts: BoundedNames, before: Mapping[LossKey, LossTotal]
) -> Iterator[Metric]:
    named = accounts.assign(_weigh(losses, lambda key: key.account))
    lossy = {key: each for key, each in losses.items() if each.seconds or each.redone_seconds}

    def by_account(key: LossKey) -> Labels:
        return (key.account if key.account in named else OTHER, key.cause.value)

    for part, meaning in (("lost", _UNSAVED), ("redone", _REDONE)):
        for unit in ("node_seconds", "gpu_seconds"):
            field = unit if part == "lost" else f"redone_{unit}"
            help_text = f"{meaning}{_UNITS[unit]} (lower bound), by account and cause. {LATE} {REST}"
            name = f"ckptd_account_{part}_{unit}"
            yield counters(name, help_text, ("account", "cause"), _sum(lossy, field, by_account, before))


def _weigh(losses: Mapping[LossKey, LossTotal], name: Callable[[LossKey], str]) -> Mapping[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for key, total in losses.items():
        weights[name(key)] += total.node_seconds + total.redone_node_seconds
    return weights


def _sum(
    losses: Mapping[LossKey, LossTotal], field: str, split: Split, before: Mapping[LossKey, LossTotal] | None = None
) -> Mapping[Labels, float]:
    values: defaultdict[Labels, float] = defaultdict(float)
    for key, total in losses.items():
        labels = split(key)
        values[labels] += getattr(total, field)
        if before and OTHER in labels and key in before:
            values[labels] -= getattr(before[key], field)
    return values
