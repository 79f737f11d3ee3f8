"""The runbook as a page, so that an alert's link leads to the daemon that raised it.

The text is docs/runbook.md. Only the Markdown that this file uses is supported: headings, paragraphs and `code`.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from ckptd.errors import CkptdError

HERE = Path(__file__).parent
PLACES = (HERE / "runbook.md", HERE.parents[2] / "docs/runbook.md")  # installed, and in a checkout


class RunbookError(CkptdError):
    """The runbook is missing: install ckptd again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunbookEntry:
    """The instructions for one alert; the anchor is its name in lower case."""

    title: str
    anchor: str
    paragraphs: tuple[Markup, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Runbook:
    """The runbook's introduction and sections."""

    title: str
    introduction: tuple[Markup, ...]
    sections: tuple[RunbookEntry, ...]


@functools.cache
def read_runbook() -> Runbook:
    """Read the runbook of this version.

    Raises:
        RunbookError: it is missing.

    """
    path = next((path for path in PLACES if path.exists()), None)
    if path is None:
        raise RunbookError(RunbookError.__doc__)
    head, *parts = path.read_text(encoding="utf-8").split("\n## ")
    title, _, introduction = head.removeprefix("# ").partition("\n")
    return Runbook(
        title=title,
        introduction=_paragraphs(introduction),
        sections=tuple(_section(part) for part in parts),
    )


def _section(part: str) -> RunbookEntry:
    title, _, text = part.partition("\n")
    return RunbookEntry(title=title, anchor=title.lower(), paragraphs=_paragraphs(text))


def _paragraphs(text: str) -> tuple[Markup, ...]:
    return tuple(_with_code(" ".join(part.split())) for part in text.split("\n\n") if part.strip())


def _with_code(text: str) -> Markup:
    plain_and_code = text.split("`")  # by turns
    parts = [
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(plain_and_code)
    ]
    return Markup("").join(parts)
