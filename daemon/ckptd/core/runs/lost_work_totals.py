"""Adds up lost work over many attempts, with its bounds and the number of attempts about which nothing is known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

from ckptd.core.model import EndCause

NO_RULE = ""  # in totals by rule: attempts about which no rule opened a flag
RULES_ABOUT_THE_ATTEMPT_BEFORE = frozenset({"restarted-without-checkpoint", "checkpoints-not-located", "not-resuming"})


class GroupedBy(StrEnum):
    """By what totals of lost work can be grouped."""

    USER = "user"
    ACCOUNT = "account"
    PARTITION = "partition"
    CAUSE = "cause"
    RULE = "rule"
    CLUSTER = "cluster"


class LossKey(NamedTuple):
    """By what totals are grouped in metrics and over days."""

    cause: EndCause
    partition: str
    account: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossTotal:
    """Sums over ended attempts, in seconds, and in seconds times the nodes, CPUs and GPUs of each attempt.

    Without a prefix: unsaved work, at least; `high_`: unsaved work, at most. `redone_`: saved work that is computed
    again, at least; `redone_high_`: at most, over the attempts of which it is known. The counts of unknown attempts
    are those of which nothing can be said: all or nothing of their time may have been unsaved, or redone.
    """

    attempt_count: int = 0
    seconds: float = 0.0
    node_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    high_seconds: float = 0.0
    high_node_seconds: float = 0.0
    high_cpu_seconds: float = 0.0
    high_gpu_seconds: float = 0.0
    redone_seconds: float = 0.0
    redone_node_seconds: float = 0.0
    redone_cpu_seconds: float = 0.0
    redone_gpu_seconds: float = 0.0
    redone_high_seconds: float = 0.0
    redone_high_node_seconds: float = 0.0
    redone_high_cpu_seconds: float = 0.0
    redone_high_gpu_seconds: float = 0.0
    unknown_count: int = 0  # attempts of whose unsaved work nothing is known
    redone_unknown_count: int = 0

    def __add__(self, other: "LossTotal") -> "LossTotal":
        return LossTotal(
            **{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(LossTotal)}
        )


def add_up(parts: Iterable[Mapping[LossKey, LossTotal]]) -> dict[LossKey, LossTotal]:
    """Return the sums over several parts, a day each for example."""
    result: dict[LossKey, LossTotal] = {}
    for part in parts:
        for key, total in part.items():
            result[key] = result.get(key, LossTotal()) + total
    return result


def never_less(before: Mapping[LossKey, LossTotal], after: Mapping[LossKey, LossTotal]) -> dict[LossKey, LossTotal]:
    """Return `after` with no number lower than before: Prometheus takes a decreasing counter for one that was reset."""
    return {key: _greater(before.get(key, LossTotal()), after.get(key, LossTotal())) for key in {**before, **after}}


def _greater(one: LossTotal, other: LossTotal) -> LossTotal:
    return LossTotal(
        **{each.name: max(getattr(one, each.name), getattr(other, each.name)) for each in fields(LossTotal)}
    )
