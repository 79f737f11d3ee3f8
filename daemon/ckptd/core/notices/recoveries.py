"""Which ends of flags are good news: not those that a run or an attempt of it takes along when it ends."""

from ckptd.core.health.ending import ENDED
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Flag
from ckptd.core.notices.notice import Facts
from ckptd.core.notices.superseded import superseding_topics
from ckptd.core.notices.topic import topics_of


def list_recovered(changes: FlagChanges, facts: Facts) -> list[Flag]:
    """Return the resolved flags that are good news: it goes on, and neither the same nor worse holds any more."""
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
