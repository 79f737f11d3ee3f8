"""Other thresholds for some partitions, accounts or users."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ckptd.core.health.interface import Rule
from ckptd.core.model import Job, ResubmitRefusal, RunHistory
from ckptd.core.runs import history as facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """The complete set of rules for the jobs that match; the patterns are shell globs."""

    partition: str = "*"
    account: str = "*"
    user: str = "*"
    rules: tuple[Rule, ...]

    def matches(self, job: Job) -> bool:
        return (
            fnmatchcase(job.partition, self.partition)
            and fnmatchcase(job.account, self.account)
            and fnmatchcase(job.user, self.user)
        )


def choose_rules(history: RunHistory, rules: tuple[Rule, ...], overrides: Iterable[Override]) -> tuple[Rule, ...]:
    """Return the rules of the first override that matches the run's job, else the site's."""
    ended = history.context.standing.job if isinstance(history.context.standing, ResubmitRefusal) else None
    job = facts.current_job(history) or ended
    return choose_rules_of_job(job, rules, overrides)


def choose_rules_of_job(job: Job | None, rules: tuple[Rule, ...], overrides: Iterable[Override]) -> tuple[Rule, ...]:
    """Return the rules of the first override that matches a job, else the site's."""
    if job is None:
        return rules
    return next((override.rules for override in overrides if override.matches(job)), rules)
