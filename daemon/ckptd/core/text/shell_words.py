"""Splits shell text into words, as far as that is possible without a shell, in time linear in its length.

Variables that the text itself or Slurm sets are expanded; anything else that only a shell could expand becomes a gap in
its word. Unpaired quotes, loops and functions are read as if each line stood alone.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

GAP = "\0"  # in a word: stands for any text
GLOB = "*?["
LONGEST_VALUE = 4096  # the longest path; a longer result of nested variables becomes a gap
MAX_WORDS = 20_000  # of one text
MAX_EXPANDED = 2_000_000  # characters of all its words

# Possessive quantifiers never backtrack; each alternative begins with another character.
_WORD = re.compile(
    r"""((?:[^\s"'\\;|&<>()`#]++|"[^"]*+"|'[^']*+'|\\.|(?<=[^\s;|&()])\#)++)|(\#.*)|[;|&<>()"'`\\]""", re.VERBOSE
)
_QUOTES = re.compile(r"""\\(.)|["']""")
# Before a string of Python: the letter of `f"..."`, or the `/` of `Path("ckpts")/"epoch_2.pt"`.
_PYTHON_STRING = re.compile(r"""[fFrRbBuU]{1,2}(?=["'])|/(?=(?P<quote>["'])[^"'/$]{1,255}(?P=quote)$)""")
_VARIABLE = re.compile(r"\$(?:\{(\w{1,200})(?::?[-=]([^{}]{0,2000}))?\}|(\w{1,200})|\{[^{}]{0,2000}\}|[@*#?!$-])?")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,199})\+?=(.*)", re.DOTALL)
_DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB)\s")
_DECLARES = frozenset({"export", "readonly", "local", "declare", "typeset", "set"})
_SEPARATES = frozenset(";|&()")


class ShellWord(NamedTuple):
    """One word, with its variables expanded and GAP for each unknown part."""

    text: str
    is_literal: bool = True  # nothing was expanded
    defaults: tuple[str, ...] = ()  # of variables that may be unset: `${name:-default}`


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """The words of one command, and the directory in which it runs; None where that is not known."""

    words: tuple[ShellWord, ...]
    directory: str | None
    is_truncated: bool = False  # it has more words than were read


def read_lines(text: str, known: dict[str, str], directory: str | None) -> Iterator[ShellCommand]:
    """Yield the commands of a text. `known` are the variables that are set; what the text sets is added to them.

    `is_truncated` of a command means that words of it, or all following lines, were not read because of a limit.
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
        """Whether a limit was reached, so that the rest is not read."""
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
    """Replace commands in backticks by a gap, and append their words."""
    outside = True
    pieces: list[str] = []
    for piece in line.split("`"):
        pieces.append(piece if outside else f"{GAP} {piece} ")
        outside = not outside
    return "".join(pieces)


def _unquote(text: str) -> str:
    if '"' not in text and "'" not in text and "\\" not in text:
        return text
    prefix = _PYTHON_STRING.match(text)
    return _QUOTES.sub(lambda match: match[1] or "", text[prefix.end() :] if prefix else text)
