"""The values of notices: recipients, policy, and the facts for planning."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from ckptd.core.model import Evidence, Flag, Job, RunKey, Severity

NAMED_JOBS = 20  # of a folded entry; the others are only counted
UNADDRESSED = "unaddressed"  # channel of notices that wait for the address in MailUser; it sends nothing


class NoticeMode(StrEnum):
    """Who gets mail."""

    OFF = "off"
    LOG = "log"
    ADMIN = "admin"
    ON = "on"


class NoticeKind(StrEnum):
    """The change of a flag that a notice reports."""

    OPENED = "opened"
    WORSENED = "worsened"
    RESOLVED = "resolved"
    REPEATED = "repeated"  # no edge: it has held for so long that it is said again


class Recipient(NamedTuple):
    """A channel and an address in it."""

    channel: str
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRoom:
    """A recipient in another channel, such as a chat room or webhook, that gets the flags of all users."""

    recipient: Recipient
    audience: frozenset[str] = frozenset({"admin"})


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticePolicy:
    """The site's settings of who is notified how often. `user_rule` contains {user}."""

    mode: NoticeMode = NoticeMode.OFF
    user_rule: str = ""
    allowed_domains: tuple[str, ...] = ()  # of addresses that users name themselves; empty: any
    admins: tuple[str, ...] = ()
    rooms: tuple[ChatRoom, ...] = ()
    windows: Mapping[Severity, timedelta] = field(
        default_factory=lambda: {
            Severity.CRITICAL: timedelta(minutes=10),
            Severity.WARNING: timedelta(hours=1),
            Severity.INFO: timedelta(days=1),
        }
    )
    repeat_gap: timedelta = timedelta(days=7)
    max_repeats: int = 4
    is_resolution_notified: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One notification for one recipient: a change of a flag, or of the same flag of many tasks of an array."""

    notice_id: int | None = None
    cluster: str
    recipient: Recipient
    kind: NoticeKind
    rule: str
    severity: Severity
    topic: str  # what it is about: the same rule for the same run or array
    thread: str  # the run or array, whatever the rule
    edge: str  # stable: the same edge always has the same one
    created_at: datetime
    due_at: datetime
    run: RunKey
    user: str
    meant_for: str | None = None  # whose notice an administrator gets in their place
    is_for_admin: bool = False  # its recipient gets it only as an administrator
    refused_address: str | None = None  # that the job names, and the site does not allow
    work_dir: str | None = None
    job_name: str = ""
    array_job_id: int | None = None
    job_ids: tuple[int, ...] = ()  # the first NAMED_JOBS
    job_count: int = 1
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    recorded_advice: str = ""  # of a flag that an earlier version recorded
    is_silent: bool = False  # notified within the repeat gap: it only cancels a notice of recovery that is not sent yet


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicNotification:
    """The sent and waiting notices of one recipient about one topic."""

    notified_at: datetime
    severity: Severity
    resolved_at: datetime | None = None
    repeat_count: int = 0  # since it opened or became worse
    is_for_admin: bool = False  # the recipient got the newest one only as an administrator

    @staticmethod
    def after(
        known: "TopicNotification | None",
        kind: NoticeKind,
        severity: Severity,
        notified_at: datetime,
        *,
        is_for_admin: bool = False,
    ) -> "TopicNotification | None":
        """Return the state after one more notice; None if a flag is resolved that was never reported."""
        if kind is NoticeKind.RESOLVED:
            return replace(known, resolved_at=notified_at) if known else None
        repeat_count = known.repeat_count + 1 if known and kind is NoticeKind.REPEATED else 0
        return TopicNotification(
            notified_at=notified_at, severity=severity, repeat_count=repeat_count, is_for_admin=is_for_admin
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeFacts:
    """The facts for planning beside the transitions. `open_flags` are those before the transitions."""

    jobs: Mapping[tuple[RunKey, int | None], Job] = field(default_factory=dict)
    notified: Mapping[tuple[Recipient, str], TopicNotification] = field(default_factory=dict)
    open_flags: tuple[Flag, ...] = ()
    queued_runs: Collection[RunKey] = frozenset()  # runs with a job in the queue: others did not recover, they ended
    unanswered: Collection[int] = frozenset()  # jobs and arrays of which Slurm has not said yet whom they want mailed

    def job_of(self, flag: Flag) -> Job | None:
        return self.jobs.get((flag.finding.run, flag.finding.job_id))
