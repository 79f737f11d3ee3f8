"""Selects the resolved flags to notify of: not those that only the end of a run or attempt resolved."""

from ckptd.core.health.ending import ENDED
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Flag
from ckptd.core.notices.notice import NoticeFacts
from ckptd.core.notices.superseded import superseding_topics
from ckptd.core.notices.topic import topics_of


def list_recovered(changes: FlagChanges, facts: NoticeFacts) -> list[Flag]:
    """Return the resolved flags whose run continues without the same or a worse problem."""
    resolved = {flag.flag_id for flag in changes.resolved}
    standing = (*(flag for flag in facts.open_flags if flag.flag_id not in resolved), *changes.opened)
    held = {topic for flag in standing for topic in topics_of(flag, facts.job_of(flag))}
    return [
        flag
        for flag in changes.resolved
        if flag.finding.run in facts.queued_runs
        and not flag.finding.evidence.get(ENDED)
        and held.isdisjoint(topics_of(flag, facts.job_of(flag)))
        and held.isdisjoint(superseding_topics(flag, facts.job_of(flag)))
    ]
