"""Changes the address of planned notices, when Slurm returns the job's, a relay refused one, or administrators change.

Earlier notices to the new address count as if the notice had been planned for it, so that nothing is sent twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.notices.address import find_refused
from ckptd.core.notices.notice import Notice, NoticePolicy, Recipient, TopicNotification
from ckptd.core.notices.notice_planning import patience_of, want
from ckptd.core.notices.recipients import Addressee, is_for_admin, list_of_user

PATIENCE = timedelta(minutes=5)  # with a question to Slurm, before the site's rule gives the address


def waits_until(notice: Notice) -> datetime:
    """Return until when a notice waits for its address."""
    return notice.created_at + min(PATIENCE, patience_of(notice))


def readdress(
    notices: Iterable[Notice],
    mail_user: str | None,
    notified: Mapping[tuple[Recipient, str], TopicNotification],
    policy: NoticePolicy,
    now: datetime,
) -> tuple[Notice, ...]:
    """Return a user's notices with the address that the job names, without those that need not be sent.

    A notice never goes back to the address that it came from.
    """
    moves = [(notice, list_of_user(notice.user, mail_user, policy)) for notice in notices]
    return _move(moves, mail_user, notified, policy, now)


def readdress_withdrawn(
    withdrawn: Iterable[Notice],
    notified: Mapping[tuple[Recipient, str], TopicNotification],
    policy: NoticePolicy,
    now: datetime,
) -> tuple[Notice, ...]:
    """Return a former administrator's notices with the addresses of the others, without those that have them."""
    moves = [
        (notice, [(notice.recipient._replace(address=admin), notice.meant_for) for admin in policy.admins])
        for notice in withdrawn
    ]
    return _move(moves, None, notified, policy, now)


def _move(
    moves: Iterable[tuple[Notice, Iterable[Addressee]]],
    mail_user: str | None,
    notified: Mapping[tuple[Recipient, str], TopicNotification],
    policy: NoticePolicy,
    now: datetime,
) -> tuple[Notice, ...]:
    notified = dict(notified)
    result: list[Notice] = []
    for notice, addressees in sorted(moves, key=lambda each: each[0].created_at):
        for recipient, meant_for in addressees:
            key = (recipient, notice.topic)
            known = notified.get(key)
            wanted = want(notice.kind, notice.severity, {notice.topic: known}, now - policy.repeat_gap)
            if wanted is None or recipient == notice.recipient:
                continue
            is_silent = notice.is_silent or wanted.is_silent
            moved = replace(
                notice,
                notice_id=None,
                recipient=recipient,
                meant_for=meant_for,
                is_for_admin=is_for_admin(recipient, notice.user, mail_user, policy),
                is_silent=is_silent,
                refused_address=find_refused(mail_user, policy) or notice.refused_address,
            )
            result.append(moved)
            after = TopicNotification.after(
                known, notice.kind, notice.severity, notice.created_at, is_for_admin=moved.is_for_admin
            )
            if after is not None:
                notified[key] = after
    return tuple(result)


def readdress_refused(
    refused: Iterable[Notice],
    notified: Mapping[tuple[Recipient, str], TopicNotification],
    policy: NoticePolicy,
    now: datetime,
) -> tuple[Notice, ...]:
    """Return refused notices with the address of the site's rule; none if that was the refused address."""
    of_users = [
        each for each in refused if each.recipient.channel == "mail" and each.recipient.address not in policy.admins
    ]
    return readdress(of_users, None, notified, policy, now)
