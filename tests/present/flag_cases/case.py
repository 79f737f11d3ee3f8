"""One case of a flag's text: evidence as its rule records it, and the exact words."""

from typing import NamedTuple

DIRECTORY = "/scratch/alice/run"


class Case(NamedTuple):
    rule: str
    evidence: dict
    statement: str
    advice: str
    command: str | None = None
