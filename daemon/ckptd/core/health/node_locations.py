"""Leaves out the rules about a location that only a job's nodes see: what is known of it says the job's owner.

On every node, the same path may be another directory. So two jobs that name it need not save into the same one.
"""

from collections.abc import Iterable
from dataclasses import replace

from ckptd.core.health.evaluation import Evaluation
from ckptd.core.health.interface import Rule

# the only rules that look neither at checkpoints nor at the directory
ABOUT_JOBS = frozenset({"job-held", "not-requeueable", "not-resubmitted", "resubmitted", "volatile-path"})


def choose_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules that can be decided there."""
    return tuple(rule for rule in rules if rule.name in ABOUT_JOBS)


def mark_undecided(evaluation: Evaluation, rules: Iterable[Rule]) -> Evaluation:
    """Return the evaluation with the other rules undecided: they open no flag, and resolve none."""
    names = frozenset(rule.name for rule in rules) - ABOUT_JOBS
    return replace(evaluation, undecided=evaluation.undecided | names)
