"""Selects who is notified of a flag, and at which address."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from ckptd.core.model import Flag, Job
from ckptd.core.notices.address import find_address
from ckptd.core.notices.notice import UNADDRESSED, NoticeMode, NoticePolicy, Recipient

Addressee = tuple[Recipient, str | None]  # with whose notice it is where that is somebody else


def list_recipients(
    flag: Flag, job: Job | None, policy: NoticePolicy, unanswered: Collection[int] = frozenset()
) -> list[Addressee]:
    """Return the recipients of a flag; a user whose job is among the unanswered has no address yet."""
    audience = set(flag.finding.audience)
    result: list[Addressee] = [(room.recipient, None) for room in policy.rooms if audience & room.audience]
    if policy.mode is NoticeMode.OFF:
        return result
    if "user" in audience:
        if job is not None and number_of(job) in unanswered and policy.mode is not NoticeMode.ADMIN:
            result.append((Recipient(UNADDRESSED, str(number_of(job))), None))
        else:
            result += list_of_user(flag.finding.user, job.mail_user if job else None, policy)
    if "admin" in audience:
        known = {recipient for recipient, _ in result}
        result += [(admin, None) for admin in _list_admins(policy) if admin not in known]
    return result


def list_of_user(user: str, mail_user: str | None, policy: NoticePolicy) -> list[Addressee]:
    """Return the recipients of a user's notice: the user, or the administrators without an address or in mode admin."""
    if policy.mode is NoticeMode.OFF:
        return []
    address = find_address(user, mail_user, policy)
    if address is None or policy.mode is NoticeMode.ADMIN:
        return [(admin, address or user) for admin in _list_admins(policy)]
    return [(Recipient(_channel_of(policy), address), None)]


def is_for_admin(recipient: Recipient, user: str, mail_user: str | None, policy: NoticePolicy) -> bool:
    """Whether somebody gets a user's notice only as an administrator, not at an address of that user."""
    own = {find_address(user, mail_user, policy), find_address(user, None, policy)}
    return recipient.address in policy.admins and recipient.address not in own


def list_notified(notified: Iterable[tuple[Recipient, str]], policy: NoticePolicy) -> Mapping[str, list[Recipient]]:
    """Return, by topic, those who were notified and still can be, by the same channel and within the current mode."""
    rooms = {room.recipient for room in policy.rooms}
    channels = set() if policy.mode is NoticeMode.OFF else {_channel_of(policy), UNADDRESSED}
    result: dict[str, list[Recipient]] = defaultdict(list)
    for recipient, topic in notified:
        is_heard = policy.mode is not NoticeMode.ADMIN or recipient.address in policy.admins
        if recipient in rooms or (recipient.channel in channels and is_heard):
            result[topic].append(recipient)
    return result


def number_of(job: Job) -> int:
    """Return the id that the tasks of one array share; they were submitted together and name one address."""
    return job.job_id if job.array_job_id is None else job.array_job_id


def _list_admins(policy: NoticePolicy) -> list[Recipient]:
    return [Recipient(_channel_of(policy), address) for address in policy.admins]


def _channel_of(policy: NoticePolicy) -> str:
    return "log" if policy.mode is NoticeMode.LOG else "mail"
