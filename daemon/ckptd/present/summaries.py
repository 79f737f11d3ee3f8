"""What is said of a run's losses, limits and intervals, the same in the terminal and on pages.

Takes the rows of `models`; nothing in them that becomes part of a sentence here was written by users.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ckptd.core.text.formatting import format_count, format_duration

LEAST_TOLD = 360  # seconds, below which a tenth of an hour says nothing


def tell_loss(row: Mapping[str, Any]) -> str:
    """Say what an attempt lost, in time and times what it held; a dash while nobody knows."""
    if row["lost_seconds"] is None:
        return "-"
    if not row["lost_seconds"]:
        return "nothing"
    shares = {"node": "lost_node_seconds", "CPU": "lost_cpu_seconds", "GPU": "lost_gpu_seconds"}
    work = _tell_work({unit: row[name] for unit, name in shares.items()})
    return f"{_duration(row['lost_seconds'])}{work}{'' if row['is_loss_settled'] else ', so far as is known'}"


def tell_losses(lost: Mapping[str, int]) -> str:
    """Say what all attempts of a run lost that ended."""
    work = _tell_work({unit: lost[f"{unit.lower()}_seconds"] for unit in ("node", "CPU", "GPU")})
    return f"{_duration(lost['seconds'])}{work}" if lost["seconds"] else "nothing"


def _tell_work(seconds: Mapping[str, int]) -> str:
    told = [
        f"{count / 3600:,.1f} {unit} h" if count >= LEAST_TOLD else f"{count} {unit} s"
        for unit, count in seconds.items()
        if count
    ]
    return f" ({', '.join(told)})" if told else ""


def tell_limit(at: Mapping[str, Any]) -> str | None:
    """Say what a job's time limit would take, and what still fits before it; None while nothing is known."""
    said = []
    if at["will_be_lost_seconds"] is not None:
        more = format_count(at["saves_that_fit"], "more save")
        said.append(f"its limit would take {_duration(at['will_be_lost_seconds'])} of work, after {more}")
    fitting = {"epoch": at["epochs_that_fit"], "step": at["steps_that_fit"]}
    unit = next((unit for unit, count in fitting.items() if count is not None), None)
    if unit is not None:
        fits = "fits" if fitting[unit] == 1 else "fit"
        said.append(f"{format_count(fitting[unit] or 0, unit)} {fits} between its newest save and its limit")
    return "; ".join(said) or None


def tell_advice(advice: Mapping[str, Any] | None) -> str:
    """Say how often to save, and whether that rests on what was counted or on an assumption."""
    if advice is None:
        return "not known, for no save was seen being written yet"
    mean = _duration(advice["mean_time_between_interruptions_seconds"])
    size = "of one node" if advice["node_count"] <= 1 else f"of about {advice['node_count']} nodes"
    if advice["is_assumed"]:
        source = f"assumed: no job {size} has ended yet"
    else:
        counted = format_count(advice["interruptions_counted"], "interruption")
        source = f"{counted} in {_duration(advice['observed_seconds'])} of jobs {size}, and an assumption as one more"
    return (
        f"about every {_duration(advice['interval_seconds'])}, and once before a time limit: a save takes "
        f"{_duration(advice['save_seconds'])}, and such a job is interrupted every {mean} ({source})"
    )


def _duration(seconds: int) -> str:
    return format_duration(timedelta(seconds=seconds))
