"""Where a worse rule has taken over, the end of the lesser is no good news."""

from collections.abc import Collection
from dataclasses import replace

from ckptd.core.health.precedence import SUPERSEDED_BY
from ckptd.core.model import Flag, Job
from ckptd.core.notices.notice import Kind, Notice
from ckptd.core.notices.topic import topics_of


def superseding_topics(flag: Flag, job: Job | None) -> frozenset[str]:
    """Return what worse flags of the same run, array or job would be about."""
    worse = SUPERSEDED_BY.get(flag.finding.rule, ())
    flags = (replace(flag, finding=replace(flag.finding, rule=rule)) for rule in worse)
    return frozenset(topic for each in flags for topic in topics_of(each, job))


def is_superseded(notice: Notice, open_now: Collection[Notice]) -> bool:
    """Whether a notice tells the end of what a worse one, about the same run or array, has taken over."""
    worse = SUPERSEDED_BY.get(notice.rule, ())
    return notice.kind is Kind.RESOLVED and any(
        each.rule in worse and each.thread == notice.thread for each in open_now
    )
