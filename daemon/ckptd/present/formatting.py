"""Format values for people, identically in the terminal, on pages and in messages.

Also sanitises text written by users, so that it cannot start a new line, a header or a terminal command.
"""

from datetime import UTC, datetime, tzinfo

from ckptd.core.text import quantities

MAX_TEXT = 300
EXACT_FROM = 1e6  # numbers from here on are shown without an exponent
format_duration = quantities.format_duration  # plans of `core` name durations, too


def safe(value: object) -> str:
    """Escape invisible characters and invalid UTF-8 bytes in text written by users; shorten fractions."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < EXACT_FROM else f"{value:.12g}"
    text = str(value)
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    if character.isprintable():  # false for controls, direction marks, surrogates, line ends and blanks but the space
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"  # a byte that is not UTF-8
    return character.encode("unicode_escape").decode()


def clean(text: object, limit: int = MAX_TEXT) -> str:
    """Return text as one escaped line; shorten long text in the middle."""
    whole = str(text)
    shown = safe(whole if len(whole) <= 2 * limit else whole[:limit] + whole[-limit:])
    if len(shown) <= limit:
        return shown
    half = limit // 2 - 1
    return f"{shown[:half]}…{shown[-half:]}"


def format_instant(at: datetime, zone: tzinfo | None = UTC) -> str:
    """Format an instant in a time zone; None means this host's zone."""
    shown = at.astimezone(zone)
    return f"{shown:%Y-%m-%d %H:%M} {shown.tzname()}"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun: `1 flag`, `2,000 flags`; the plural is formed with an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number_job(job_id: int, array_job_id: int | None, array_task_id: int | None) -> str:
    """Return a job's id as Slurm's commands print it."""
    return str(job_id) if array_job_id is None or array_task_id is None else f"{array_job_id}_{array_task_id}"


def format_progress(value: float) -> str:
    """Format a step or an epoch, also a large one, without an exponent."""
    return f"{value:.12g}"


def format_likelihood(chance: float) -> str:
    """Put a probability in words, in the grades of the IPCC's guidance note on uncertainties (2010)."""
    grades = ((0.1, "very unlikely"), (1 / 3, "unlikely"), (2 / 3, "about as likely as not"), (0.9, "likely"))
    return next((word for limit, word in grades if chance < limit), "very likely")


def format_chance(chance: float) -> str:
    """Format a probability in percent; one that was estimated is never shown as 0 % or 100 %."""
    percent = round(chance * 100)
    if percent < 1:
        return "below 1 %"
    return f"{percent} %" if percent < 100 else "above 99 %"


def format_size(size_bytes: float | None) -> str:
    """Format a size in binary units: `3.2 GiB`."""
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        text = f"{size:.0f}" if unit == "B" else f"{size:.1f}"
        if abs(float(text)) < 1024:
            return f"{text} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"
