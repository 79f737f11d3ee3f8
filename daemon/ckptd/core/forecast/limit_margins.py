"""The margins that forecasts keep before a time limit, as the health rules are configured."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from ckptd.core.forecast.projection import MARGIN
from ckptd.core.model import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitMargins:
    """How long before the limit a save must be complete, by what is forecast."""

    loss: timedelta = MARGIN  # of the rule at-risk: for the work lost at the limit
    goal: timedelta = MARGIN  # of the rule will-not-finish: for the goal, and the epochs and steps that fit


DEFAULT_MARGINS = LimitMargins()
FindMargins = Callable[[RunRecord], LimitMargins]


def use_default_margins(_history: RunRecord) -> LimitMargins:
    """Return the margins of a site that sets none."""
    return DEFAULT_MARGINS
