"""Chooses among several checkpoints that are marked as best: by a metric that all of them state; without one, all stay.

A program that names its files `best-epoch=2-val_acc=0.91` marks each one that was the best when it was saved. The last
of them need not be the best of all.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest

from ckptd.core.model import Checkpoint
from ckptd.core.runs.improvement import is_in_name

_NAMES_EACH = "lightning"
_WORD = re.compile(r"f1|[a-z]+|[0-9]+")
_HIGHER = frozenset(["acc", "accuracy", "f1", "auc", "auroc", "bleu"])
_LOWER = frozenset(["loss", "error", "err", "ppl", "perplexity", "mae", "mse", "rmse"])
_SCORE = "score"  # of `f1_score` more is better, of `fid_score` less, of `mse_score` it depends on the library
_HELD_OUT = frozenset(["val", "valid", "validation", "eval", "evaluation", "dev", "test", "best"])
_SUMMED = frozenset(["avg", "average", "mean", "total", "macro", "micro", "weighted", "balanced", "top", "epoch"])
_PARTS = frozenset(["train", "training", "cross", "entropy", "ce", "bce", "nll", "token", "word", "char", "seg", "cls"])
_KNOWN = frozenset([_SCORE]) | _HIGHER | _LOWER | _HELD_OUT | _SUMMED | _PARTS


def choose(marked: Sequence[Checkpoint], count: int) -> Mapping[int, str]:
    """Return the places of those that stay, with the reason; the order is the oldest first.

    Where several metrics rank them all, the best by each stay. Of equal ones the newer stays. Lightning's are not
    ranked: each of its callbacks names one, by a metric of its own.
    """
    if len(marked) < 2 or all(each.format == _NAMES_EACH for each in marked):
        return dict.fromkeys(range(len(marked)), "the format's marker names it as the best")
    found: dict[int, str] = {}
    for metric, sign in _list_metrics(marked):
        values = ((sign * each.metrics[metric], place) for place, each in enumerate(marked))
        for _, place in nlargest(count, values):
            found.setdefault(place, f"best {count} by {metric} of those that are marked as best")
    if found:
        return found
    return dict.fromkeys(range(len(marked)), "marked as best, and no metric tells which of several is the best")


def _list_metrics(marked: Sequence[Checkpoint]) -> Sequence[tuple[str, int]]:
    """Return the metrics that rank all of them, each with the sign of its better direction; none if that is unclear.

    What the names state is what the program chose by. Without that, only a metric on held-out data can be it.
    """
    named = {name for each in marked for name in each.metrics if is_in_name(name, each)}
    if named:
        known = [(name, sign) for name in sorted(named) if (sign := _read_direction(name, marked))]
        return known if len(known) == len(named) and _is_stated(named, marked) else ()
    common = set.intersection(*(set(each.metrics) for each in marked))
    known = [
        (name, sign)
        for name in sorted(common)
        if (sign := _read_direction(name, marked)) and not _HELD_OUT.isdisjoint(_WORD.findall(name.lower()))
    ]
    return known if _is_stated((name for name, _ in known), marked) else ()


def _is_stated(metrics: Iterable[str], marked: Sequence[Checkpoint]) -> bool:
    return all(math.isfinite(each.metrics.get(metric, math.nan)) for metric in metrics for each in marked)


def _read_direction(metric: str, marked: Sequence[Checkpoint]) -> int:
    """Return 1 if more is better, -1 if less is, 0 if unknown: any word that is not known may turn it round.

    So may a sign: Ignite chooses by scores, of which more is better, and writes the loss as `val_loss=-0.74`.
    """
    if any(each.metrics.get(metric, 0.0) < 0 for each in marked):
        return 0
    words = {word for word in _WORD.findall(metric.lower()) if not word.isdecimal()}
    is_higher, is_lower = not words.isdisjoint(_HIGHER), not words.isdisjoint(_LOWER)
    if is_higher is is_lower or not words <= _KNOWN or (is_lower and _SCORE in words):
        return 0
    return 1 if is_higher else -1
