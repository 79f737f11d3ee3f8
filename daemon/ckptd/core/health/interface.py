"""What a health rule is."""

from collections.abc import Iterable
from dataclasses import Field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from ckptd.core.model import Finding, RunHistory, Unknown


class Rule(Protocol):
    """A frozen dataclass whose fields are its thresholds."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        """Return one finding for each job that the rule holds for; Unknown where the facts do not tell."""
