"""The two parts of lost work: work that was not saved, and saved work that is computed again."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ckptd.core.model import Certainty
from ckptd.core.runs.lost_work import LedgerLine
from ckptd.present.formatting import format_duration

if TYPE_CHECKING:  # `ckptd show` starts without pydantic
    from ckptd.present.responses.run_documents import LostPartsDocument, RedoneTotalDocument

_SURE = {Certainty.PROVEN.value, Certainty.DECLARED.value}


def line_row(line: LedgerLine) -> "LostPartsDocument":
    """Return both parts of what one attempt lost, in seconds times its nodes, CPUs and GPUs."""
    loss, redone = line.loss, line.redone
    return {
        "unsaved": {
            "seconds": round(loss.lost.total_seconds()),
            "high_seconds": round(loss.most.total_seconds()),
            "node_seconds": round(loss.node_seconds),
            "cpu_seconds": round(loss.cpu_seconds),
            "gpu_seconds": round(loss.gpu_seconds),
        },
        "redone": {
            "certainty": redone.certainty,
            "low_seconds": _seconds(redone.low),
            "high_seconds": _seconds(redone.high),
            "low_node_seconds": _seconds(redone.low, line.node_count),
            "low_cpu_seconds": _seconds(redone.low, line.cpu_count),
            "low_gpu_seconds": _seconds(redone.low, line.gpu_count),
        },
    }


def sum_redone(lines: Iterable[LedgerLine]) -> "RedoneTotalDocument":
    """Return the bounds of the saved work that is computed again, summed over the attempts for which it is known."""
    found = list(lines)
    known = [(line, line.redone.low, line.redone.high) for line in found if line.redone.low is not None]
    return {
        "low_seconds": round(sum(low.total_seconds() for _, low, _ in known)),
        "high_seconds": round(sum(high.total_seconds() for _, _, high in known if high is not None)),
        "low_node_seconds": round(sum(low.total_seconds() * line.node_count for line, low, _ in known)),
        "low_cpu_seconds": round(sum(low.total_seconds() * line.cpu_count for line, low, _ in known)),
        "low_gpu_seconds": round(sum(low.total_seconds() * line.gpu_count for line, low, _ in known)),
        "unknown_count": len(found) - len(known),
    }


def describe_redone(redone: Mapping[str, Any] | None) -> str | None:
    """Say how much saved work is computed again; None if there is none, or if it is not known."""
    if redone is None or not redone["high_seconds"]:
        return None
    low, high = redone["low_seconds"], redone["high_seconds"]
    most = format_duration(timedelta(seconds=high))
    if not low:
        amount = f"up to {most}"
    elif low == high:
        amount = most if redone.get("certainty") in _SURE else f"about {most}"
    else:
        amount = f"{format_duration(timedelta(seconds=low))} to {most}"
    return f"{amount} of saved work computed again"


def _seconds(duration: timedelta | None, factor: int = 1) -> int | None:
    return None if duration is None else round(duration.total_seconds() * factor)
