"""Decides which edges of flags are told, to whom and when."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.alerts import FlagChanges
from ckptd.core.model import Flag, Job, Severity
from ckptd.core.notices.address import find_address
from ckptd.core.notices.notice import NAMED_JOBS, Facts, Kind, Mode, Notice, Policy, Recipient, Told
from ckptd.core.notices.superseding import superseding_topics
from ckptd.core.notices.topic import thread_of, topics_of


def plan(changes: FlagChanges, facts: Facts, policy: Policy, now: datetime) -> tuple[Notice, ...]:
    """Return the notices that edges cause, none of them for an edge that its recipient needs not hear of."""
    if policy.mode is Mode.OFF and not policy.rooms:
        return ()
    edges = [(Kind.OPENED, flag) for flag in changes.opened] + [(Kind.WORSENED, flag) for flag in changes.worsened]
    if policy.is_recovery_told:
        edges += [(Kind.RESOLVED, flag) for flag in _recovered(changes, facts)]
    groups: dict[tuple[Kind, Wanted, Recipient, str | None], list[Flag]] = defaultdict(list)
    for kind, flag in edges:
        job = facts.job_of(flag)
        for recipient, meant_for in list_recipients(flag, job, policy):
            told = {topic: facts.told.get((recipient, topic)) for topic in topics_of(flag, job)}
            if wanted := _want(kind, flag.finding.severity, told, now - policy.repeat_gap):
                groups[kind, wanted, recipient, meant_for].append(flag)
    notices: dict[tuple[Recipient, str], Notice] = {}
    for (kind, wanted, recipient, meant_for), flags in groups.items():
        notice = fold(kind, wanted, flags, facts, now)
        due_at = now + min(policy.windows[notice.severity], _patience(notice))
        notice = replace(notice, recipient=recipient, meant_for=meant_for, due_at=due_at)
        notices.setdefault((recipient, notice.edge), notice)
    return tuple(notices.values())


def _patience(notice: Notice) -> timedelta:
    """Return how long a notice may wait for others: where a time runs out, a quarter of what was left of it."""
    left = notice.evidence.get("time_left_seconds")
    is_urgent = notice.kind is not Kind.RESOLVED and notice.severity is not Severity.INFO
    return timedelta(seconds=left / 4) if is_urgent and isinstance(left, int) else timedelta.max


def list_recipients(flag: Flag, job: Job | None, policy: Policy) -> list[tuple[Recipient, str | None]]:
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
    """Return the resolved flags that are good news: the run goes on, and neither the same nor worse holds any more."""
    resolved = {flag.flag_id for flag in changes.resolved}
    standing = (
        *(flag for flag in facts.open_flags if flag.flag_id not in resolved),
        *changes.opened,
    )
    held = {topic for flag in standing for topic in topics_of(flag, facts.job_of(flag))}
    return [
        flag
        for flag in changes.resolved
        if flag.finding.run in facts.queued_runs and not held & _same_or_worse(flag, facts.job_of(flag))
    ]


def _same_or_worse(flag: Flag, job: Job | None) -> set[str]:
    return {*topics_of(flag, job), *superseding_topics(flag, job)}


class Wanted(NamedTuple):
    """The topic under which a recipient hears of an edge."""

    topic: str
    is_silent: bool = False


def _want(kind: Kind, severity: Severity, told: Mapping[str, Told | None], since: datetime) -> Wanted | None:
    """Decide whether an edge is told, by what was told of its topics since an instant; None where it is not."""
    known = [(topic, each) for topic, each in told.items() if each is not None]
    if kind is Kind.RESOLVED:
        waiting = (topic for topic, each in known if each.resolved_at is None or each.resolved_at < each.told_at)
        return next(map(Wanted, waiting), None)
    for topic, each in known:
        if severity.rank <= each.severity.rank and each.told_at > since:
            is_taken_back = each.resolved_at is not None and each.resolved_at >= each.told_at
            return Wanted(topic, is_silent=True) if is_taken_back else None
    return Wanted(next(iter(told)))


def fold(kind: Kind, wanted: Wanted, flags: list[Flag], facts: Facts, now: datetime) -> Notice:
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
        advice=finding.advice,
    )
