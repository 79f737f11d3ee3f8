"""Finds the margins of a run's health rules, so that what is shown agrees with what they flag."""

from collections.abc import Iterable

from ckptd.core.forecast.limit_margins import LimitMargins
from ckptd.core.forecast.projection import MARGIN
from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.interface import Rule
from ckptd.core.health.overrides import Override, choose_rules_of_job
from ckptd.core.health.will_not_finish import WillNotFinish
from ckptd.core.model import RunRecord
from ckptd.core.runs import history as facts


def find_margins(history: RunRecord, rules: tuple[Rule, ...], overrides: Iterable[Override]) -> LimitMargins:
    """Return the margins of the rules that judge a run; the default one of a rule that the site disabled."""
    chosen = choose_rules_of_job(facts.current_job(history), rules, overrides)
    return LimitMargins(
        loss=next((rule.margin for rule in chosen if isinstance(rule, AtRisk)), MARGIN),
        goal=next((rule.margin for rule in chosen if isinstance(rule, WillNotFinish)), MARGIN),
    )
