"""What could not be checked, with the reason: a value, so that nobody mistakes it for "nothing there"."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """A check that could not be made, with its reason; never treat it as an empty answer."""

    what: str
    reason: str
