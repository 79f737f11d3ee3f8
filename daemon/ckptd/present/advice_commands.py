"""Find commands in advice, so that they are not wrapped and HTML marks them as code."""

import re
import textwrap
from typing import NamedTuple

_COMMAND = re.compile(
    r"#SBATCH --[\w-]+(?:=\S*\w)?"
    r"|scontrol [a-z]+ \w+(?:=\w+)?(?: \w+=\w+)*"
    r"|scancel \d\w*"
    r"|srun(?: --?[\w=]+)+ \w+"
    r"|--[a-z-]+=[\w.:=@-]*\w"
    r"|torch\.load\([^)]*\)"
    r"|`[^`]+`",
    re.ASCII,
)
_UNIT = re.compile(r"(?<=\d) (?=(?:d|h|min|s|B|[KMGTPE]iB)\b)")  # "6 min" stays on one line
_GLUE = "\ue000"  # stands for a blank inside a command; cleaned text never holds it


class Part(NamedTuple):
    """A piece of a sentence."""

    text: str
    is_command: bool


def split_commands(sentence: str) -> tuple[Part, ...]:
    """Return the pieces of a sentence in their order; joined they are the sentence."""
    parts: list[Part] = []
    end = 0
    for found in _COMMAND.finditer(sentence):
        parts.append(Part(sentence[end : found.start()], is_command=False))
        parts.append(Part(found[0], is_command=True))
        end = found.end()
    parts.append(Part(sentence[end:], is_command=False))
    return tuple(part for part in parts if part.text)


def wrap(sentence: str, width: int) -> tuple[str, ...]:
    """Return lines of at most so many characters, but keep commands, paths and numbers with their units whole."""
    parts = split_commands(sentence)
    glued = "".join(part.text.replace(" ", _GLUE) if part.is_command else _UNIT.sub(_GLUE, part.text) for part in parts)
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    return tuple(line.replace(_GLUE, " ") for line in lines)
