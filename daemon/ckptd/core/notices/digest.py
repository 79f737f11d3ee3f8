"""Composes one message from all notices that wait for one recipient."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from ckptd.core.model import RunKey, Severity
from ckptd.core.notices.notice import NAMED_JOBS, Notice, NoticeKind, Recipient
from ckptd.core.notices.superseded import is_superseded
from ckptd.core.notices.topic import hash_parts

SAMPLE = "test-message"  # the rule of a notice that tries a channel


class EntryStatus(StrEnum):
    """The status of an entry when the digest is composed."""

    OPEN = "open"
    WORSE = "worse"
    STILL = "still"
    OVER = "over"  # it opened and resolved before anybody was notified
    RESOLVED = "resolved"


@dataclass(frozen=True, kw_only=True, slots=True)
class DigestEntry:
    """One topic of a digest. `notice` is the newest one about a problem, otherwise the one about its resolution."""

    status: EntryStatus
    notice: Notice
    job_ids: tuple[int, ...]
    job_count: int
    open_count: int | None = None  # how many of the jobs are flagged now, where the record was asked

    @property
    def severity(self) -> Severity:
        return self.notice.severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """One message. `more` counts, by rule, entries above the limit; `dropped` are notices that need not be sent."""

    recipient: Recipient
    key: str  # names exactly these transitions to this recipient
    thread: str | None  # the run, where it is about one only
    entries: tuple[DigestEntry, ...]
    more: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[Notice, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst severity of the problems; resolved ones count only if there are no others."""
        troubles = [entry for entry in self.entries if entry.status is not EntryStatus.RESOLVED]
        return max((entry.severity for entry in troubles or self.entries), key=lambda severity: severity.rank)


def digest_key(recipient: Recipient, notices: Iterable[Notice]) -> str:
    """Return a name that is the same for the same transitions and recipient, in any order."""
    return hash_parts(*recipient, *sorted(notice.edge for notice in notices))


class TopicCount(NamedTuple):
    """The recorded number of jobs of a topic, and the number that it affects now."""

    job_count: int
    open_count: int


def compose(
    notices: Collection[Notice], *, tallies: Mapping[str, TopicCount] | None = None, max_entries: int = 20
) -> Digest:
    """Compose one digest of a recipient's notices; it is empty if none of them needs to be sent any more.

    `topic_counts` has the current numbers of jobs; a topic without one has the number of its notices.
    """
    topics: dict[str, list[Notice]] = defaultdict(list)
    for notice in sorted(notices, key=lambda notice: (notice.created_at, notice.edge)):
        topics[notice.topic].append(notice)
    entries: list[DigestEntry] = []
    dropped: list[Notice] = []
    for group in topics.values():
        entry = _entry(group)
        if entry is None:
            dropped += group
        else:
            entries.append(_with_tally(entry, (tallies or {}).get(entry.notice.topic)))
    open_now = [entry.notice for entry in entries if entry.status not in {EntryStatus.OVER, EntryStatus.RESOLVED}]
    for entry in [entry for entry in entries if is_superseded(entry.notice, open_now)]:
        entries.remove(entry)
        dropped += topics[entry.notice.topic]
    entries.sort(key=_rank)
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


def _rank(entry: DigestEntry) -> tuple[bool, int, datetime, tuple[int, ...]]:
    """Return what sorts entries: the worst first, then the oldest, then by job."""
    is_resolved = entry.status is EntryStatus.RESOLVED
    return is_resolved, -entry.severity.rank, entry.notice.created_at, entry.job_ids[:1]


def _entry(group: list[Notice]) -> DigestEntry | None:
    """Return a topic's entry after its transitions, oldest first; None if it is resolved and was never notified."""
    trouble = [notice for notice in group if notice.kind is not NoticeKind.RESOLVED and not notice.is_silent]
    is_news = any(notice.kind is NoticeKind.OPENED for notice in trouble)
    if group[-1].kind is not NoticeKind.RESOLVED:
        if not trouble:
            return None
        shown = trouble[-1]
        return _fold(_STATUS[shown.kind], shown, trouble)
    if not is_news:
        return _fold(EntryStatus.RESOLVED, group[-1], group[-1:])
    if trouble[-1].severity is Severity.CRITICAL:
        return _fold(EntryStatus.OVER, trouble[-1], trouble)
    return None


_STATUS = {
    NoticeKind.OPENED: EntryStatus.OPEN,
    NoticeKind.WORSENED: EntryStatus.WORSE,
    NoticeKind.REPEATED: EntryStatus.STILL,
}


def _with_tally(entry: DigestEntry, tally: TopicCount | None) -> DigestEntry:
    """Update the number of affected jobs since the notice was recorded; mark the entry if none is affected now."""
    if tally is None or entry.status is EntryStatus.RESOLVED:
        return entry
    return replace(
        entry,
        status=entry.status if tally.open_count else EntryStatus.OVER,
        job_count=max(entry.job_count, tally.job_count),
        open_count=tally.open_count,
    )


def _fold(status: EntryStatus, shown: Notice, folded: list[Notice]) -> DigestEntry:
    opened_count = sum(notice.job_count for notice in folded if notice.kind is NoticeKind.OPENED)
    job_ids = sorted({job_id for notice in folded for job_id in notice.job_ids})
    return DigestEntry(
        status=status,
        notice=shown,
        job_ids=tuple(job_ids[:NAMED_JOBS]),
        job_count=max(opened_count, *(notice.job_count for notice in folded), len(job_ids)),
    )


def sample_digest(address: str, now: datetime) -> Digest:
    """Return a digest about a run that does not exist, to test a channel."""
    run = RunKey("example", 0, "/scratch/example/run")
    notice = Notice(
        cluster="example",
        recipient=Recipient("mail", address),
        kind=NoticeKind.OPENED,
        rule=SAMPLE,
        severity=Severity.INFO,
        topic=hash_parts("sample"),
        thread=hash_parts("sample", now),
        edge=f"{NoticeKind.OPENED}:sample:{round(now.timestamp() * 1e6)}",
        created_at=now,
        due_at=now,
        run=run,
        user="example",
        work_dir="/home/example",
        job_name="test message from ckptd, not a real job",
        job_ids=(1,),
        evidence={"time_left_seconds": 1200, "will_be_lost_seconds": 7200},
    )
    return compose([notice])


def sample_digests(address: str, now: datetime) -> tuple[Digest, ...]:
    """Return digests of every form that a template must render: one problem, many problems, and resolved ones."""
    trouble = sample_digest(address, now)
    (entry,) = trouble.entries
    sample = replace(entry.notice, work_dir=None, meant_for=address, array_job_id=1)
    much = replace(entry, notice=sample, status=EntryStatus.STILL, job_count=3, open_count=2)
    return (
        trouble,
        replace(trouble, entries=(entry, much), more={"no-room": 2}, thread=None),
        replace(trouble, entries=(replace(entry, status=EntryStatus.RESOLVED),)),
    )
