"""Which rules take over from which: where the worse one holds, the end of the lesser is no good news."""

from collections.abc import Collection
from dataclasses import replace

from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.not_resuming import NotResuming
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.model import Flag, Job
from ckptd.core.notices.notice import Kind, Notice
from ckptd.core.notices.topic import topics_of

# The lesser rule is about first attempts only: it stops to apply to a restart, whether or not that saves.
SUPERSEDED_BY = {NoCheckpointYet.name: (RestartedWithoutCheckpoint.name, NotResuming.name)}


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
