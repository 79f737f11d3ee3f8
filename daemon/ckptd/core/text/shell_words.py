"""Reads shell text as words, as far as that can be done without a shell, in a time that grows with its length.

Variables that the text itself or Slurm sets are filled in; whatever else a shell would have to find out is a gap in
its word. Quotes that do not pair, loops and functions are read as if each line stood alone.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

GAP = "\0"  # in a word: anything at all
GLOB = "*?["
LONGEST_VALUE = 4096  # the longest path; what variables of variables make longer is a gap
MAX_WORDS = 20_000  # of one text
MAX_EXPANDED = 2_000_000  # characters of all its words

# Possessive, so that nothing is tried twice; each alternative begins with another character.
_WORD = re.compile(
    r"""((?:[^\s"'\\;|&<>()`#]++|"[^"]*+"|'[^']*+'|\\.|(?<=[^\s;|&()])\#)++)|(\#.*)|[;|&<>()"'`\\]""", re.VERBOSE
)
_QUOTES = re.compile(r"""\\(.)|["']""")
_VARIABLE = re.compile(r"\$(?:\{(\w{1,200})(?::?[-=]([^{}]{0,2000}))?\}|(\w{1,200})|\{[^{}]{0,2000}\}|[@*#?!$-])?")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,199})\+?=(.*)", re.DOTALL)
_DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB)\s")
_DECLARES = frozenset({"export", "readonly", "local", "declare", "typeset", "set"})
_SEPARATES = frozenset(";|&()")


class ShellWord(NamedTuple):
    """One word, with its variables filled in and GAP for what is not known."""

    text: str
    is_literal: bool = True  # nothing was filled in
    defaults: tuple[str, ...] = ()  # of variables that may be unset: `${name:-default}`


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """The words of one command, and the directory in which it runs; None where that is not known."""

    words: tuple[ShellWord, ...]
    directory: str | None
    is_truncated: bool = False  # there is more to it than was read


def read_lines(text: str, known: dict[str, str], directory: str | None) -> Iterator[ShellCommand]:
    """Yield the commands of a text. `known` are the variables that are set; what the text sets is added to them.

    A line that is cut says that words of it, or all that follows, could not be read: there is too much.
    """
    shell = _Shell(known, directory)
    for line in text.replace(GAP, " ").replace("\\\n", " ").split("\n"):
        if "`" in line:
            line = _mark_substitutions(line)  # noqa: PLW2901
        directive = _DIRECTIVE.match(line)
        yield from shell.read(line[directive.end() :] if directive else line)
        if shell.is_full:
            return


class _Shell:
    def __init__(self, known: dict[str, str], directory: str | None) -> None:
        self._values = known
        self._directory = directory
        self._characters_left = MAX_EXPANDED
        self._words_left = MAX_WORDS
        self._is_truncated = False

    @property
    def is_full(self) -> bool:
        """Whether so much was read that the rest is left out."""
        return self._words_left <= 0 or self._characters_left <= 0

    def read(self, line: str) -> Iterator[ShellCommand]:
        raw: list[str] = []
        for match in _WORD.finditer(line):
            if match[1] is not None:
                raw.append(match[1])
                self._words_left -= 1
                if self.is_full:
                    break
            elif match[2] is not None:
                break
            elif match[0] in _SEPARATES and raw:
                yield self._command(raw)
                raw = []
        if raw:
            yield self._command(raw)

    def _command(self, raw: list[str]) -> ShellCommand:
        if raw[0] in _DECLARES:
            raw = raw[1:]
        is_setting = True
        words: list[ShellWord] = []
        for each in raw:
            if self._characters_left <= 0:
                break
            words.append(self._expand(_unquote(each)))
            if is_setting:
                is_setting = self._set(words[-1].text)
        if words and words[0].text in {"cd", "pushd"}:
            self._change_directory(words[1].text if len(words) > 1 else "~")
        is_truncated, self._is_truncated = self._is_truncated or self.is_full, False
        return ShellCommand(tuple(words), self._directory, is_truncated)

    def _set(self, word: str) -> bool:
        """Set the variable that a word assigns; return whether it does that."""
        found = _ASSIGNMENT.fullmatch(word)
        if found is not None:
            self._values[found[1]] = found[2] if len(found[2]) <= LONGEST_VALUE else GAP
        return found is not None

    def _change_directory(self, target: str) -> None:
        if GAP in target or any(mark in target for mark in GLOB) or target.startswith(("-", "~")):
            self._directory = None
        elif target.startswith("/"):
            self._directory = target
        elif self._directory is not None:
            self._directory = posixpath.join(self._directory, target)
            if len(self._directory) > LONGEST_VALUE:
                self._directory = None

    def _expand(self, text: str) -> ShellWord:
        self._characters_left -= len(text)
        if "$" not in text:
            return ShellWord(text)
        defaults: list[str] = []

        def fill_in(match: re.Match[str]) -> str:
            if match[2]:
                defaults.append(match[2])
            return self._values.get(match[1] or match[3] or "", GAP)

        if len(text) <= LONGEST_VALUE:
            size = sum(len(fill_in(match)) for match in _VARIABLE.finditer(text))
            defaults.clear()
            if size <= LONGEST_VALUE:
                self._characters_left -= size
                filled = _VARIABLE.sub(fill_in, text)
                return ShellWord(filled, is_literal=False, defaults=tuple(defaults[:10]))
        self._is_truncated = True
        return ShellWord(GAP, is_literal=False)


def _mark_substitutions(line: str) -> str:
    """Put a gap for what commands in backticks print, and read the commands as words behind it."""
    outside = True
    pieces: list[str] = []
    for piece in line.split("`"):
        pieces.append(piece if outside else f"{GAP} {piece} ")
        outside = not outside
    return "".join(pieces)


def _unquote(text: str) -> str:
    if '"' not in text and "'" not in text and "\\" not in text:
        return text
    return _QUOTES.sub(lambda match: match[1] or "", text)
