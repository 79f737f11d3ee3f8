"""Matches the files that a person allows ckptd to prune by name: `prune_files` of a policy or of `.ckptd.toml`.

`*` and `?` stay within one directory; `**` as a whole component stands for any number of directories. A pattern is
compared with the path below the run's directory and with the base name. Patterns are hostile input: each component is
matched separately so that no pattern takes long, and a pattern without a letter or digit is refused.
"""

import functools
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any

KEY = "prune_files"
MAX_PATTERNS = 50
LONGEST = 1000
_ANY = "**"
_EXAMPLE = 'write a list of patterns such as ["samples/*.npz"]'


def parse_patterns(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns of a `prune_files` setting, and a sentence for everything in it that is none."""
    if value is None:
        return (), ()
    if not isinstance(value, list | tuple):
        return (), (f"{KEY}: {_EXAMPLE}, not {str(value)[:LONGEST]!r}",)
    if len(value) > MAX_PATTERNS:
        return (), (f"{KEY}: at most {MAX_PATTERNS} patterns can be given, not {len(value)}",)
    problems = tuple(f"{KEY}: {problem}" for each in value if (problem := _find_problem(each)))
    return tuple(dict.fromkeys(each for each in value if not _find_problem(each))), problems


def _find_problem(pattern: Any) -> str | None:
    if not isinstance(pattern, str):
        return f"{_EXAMPLE}; {str(pattern)[:60]!r} is no text"
    shown = repr(pattern[:60])
    parts = pattern.split("/")
    if len(pattern) > LONGEST:
        return f"{shown}... is longer than {LONGEST} characters"
    if pattern.startswith("/") or any(part in {"", ".", ".."} for part in parts):
        return f"{shown} is not a path below the run's directory"
    if any(_ANY in part and part != _ANY for part in parts):
        return f"{shown}: `**` must be a whole component, as in `samples/**/*.npz`"
    if not any(character.isalnum() for character in pattern):
        return f"{shown} matches every file; name the files"
    return None


def match_all(paths: Iterable[str], patterns: Collection[str]) -> bool:
    """Whether each path, relative to the run's directory, matches at least one pattern. False where there is none."""
    found = list(paths)
    return bool(found) and all(any(match(path, pattern) for pattern in patterns) for path in found)


def match(path: str, pattern: str) -> bool:
    """Whether a relative path, or its base name, matches a pattern."""
    wanted = _split(pattern)
    names = path.split("/")
    if len(wanted) == 1 and wanted[0] != _ANY:
        return fnmatchcase(names[-1], wanted[0])
    return _match_parts(names, wanted)


@functools.lru_cache(maxsize=4096)
def _split(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split("/"))


def _match_parts(names: list[str], wanted: tuple[str, ...]) -> bool:
    """Whether the components match: `reached` holds how many of `wanted` may be used up before each name."""
    reached = _skip_any({0}, wanted)
    for name in names:
        matched = {at + 1 for at in reached if at < len(wanted) and _is_match(name, wanted[at])}
        matched |= {at for at in reached if at < len(wanted) and wanted[at] == _ANY}
        reached = _skip_any(matched, wanted)
        if not reached:
            return False
    return len(wanted) in reached


def _is_match(name: str, wanted: str) -> bool:
    return wanted != _ANY and fnmatchcase(name, wanted)


def _skip_any(reached: set[int], wanted: tuple[str, ...]) -> set[int]:
    """Add what is reached where each `**` stands for no directory at all."""
    found = set(reached)
    for at in sorted(reached):
        following = at
        while following < len(wanted) and wanted[following] == _ANY:
            following += 1
            found.add(following)
    return found
