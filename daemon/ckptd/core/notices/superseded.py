"""Detects resolved flags that a worse flag has replaced: these are not reported as resolved."""

from collections.abc import Collection
from dataclasses import replace

from ckptd.core.health.precedence import SUPERSEDED_BY
from ckptd.core.model import Flag, Job
from ckptd.core.notices.notice import Notice, NoticeKind
from ckptd.core.notices.topic import topics_of


def superseding_topics(flag: Flag, job: Job | None) -> frozenset[str]:
    """Return the topics of worse flags of the same run, array or job."""
    worse = SUPERSEDED_BY.get(flag.finding.rule, ())
    flags = (replace(flag, finding=replace(flag.finding, rule=rule)) for rule in worse)
    return frozenset(topic for each in flags for topic in topics_of(each, job))


def is_superseded(notice: Notice, open_now: Collection[Notice]) -> bool:
    """Whether a notice reports the end of a flag that a worse one of the same run or array has replaced."""
    worse = SUPERSEDED_BY.get(notice.rule, ())
    return notice.kind is NoticeKind.RESOLVED and any(
        each.rule in worse and each.thread == notice.thread for each in open_now
    )
