"""Checks of the values in requests: types and bounds."""

import math
from collections.abc import Callable
from typing import Any

MAX_PATH_BYTES = 4096
MAX_NAMES = 1_000_000  # a list in one item, such as the files of one checkpoint
MAX_PLACES = 100_000  # a list of directories in one item
MAX_NAME = 255  # characters of such a name
MAX_TEXT = 65_536
TICKET_LENGTH = 16
_LARGEST_UID = 2**32 - 2  # the next one means "no user" to the kernel

Check = Callable[[Any], bool]


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return is_whole(value)  # JSON allows whole numbers that no float can hold


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME


def is_ticket(value: Any) -> bool:
    """Whether a value names a ticket: with any other character, squeue would find other jobs, and scancel end them."""
    return isinstance(value, str) and len(value) == TICKET_LENGTH and set(value) <= set("0123456789abcdef")


def is_job_id(value: Any) -> bool:
    return is_whole(value) and 0 < value < 2**32


def is_path(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_PATH_BYTES and "\0" not in value


def are_owned_paths(value: Any) -> bool:
    """Return whether a value is a list of directories, each with the uid of a user."""
    return isinstance(value, list) and len(value) <= MAX_PLACES and all(map(is_owned_path, value))


def is_owned_path(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    path, uid = value
    return is_path(path) and is_uid(uid)


def is_uid(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= _LARGEST_UID


def is_known(value: Any) -> bool:
    return isinstance(value, list)


def is_candidate(value: Any) -> bool:
    """Whether a value is a candidate of a search: where it is named, its primary location, and copies."""
    return isinstance(value, list) and 2 <= len(value) <= MAX_PLACES and all(map(is_text, value))


def is_identity(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 5 and all(isinstance(number, int) for number in value)


def is_origin(value: Any) -> bool:
    """Whether the value has the holds of an entry; its other fields are checked when they are decoded."""
    is_hold = or_none(lambda hold: is_number(hold) and hold >= 0)
    return isinstance(value, dict) and all(is_hold(value.get(name, "")) for name in ("hold", "no_room_hold"))


def is_release(value: Any) -> bool:
    shape = {
        "held_before": is_number,
        "now": or_none(is_number),
        "is_short_of_space": is_flag,
        "clock_tolerance": or_none(lambda tolerance: is_number(tolerance) and tolerance >= 0),
    }
    return isinstance(value, dict) and value.keys() == shape.keys() and all(shape[name](value[name]) for name in shape)


def is_turn(value: Any) -> bool:
    """Whether the value says where a turn continues, how many entries it may process, and for how many seconds."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    after, limit, seconds = value
    return or_none(is_text)(after) and or_none(is_whole)(limit) and or_none(is_number)(seconds)


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def list_of(check: Check, most: int) -> Check:
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(check, value))


def is_sized_file(value: Any) -> bool:
    """Whether a value is a file below a directory, with its size."""
    return isinstance(value, list) and len(value) == 2 and is_path(value[0]) and is_whole(value[1]) and value[1] >= 0


def are_wanted_files(value: Any) -> bool:
    """Whether a value is a directory with files in it."""
    is_whole = isinstance(value, dict) and value.keys() == WANTED_FILES.keys()
    return is_whole and all(check(value[name]) for name, check in WANTED_FILES.items())


WANTED_FILES: dict[str, Check] = {"directory": is_path, "files": list_of(is_sized_file, MAX_NAMES)}
are_paths = list_of(is_path, MAX_PLACES)
are_texts = list_of(is_text, MAX_NAMES)
