"""Describe a run's lost work, time limit and checkpoint interval, identically in the terminal and on pages.

The functions take rows of `models` and use only fields that users cannot write.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ckptd.core.model import Certainty
from ckptd.present.formatting import format_count, format_duration, format_instant, format_size
from ckptd.present.lost_work_parts import describe_redone

LEAST_TOLD = 360  # seconds; less than that would round to 0.0 or 0.1 h


def describe_loss(row: Mapping[str, Any]) -> str:
    """Describe the work that an attempt lost, in time and in node, CPU and GPU time; a dash while it is unknown."""
    if row["lost_seconds"] is None:
        return "-"
    parts = row.get("lost")
    redone = describe_redone(parts["redone"]) if parts else None
    rest = f"; {redone}" if redone else ""
    if parts and parts["unsaved"]["high_seconds"] > row["lost_seconds"]:
        return f"{_describe_bound(row['lost_seconds'], parts['unsaved']['high_seconds'])}{rest}"
    if not row["lost_seconds"]:
        return f"nothing unsaved{rest}" if redone else "nothing"
    shares = {"node": "lost_node_seconds", "CPU": "lost_cpu_seconds", "GPU": "lost_gpu_seconds"}
    work = _describe_work({unit: row[name] for unit, name in shares.items()})
    return f"{_duration(row['lost_seconds'])} unsaved{work}{'' if row['is_loss_final'] else ', not final'}{rest}"


def describe_refused_address(named: str, used: str) -> str:
    """Describe where mail goes because the site does not allow the address that a job names."""
    return f"mail about this run goes to {used}: [mail] allowed_domains does not allow {named}"


def describe_unrecognised(file: Mapping[str, Any]) -> str:
    """Describe the newest file of no known format; its path is a user's, so that the caller makes it safe to show."""
    return (
        f"ckptd found no checkpoint of a known format; the newest other file, {file['path']} "
        f"({format_size(file['size_bytes'])}), may be one"
    )


def describe_summed(summed: Mapping[str, Any]) -> str:
    """Describe the deleted checkpoints of which only sums are left."""
    count, size = format_count(summed["count"], "more deleted checkpoint"), format_size(summed["size_bytes"])
    first, last = format_instant(summed["first_seen_at"]), format_instant(summed["last_seen_at"])
    return f"{count} ({size}), first seen from {first} to {last}; only these sums are kept"


def describe_losses(lost: Mapping[str, Any]) -> str:
    """Describe the work that all ended attempts of a run lost."""
    work = _describe_work({unit: lost[f"{unit.lower()}_seconds"] for unit in ("node", "CPU", "GPU")})
    unsaved = f"{_duration(lost['seconds'])} unsaved{work}" if lost["seconds"] else "nothing unsaved"
    if lost.get("high_seconds", 0) > lost["seconds"]:
        unsaved = _describe_bound(lost["seconds"], lost["high_seconds"])
    redone = lost.get("redone")
    unknown_count = redone["unknown_count"] if redone else 0
    unknown = f"unknown for {format_count(unknown_count, 'attempt')} whether saved work is computed again"
    phrases = [unsaved, describe_redone(redone), unknown if unknown_count else None]
    return "; ".join(part for part in phrases if part)


def _describe_bound(low: int, high: int) -> str:
    """Say that work may be lost, where it is not known what was saved."""
    return f"{_duration(low)} to {_duration(high)} unsaved" if low else f"unknown, up to {_duration(high)} unsaved"


def _describe_work(seconds: Mapping[str, int]) -> str:
    phrases = [
        f"{count / 3600:,.1f} {unit}-hours" if count >= LEAST_TOLD else f"{count} {unit}-seconds"
        for unit, count in seconds.items()
        if count
    ]
    return f" ({', '.join(phrases)})" if phrases else ""


def describe_limit(at: Mapping[str, Any]) -> str | None:
    """Describe the work lost at a job's time limit, and what still fits before it; None while nothing is known."""
    said = []
    if at["will_be_lost_seconds"] is not None:
        more = format_count(at["saves_that_fit"], "more checkpoint") if at["saves_that_fit"] else "no more checkpoints"
        lost = _duration(at["will_be_lost_seconds"])
        said.append(f"if it runs until its time limit, about {lost} of work may be lost ({more} expected before then)")
    fitting = {"epoch": at["epochs_that_fit"], "step": at["steps_that_fit"]}
    unit = next((unit for unit, count in fitting.items() if count is not None), None)
    if unit is not None:
        fits = "fits" if fitting[unit] == 1 else "fit"
        said.append(f"{format_count(fitting[unit] or 0, unit)} {fits} between its newest checkpoint and the time limit")
    return "; ".join(said) or None


def describe_advice(advice: Mapping[str, Any] | None) -> str:
    """Recommend a checkpoint interval, and say whether it follows from counted interruptions or an assumption."""
    if advice is None:
        return "not known yet, because no scan has seen a checkpoint while it was being written"
    mean = _duration(advice["mean_time_between_interruptions_seconds"])
    size = "on one node" if advice["node_count"] <= 1 else f"on about {advice['node_count']} nodes"
    if advice["is_assumed"]:
        source = f"an assumption: no job {size} has ended yet"
    else:
        counted = format_count(advice["interruptions_counted"], "interruption")
        observed = _duration(advice["observed_seconds"])
        source = f"estimated from {counted} in {observed} of run time of jobs {size}, and a general assumption"
    return (
        f"about every {_duration(advice['interval_seconds'])}, and once before the time limit: saving takes "
        f"{_duration(advice['save_seconds'])}, and a job {size} is interrupted every {mean} on average ({source})"
    )


def _duration(seconds: int) -> str:
    return format_duration(timedelta(seconds=seconds))


def describe_comparison(compared: Mapping[str, Any]) -> str:
    """Return whether a copy has the content of its original, as far as a comparison of both has shown."""
    at, witness = format_instant(compared["compared_at"]), " by a job of the owner" if compared["is_by_owner"] else ""
    if compared["is_same"]:
        return f"{compared['path']} has the same content as {compared['original']} (compared {at}{witness})"
    file = compared["differing_file"]
    return f"{compared['path']} differs from {compared['original']} in {file} (compared {at}{witness})"


def describe_newest(newest: Mapping[str, Any]) -> str:
    """Return where the newest complete checkpoint is, and that another may be newer if a location could not be read."""
    sure = "" if newest["certainty"] == Certainty.PROVEN else " (not all locations could be read)"
    return f"{newest['path']}, saved {format_instant(newest['saved_at'])}{sure}"
