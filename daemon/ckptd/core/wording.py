"""Values as people read them, the same in the terminal and on pages."""

from datetime import timedelta


def safe(value: object) -> str:
    """Make text that users wrote harmless to show: control characters and broken UTF-8 become escapes."""
    if value is None:
        return "-"
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(value)
    )


def format_count(count: int, noun: str) -> str:
    """Say how many there are: `1 flag`, `2,000 flags`; the noun makes its plural with an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_duration(duration: timedelta | None) -> str:
    """Say a duration in its two largest units: `2d 3h`, `5m 12s`."""
    if duration is None:
        return "-"
    seconds = int(duration.total_seconds())
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    told = [f"{count}{unit}" for count, unit in parts if count][:2]
    return " ".join(told) or "0s"


def format_size(size_bytes: int | None) -> str:
    """Say a size in binary units: `3.2 GiB`."""
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"
