"""Decides which changes of flags are notified, to whom and when."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Flag, Severity
from ckptd.core.notices.address import find_refused
from ckptd.core.notices.notice import (
    NAMED_JOBS,
    Notice,
    NoticeFacts,
    NoticeKind,
    NoticeMode,
    NoticePolicy,
    Recipient,
    TopicNotification,
)
from ckptd.core.notices.recipients import is_for_admin, list_notified, list_recipients
from ckptd.core.notices.recoveries import list_recovered
from ckptd.core.notices.topic import thread_of, topics_of

LIKELY = 0.5  # probability of a loss from which on an info about it is mailed in time


def plan(changes: FlagChanges, facts: NoticeFacts, policy: NoticePolicy, now: datetime) -> tuple[Notice, ...]:
    """Return the notices that the transitions of flags cause, without those that a recipient need not get."""
    if policy.mode is NoticeMode.OFF and not policy.rooms:
        return ()
    transitions = [(NoticeKind.OPENED, flag) for flag in changes.opened] + [
        (NoticeKind.WORSENED, flag) for flag in changes.worsened
    ]
    if policy.is_resolution_notified:
        transitions += [(NoticeKind.RESOLVED, flag) for flag in list_recovered(changes, facts)]
    groups: dict[tuple[NoticeKind, NoticeTopic, Recipient, str | None], list[Flag]] = defaultdict(list)
    notified_by_topic = list_notified(facts.notified, policy)
    for kind, flag in transitions:
        job = facts.job_of(flag)
        topics = topics_of(flag, job)
        recipients = dict(list_recipients(flag, job, policy, facts.unanswered))
        if kind is NoticeKind.RESOLVED:  # notify those who were notified of the flag, at the same address
            notified_recipients = {recipient for topic in topics for recipient in notified_by_topic.get(topic, ())}
            recipients = {
                recipient: recipients.get(recipient)
                for recipient in notified_recipients
                if recipient in recipients or not _is_former_admin(recipient, topics, facts, policy)
            }
        for recipient, meant_for in recipients.items():
            notified = {topic: facts.notified.get((recipient, topic)) for topic in topics}
            if wanted := want(kind, flag.finding.severity, notified, now - policy.repeat_gap):
                groups[kind, wanted, recipient, meant_for].append(flag)
    notices: dict[tuple[Recipient, str], Notice] = {}
    for (kind, wanted, recipient, meant_for), flags in groups.items():
        notice = fold(kind, wanted, flags, facts, now)
        due_at = now + min(policy.windows[notice.severity], patience_of(notice))
        refused = next(filter(None, (_find_refused(flag, facts, policy) for flag in flags)), None)
        job = facts.job_of(flags[0])
        notice = replace(
            notice,
            recipient=recipient,
            meant_for=meant_for,
            is_for_admin=is_for_admin(recipient, notice.user, job.mail_user if job else None, policy),
            due_at=due_at,
            refused_address=refused,
        )
        notices.setdefault((recipient, notice.edge), notice)
    return tuple(notices.values())


def _is_former_admin(recipient: Recipient, topics: Collection[str], facts: NoticeFacts, policy: NoticePolicy) -> bool:
    """Whether a recipient was notified only as an administrator, and no longer is one."""
    known = [facts.notified.get((recipient, topic)) for topic in topics]
    return recipient.address not in policy.admins and any(each is not None and each.is_for_admin for each in known)


def _find_refused(flag: Flag, facts: NoticeFacts, policy: NoticePolicy) -> str | None:
    job = facts.job_of(flag)
    return find_refused(job.mail_user if job else None, policy)


def patience_of(notice: Notice) -> timedelta:
    """Return how long a notice may wait for others; at most a quarter of the time left before a likely loss."""
    left, chance = notice.evidence.get("time_left_seconds"), notice.evidence.get("chance")
    is_likely = notice.severity is not Severity.INFO or (isinstance(chance, int | float) and chance >= LIKELY)
    is_urgent = notice.kind is not NoticeKind.RESOLVED and is_likely
    return timedelta(seconds=left / 4) if is_urgent and isinstance(left, int) else timedelta.max


class NoticeTopic(NamedTuple):
    """The topic under which a recipient is notified of an edge."""

    topic: str
    is_silent: bool = False


def want(
    kind: NoticeKind, severity: Severity, notified: Mapping[str, TopicNotification | None], since: datetime
) -> NoticeTopic | None:
    """Decide whether to notify of an edge, from earlier notices of its topics; None if not."""
    known = [(topic, each) for topic, each in notified.items() if each is not None]
    if kind is NoticeKind.RESOLVED:
        waiting = (topic for topic, each in known if each.resolved_at is None or each.resolved_at < each.notified_at)
        return next(map(NoticeTopic, waiting), None)
    for topic, each in known:
        if severity.rank <= each.severity.rank and each.notified_at > since:
            is_taken_back = each.resolved_at is not None and each.resolved_at >= each.notified_at
            return NoticeTopic(topic, is_silent=True) if is_taken_back else None
    return NoticeTopic(next(iter(notified)))


def fold(kind: NoticeKind, wanted: NoticeTopic, flags: list[Flag], facts: NoticeFacts, now: datetime) -> Notice:
    """Fold the flags of one topic into one notice with the text of the worst one."""
    worst = min(flags, key=lambda flag: (-flag.finding.severity.rank, flag.finding.job_id or 0, str(flag.finding.run)))
    finding = worst.finding
    job = facts.job_of(worst)
    job_ids = sorted({flag.finding.job_id for flag in flags if flag.finding.job_id is not None})
    return Notice(
        cluster=finding.run.cluster,
        recipient=Recipient("", ""),
        kind=kind,
        rule=finding.rule,
        severity=finding.severity,
        topic=wanted.topic,
        is_silent=wanted.is_silent,
        thread=thread_of(worst, job),
        edge=f"{kind}:{wanted.topic}:{round(now.timestamp() * 1e6)}",
        created_at=now,
        due_at=now,
        run=finding.run,
        user=finding.user,
        work_dir=str(job.work_dir) if job and job.work_dir else None,
        job_name=job.name if job else "",
        array_job_id=job.array_job_id if job else None,
        job_ids=tuple(job_ids[:NAMED_JOBS]),
        job_count=len(job_ids) or 1,
        evidence=dict(finding.evidence),
        recorded_advice=finding.recorded_advice,
    )
