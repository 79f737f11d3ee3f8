"""Read user settings from `.ckptd.toml`, and report those that are invalid.

All of it is hostile input: anything invalid is ignored.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ckptd.core.discovery.declared import LONGEST_PATH, MAX_LOCATIONS, list_directories
from ckptd.core.model import EVERY_RULE, UserSettings
from ckptd.core.text.similar_names import nearest

_SIGNAL = re.compile(r"(B:)?(?:SIG)?(USR1|USR2|TERM|HUP|INT)")
MAX_MUTED = 100
MAX_MISREAD = 10  # entries of one file of which it is said that they count for nothing
LONGEST_WORD = 60  # of such an entry
LONGEST_PROBLEM = 200
PROBLEM = "problem"  # stands for the whole of a file that could not be read
_STRAYS = "strays"  # stands for keys that mean nothing


def parse_signal(text: object) -> str | None:
    """Return a declared signal as Slurm writes it (`USR1`, `B:USR1` for the batch shell); None for anything else."""
    found = _SIGNAL.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else f"{found[1] or ''}{found[2]}"


def select_user_settings(table: Mapping[str, Any], known: Mapping[str, Any], others: Collection[str]) -> dict[str, Any]:
    """Return the entries of a `.ckptd.toml` for rules and acts, and which of its keys mean nothing.

    Of a file that cannot be read only that is added to what is `known`: what it said before is still the best known.
    `others` are the keys that somebody else reads.
    """
    if PROBLEM in table:
        return {**known, PROBLEM: str(table[PROBLEM])[:LONGEST_PROBLEM]}
    strays = sorted(key[:LONGEST_WORD] for key in table if key not in _MEANT and key.casefold() not in others)
    return {key: table[key] for key in _MEANT if key in table} | ({_STRAYS: strays[:MAX_MISREAD]} if strays else {})


def list_misread(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return an error for each selected setting that is ignored."""
    said = [f"cannot be read: {table[PROBLEM]}; its last readable content still applies"] if PROBLEM in table else []
    for key, (meant, is_meant) in _MEANT.items():
        if key in table and not is_meant(table[key]):
            said.append(f"{key}: {_shorten(table[key])} is not valid; use {meant}")
    if table.get("resubmit") is True and "max_resubmits" not in table:
        said.append("resubmit has no effect without max_resubmits")
    said += [f"unknown setting {_shorten(stray)}{nearest(stray, _MEANT)}" for stray in table.get(_STRAYS, ())]
    return tuple(said[:MAX_MISREAD])


def _shorten(value: object) -> str:
    said = ascii(value)
    return said if len(said) <= LONGEST_WORD else f"{said[: LONGEST_WORD - 3]}..."


def parse_user_settings(table: Mapping[str, Any]) -> UserSettings:
    """Read what `.ckptd.toml` says to the rules: `checkpoints`, `signal`, `epochs`, `steps`, `mute`, and to acts.

    `resubmit = true` counts for nothing without `max_resubmits`.
    """
    steps = _positive(table.get("steps"))
    return UserSettings(
        directory=next(iter(list_directories(table)), None),
        is_saving=table.get("checkpoints") is not False,
        saves_on_signal=isinstance(table.get("signal"), str) and bool(table["signal"]),
        goal_epoch=_positive(table.get("epochs")),
        goal_step=None if steps is None else int(steps),
        signal=table["signal"] if isinstance(table.get("signal"), str) else None,
        is_resubmitted=table.get("resubmit") is True,
        max_resubmits=int(_positive(table.get("max_resubmits")) or 0),
        muted=_parse_muted(table.get("mute")),
        misread=list_misread(table),
    )


def _parse_muted(mute: object) -> frozenset[str]:
    if mute is True:
        return frozenset({EVERY_RULE})
    names = mute[:MAX_MUTED] if isinstance(mute, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 < value < 2**53 and math.isfinite(value) else None


def _is_path(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_PATH


def _is_mute(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _is_about_mail(value: object) -> bool:
    return isinstance(value, dict) and value.keys() <= {"mute"} and _is_mute(value.get("mute", False))


_Meant = tuple[str, Callable[[Any], bool]]  # what a value is, in words, and whether one is that
_BOOLEAN: _Meant = ("true or false", lambda value: isinstance(value, bool))
_COUNT: _Meant = ("a number above 0", lambda value: _positive(value) is not None)
_MEANT: Mapping[str, _Meant] = {  # the keys of `.ckptd.toml` for rules and acts
    "directory": ("a path", lambda value: isinstance(value, str) and bool(value)),
    "directories": (
        f"a list of at most {MAX_LOCATIONS} paths",
        lambda value: isinstance(value, list) and 0 < len(value) <= MAX_LOCATIONS and all(map(_is_path, value)),
    ),
    "resume_from": (  # read where the file is: `checkpoints.pointers`
        "a path or a list of paths",
        lambda value: _is_path(value) or (isinstance(value, list) and all(_is_path(each) for each in value)),
    ),
    "checkpoints": _BOOLEAN,
    "signal": (
        "USR1, USR2, TERM, HUP or INT, with the prefix B: for the batch shell",
        lambda value: parse_signal(value) is not None,
    ),
    "epochs": _COUNT,
    "steps": _COUNT,
    "mute": (
        'true, or a list of rules such as ["too-sparse"]',
        _is_mute,
    ),
    "mail": (  # read before each message: `checkpoints.scanning.locate`
        'only mute in it: true, or a list of rules such as ["too-sparse"]',
        _is_about_mail,
    ),
    "resubmit": _BOOLEAN,
    "max_resubmits": _COUNT,
}
