"""Formats the evidence of a flag for people, identically on pages and in messages."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from ckptd.core.model import Evidence
from ckptd.present.formatting import clean, format_chance, format_duration, format_instant, format_size
from ckptd.present.labels import label_of

LONG_FROM = 1000  # fractions of smaller numbers are shortened; larger ones are steps, and shown whole


def format_evidence(rule: str, evidence: Mapping[str, Evidence], zone: tzinfo | None = UTC) -> list[tuple[str, str]]:
    """Return the label and the formatted value of each piece of evidence; unknown ones are left out."""
    labelled = [(label_of(rule, name), name, value) for name, value in list(evidence.items())[:30]]
    return [
        (clean(label, 60), _format(name, value, zone))
        for label, name, value in labelled
        if label is not None and value is not None and value != [] and not _is_spare(name, value)
    ]


def _is_spare(name: str, value: Evidence) -> bool:
    """Return whether the value is time that a job does not lack."""
    return name == "missing_seconds" and isinstance(value, (int, float)) and value <= 0


def name_flagged_job(job_id: int | None, evidence: Mapping[str, Evidence]) -> str | None:
    """Return the job of a flag as Slurm's commands name it, such as `23_7`; None if the flag is about no single job.

    The id of an array's last task is that of the array: `scancel 23` would cancel all of its tasks.
    """
    if job_id is None:
        return None
    return clean(evidence.get("slurm_job") or job_id, 60)


def _format(name: str, value: Evidence, zone: tzinfo | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        shown = ", ".join(clean(each, 100) for each in value[:10])
        return shown + (f" and {len(value) - 10} more" if len(value) > 10 else "")
    if isinstance(value, (int, float)):
        return _format_number(name, value)
    if name.endswith("_at"):
        try:
            return format_instant(datetime.fromisoformat(str(value)), zone)
        except ValueError:
            return clean(value)
    return clean(value)


def _format_number(name: str, value: float) -> str:
    if name.endswith("_seconds"):
        return format_duration(timedelta(seconds=value))
    if name.endswith("_bytes"):
        return format_size(value)
    if name == "chance":
        return format_chance(value)
    if name == "share":
        return f"{100 * value:.0f} %"
    if name.endswith("_uid") or name == "ended_job":  # numbers that are identifiers
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < LONG_FROM else f"{value:,.12g}"
