"""Which ends of flags are good news: not those that a run or an attempt of it takes along when it ends."""

from ckptd.core.alerts import FlagChanges
from ckptd.core.health.damaged_checkpoint import DamagedCheckpoint
from ckptd.core.health.foreign_owner import ForeignOwner
from ckptd.core.health.interrupted_save import InterruptedSave
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.health.unsafe_pickle import UnsafePickle
from ckptd.core.model import Flag
from ckptd.core.notices.notice import Facts
from ckptd.core.notices.superseding import superseding_topics
from ckptd.core.notices.topic import topics_of

# These hold for what is on disk or for the attempts in a row, also while the job waits; all others ask how the attempt
# that runs is doing, and end with it, whether or not anything was saved.
OF_THE_RUN = frozenset(
    {DamagedCheckpoint.name, ForeignOwner.name, InterruptedSave.name, RestartLoop.name, UnsafePickle.name}
)


def list_recovered(changes: FlagChanges, facts: Facts) -> list[Flag]:
    """Return the resolved flags that are good news: it goes on, and neither the same nor worse holds any more."""
    resolved = {flag.flag_id for flag in changes.resolved}
    standing = (*(flag for flag in facts.open_flags if flag.flag_id not in resolved), *changes.opened)
    held = {topic for flag in standing for topic in topics_of(flag, facts.job_of(flag))}
    return [
        flag
        for flag in changes.resolved
        if _goes_on(flag, facts)
        and held.isdisjoint(topics_of(flag, facts.job_of(flag)))
        and held.isdisjoint(superseding_topics(flag, facts.job_of(flag)))
    ]


def _goes_on(flag: Flag, facts: Facts) -> bool:
    """Whether what a flag is about is still there: its run in the queue, or the attempt in which it was seen."""
    if flag.finding.rule in OF_THE_RUN:
        return flag.finding.run in facts.queued_runs
    began_at = facts.attempts_since.get((flag.finding.run, flag.finding.job_id))
    return began_at is not None and began_at <= flag.opened_at
