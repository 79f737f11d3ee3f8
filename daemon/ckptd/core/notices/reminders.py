"""Plans reminders of flags that stay open, one per `repeat_gap` and at most `max_repeats`."""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime

from ckptd.core.model import Flag
from ckptd.core.notices.notice import Notice, NoticeFacts, NoticeKind, NoticePolicy, Recipient
from ckptd.core.notices.notice_planning import NoticeTopic, fold
from ckptd.core.notices.recipients import is_for_admin, list_recipients
from ckptd.core.notices.topic import topics_of


def plan_repeats(facts: NoticeFacts, policy: NoticePolicy, now: datetime) -> tuple[Notice, ...]:
    """Return a notice for each topic whose last notice is a `repeat_gap` old and whose flag is still open.

    Flags that were never reported, because they were muted or undeliverable, get no reminder.
    """
    groups: dict[tuple[Recipient, str | None, str], list[Flag]] = defaultdict(list)
    for flag in facts.open_flags:
        if flag.finding.run not in facts.queued_runs:
            continue
        job = facts.job_of(flag)
        nameless = replace(job, mail_user=None) if job else None  # for where the address that it names was of no use
        recipients = dict(list_recipients(flag, nameless, policy) + list_recipients(flag, job, policy))
        for recipient, meant_for in recipients.items():
            known = [
                (topic, facts.notified[recipient, topic])
                for topic in topics_of(flag, job)
                if (recipient, topic) in facts.notified
            ]
            if not known:
                continue
            topic, notification = max(known, key=lambda each: each[1].notified_at)
            if notification.repeat_count < policy.max_repeats and now - notification.notified_at >= policy.repeat_gap:
                groups[recipient, meant_for, topic].append(flag)
    repeated: list[Notice] = []
    for (recipient, meant_for, topic), flags in groups.items():
        notice = fold(NoticeKind.REPEATED, NoticeTopic(topic), flags, facts, now)
        due_at = now + policy.windows[notice.severity]
        job = facts.job_of(flags[0])
        is_meant = is_for_admin(recipient, notice.user, job.mail_user if job else None, policy)
        repeated.append(replace(notice, recipient=recipient, meant_for=meant_for, is_for_admin=is_meant, due_at=due_at))
    return tuple(repeated)
