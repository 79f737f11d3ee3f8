"""Turns the edges of flags into messages to people: who is told, when, once, and in one digest.

Nothing here is sent. `plan` is asked beside the flags and its notices are recorded with them; `compose` is asked when
a recipient's window has passed and makes one digest of everything that waits for them.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from ckptd.core.alerts import FlagChanges
from ckptd.core.model import Evidence, Flag, Job, RunKey, Severity

EVERY_RULE = "*"  # among the rules that a user mutes: all of them
NAMED_JOBS = 20  # of a folded entry; the others are only counted
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.-]{{0,63}}@({_LABEL}(?:\.{_LABEL})*)", re.ASCII)


class Mode(StrEnum):
    """How far notices go."""

    OFF = "off"
    LOG = "log"
    ADMIN = "admin"
    ON = "on"


class Kind(StrEnum):
    """The edge of a flag that a notice tells."""

    OPENED = "opened"
    WORSENED = "worsened"
    RESOLVED = "resolved"


class Recipient(NamedTuple):
    """Where a notice goes: a channel, and an address that means something to it."""

    channel: str
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """A recipient beside mail that is told of every user's flags: a chat room, a webhook."""

    recipient: Recipient
    tells: frozenset[str] = frozenset({"admin"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Who is told how often, as the site wants it. `user_rule` holds {user}."""

    mode: Mode = Mode.OFF
    user_rule: str = ""
    allowed_domains: tuple[str, ...] = ()  # of addresses that users name themselves; empty: any
    admins: tuple[str, ...] = ()
    rooms: tuple[Room, ...] = ()
    windows: Mapping[Severity, timedelta] = field(
        default_factory=lambda: {
            Severity.CRITICAL: timedelta(minutes=10),
            Severity.WARNING: timedelta(hours=1),
            Severity.INFO: timedelta(days=1),
        }
    )
    repeat_gap: timedelta = timedelta(days=7)
    is_recovery_told: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One thing that one recipient is to know: an edge of a flag, or of the same flag of many tasks of an array."""

    notice_id: int | None = None
    cluster: str
    recipient: Recipient
    kind: Kind
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
    work_dir: str | None = None
    job_name: str = ""
    array_job_id: int | None = None
    job_ids: tuple[int, ...] = ()  # the first NAMED_JOBS
    job_count: int = 1
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    advice: str = ""
    is_silent: bool = False  # told within the repeat gap: it only takes back a recovery that is still to be told


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a recipient was told, or will be, of one topic."""

    told_at: datetime
    severity: Severity
    resolved_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What planning needs to know beside the edges. `open_flags` are those from before them."""

    jobs: Mapping[tuple[RunKey, int | None], Job] = field(default_factory=dict)
    told: Mapping[tuple[Recipient, str], Told] = field(default_factory=dict)
    open_flags: tuple[Flag, ...] = ()
    queued_runs: Collection[RunKey] = frozenset()  # runs with a job in the queue: others did not recover, they ended

    def job_of(self, flag: Flag) -> Job | None:
        return self.jobs.get((flag.finding.run, flag.finding.job_id))


def plan(changes: FlagChanges, facts: Facts, policy: Policy, now: datetime) -> tuple[Notice, ...]:
    """Return the notices that edges cause, none of them for an edge that its recipient needs not hear of."""
    if policy.mode is Mode.OFF and not policy.rooms:
        return ()
    edges = [(Kind.OPENED, flag) for flag in changes.opened] + [(Kind.WORSENED, flag) for flag in changes.worsened]
    if policy.is_recovery_told:
        edges += [(Kind.RESOLVED, flag) for flag in _recovered(changes, facts)]
    groups: dict[tuple[Kind, _Wanted, Recipient, str | None], list[Flag]] = defaultdict(list)
    for kind, flag in edges:
        job = facts.job_of(flag)
        for recipient, meant_for in _recipients(flag, job, policy):
            told = {topic: facts.told.get((recipient, topic)) for topic in _topics(flag, job)}
            if wanted := _want(kind, flag.finding.severity, told, now - policy.repeat_gap):
                groups[kind, wanted, recipient, meant_for].append(flag)
    notices: dict[tuple[Recipient, str], Notice] = {}
    for (kind, wanted, recipient, meant_for), flags in groups.items():
        notice = _notice(kind, wanted, flags, facts, now)
        due_at = now + policy.windows[notice.severity]
        notice = replace(notice, recipient=recipient, meant_for=meant_for, due_at=due_at)
        notices.setdefault((recipient, notice.edge), notice)
    return tuple(notices.values())


def list_topics(changes: FlagChanges, jobs: Mapping[tuple[RunKey, int | None], Job]) -> frozenset[str]:
    """Return the topics of which `plan` must know what was told."""
    flags = (*changes.opened, *changes.worsened, *changes.resolved)
    return frozenset(
        topic for flag in flags for topic in _topics(flag, jobs.get((flag.finding.run, flag.finding.job_id)))
    )


def parse_address(text: str | None) -> str | None:
    """Return a mail address that is safe in a command and a header; None for whatever is not plainly one."""
    if text is None or len(text) > 254 or ".." in text or ".@" in text:
        return None
    return text if _ADDRESS.fullmatch(text) else None


def find_address(user: str, mail_user: str | None, policy: Policy) -> str | None:
    """Return a user's address: the one that the job names where it is valid and allowed, else by the site's rule."""
    named = parse_address(mail_user)
    if named is not None and (
        not policy.allowed_domains or named.rpartition("@")[2].lower() in map(str.lower, policy.allowed_domains)
    ):
        return named
    return parse_address(policy.user_rule.replace("{user}", user)) if policy.user_rule else None


def _recipients(flag: Flag, job: Job | None, policy: Policy) -> list[tuple[Recipient, str | None]]:
    """Return who is to hear of a flag, each with whose notice it is where that is somebody else."""
    tells = set(flag.finding.tells)
    result: list[tuple[Recipient, str | None]] = [(room.recipient, None) for room in policy.rooms if tells & room.tells]
    if policy.mode is Mode.OFF:
        return result
    channel = "log" if policy.mode is Mode.LOG else "mail"
    admins = [Recipient(channel, address) for address in policy.admins]
    if "user" in tells:
        address = find_address(flag.finding.user, job.mail_user if job else None, policy)
        if address is None or policy.mode is Mode.ADMIN:
            result += [(admin, address or flag.finding.user) for admin in admins]
        else:
            result.append((Recipient(channel, address), None))
    if "admin" in tells:
        known = {recipient for recipient, _ in result}
        result += [(admin, None) for admin in admins if admin not in known]
    return result


def _recovered(changes: FlagChanges, facts: Facts) -> list[Flag]:
    """Return the resolved flags that are good news: the run goes on, and nothing of the same topic holds any more."""
    resolved = {flag.flag_id for flag in changes.resolved}
    standing = (
        *(flag for flag in facts.open_flags if flag.flag_id not in resolved),
        *changes.opened,
    )
    held = {topic for flag in standing for topic in _topics(flag, facts.job_of(flag))}
    return [
        flag
        for flag in changes.resolved
        if flag.finding.run in facts.queued_runs and not held & set(_topics(flag, facts.job_of(flag)))
    ]


class _Wanted(NamedTuple):
    """The topic under which a recipient hears of an edge."""

    topic: str
    is_silent: bool = False


def _want(kind: Kind, severity: Severity, told: Mapping[str, Told | None], since: datetime) -> _Wanted | None:
    """Decide whether an edge is told, by what was told of its topics since an instant; None where it is not."""
    known = [(topic, each) for topic, each in told.items() if each is not None]
    if kind is Kind.RESOLVED:
        waiting = (topic for topic, each in known if each.resolved_at is None or each.resolved_at < each.told_at)
        return next(map(_Wanted, waiting), None)
    for topic, each in known:
        if severity.rank <= each.severity.rank and each.told_at > since:
            is_taken_back = each.resolved_at is not None and each.resolved_at >= each.told_at
            return _Wanted(topic, is_silent=True) if is_taken_back else None
    return _Wanted(next(iter(told)))


def _topics(flag: Flag, job: Job | None) -> tuple[str, ...]:
    """Return what a flag is about; the last is by its job, under which it was told before its directory was known."""
    finding = flag.finding
    if job is not None and job.array_job_id is not None:
        return (_hash(finding.rule, *finding.run[:2], "array", job.array_job_id),)
    by_job = _hash(finding.rule, *finding.run[:2], "job", finding.job_id)
    if finding.run.is_located:
        return (_hash(finding.rule, *finding.run), by_job)
    return (by_job,)


def _thread(flag: Flag, job: Job | None) -> str:
    if job is not None and job.array_job_id is not None:
        return _hash(*flag.finding.run[:2], "array", job.array_job_id)
    return _hash(*flag.finding.run)


def _notice(kind: Kind, wanted: _Wanted, flags: list[Flag], facts: Facts, now: datetime) -> Notice:
    """Fold the flags of one topic into one notice, told by the worst of them."""
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
        thread=_thread(worst, job),
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
        advice=finding.advice,
    )


def _hash(*parts: object) -> str:
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


class Status(StrEnum):
    """How an entry of a digest stands when the digest is made."""

    OPEN = "open"
    WORSE = "worse"
    OVER = "over"  # it came and went before anybody was told
    RESOLVED = "resolved"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One topic of a digest. `notice` is the newest that tells of trouble, else the recovery."""

    status: Status
    notice: Notice
    job_ids: tuple[int, ...]
    job_count: int

    @property
    def severity(self) -> Severity:
        return self.notice.severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """One message. `more` counts by rule what is too much to be shown; `dropped` are notices not worth telling."""

    recipient: Recipient
    key: str  # names exactly these edges to this recipient
    thread: str | None  # the run, where it is about one only
    entries: tuple[Entry, ...]
    more: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[Notice, ...] = ()

    @property
    def severity(self) -> Severity:
        return max((entry.severity for entry in self.entries), key=lambda severity: severity.rank)


def digest_key(recipient: Recipient, notices: Iterable[Notice]) -> str:
    """Return the same name for the same edges to the same recipient, in whatever order."""
    return _hash(*recipient, *sorted(notice.edge for notice in notices))


def compose(notices: Collection[Notice], *, max_entries: int = 20) -> Digest:
    """Make one digest of the notices of one recipient; empty where none of them is worth telling any more."""
    topics: dict[str, list[Notice]] = defaultdict(list)
    for notice in sorted(notices, key=lambda notice: (notice.created_at, notice.edge)):
        topics[notice.topic].append(notice)
    entries: list[Entry] = []
    dropped: list[Notice] = []
    for group in topics.values():
        entry = _entry(group)
        if entry is None:
            dropped += group
        else:
            entries.append(entry)
    entries.sort(key=lambda each: (each.status is Status.RESOLVED, -each.severity.rank, each.notice.created_at))
    recipient = next(iter(notices)).recipient
    threads = {entry.notice.thread for entry in entries}
    return Digest(
        recipient=recipient,
        key=digest_key(recipient, notices),
        thread=threads.pop() if len(threads) == 1 else None,
        entries=tuple(entries[:max_entries]),
        more=Counter(entry.notice.rule for entry in entries[max_entries:]),
        dropped=tuple(dropped),
    )


def _entry(group: list[Notice]) -> Entry | None:
    """Return how a topic stands after its edges, oldest first; None where nobody was told and nothing is left to do."""
    trouble = [notice for notice in group if notice.kind is not Kind.RESOLVED and not notice.is_silent]
    is_news = any(notice.kind is Kind.OPENED for notice in trouble)
    if group[-1].kind is not Kind.RESOLVED:
        if not trouble:
            return None
        shown = trouble[-1]
        return _fold(Status.WORSE if shown.kind is Kind.WORSENED else Status.OPEN, shown, trouble)
    if not is_news:
        return _fold(Status.RESOLVED, group[-1], group[-1:])
    if trouble[-1].severity is Severity.CRITICAL:
        return _fold(Status.OVER, trouble[-1], trouble)
    return None


def _fold(status: Status, shown: Notice, told: list[Notice]) -> Entry:
    opened_count = sum(notice.job_count for notice in told if notice.kind is Kind.OPENED)
    job_ids = sorted({job_id for notice in told for job_id in notice.job_ids})
    return Entry(
        status=status,
        notice=shown,
        job_ids=tuple(job_ids[:NAMED_JOBS]),
        job_count=max(opened_count, *(notice.job_count for notice in told), len(job_ids)),
    )


def sample_digest(address: str, now: datetime) -> Digest:
    """Return a digest about a run that does not exist, to try a channel with."""
    run = RunKey("example", 0, "/scratch/example/run")
    notice = Notice(
        cluster="example",
        recipient=Recipient("mail", address),
        kind=Kind.OPENED,
        rule="at-risk",
        severity=Severity.INFO,
        topic=_hash("sample"),
        thread=_hash("sample", now),
        edge=f"{Kind.OPENED}:sample:{round(now.timestamp() * 1e6)}",
        created_at=now,
        due_at=now,
        run=run,
        user="example",
        work_dir="/home/example",
        job_name="a test of ckptd's mail, no real job",
        job_ids=(1,),
        evidence={"time_left_seconds": 1200, "will_be_lost_seconds": 7200},
        advice="Nothing: this message only shows that mail arrives.",
    )
    return compose([notice])
