"""Small flags and edges for tests of notices: minutes after a fixed start."""

from dataclasses import replace
from datetime import timedelta

from ckptd.core import notices
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, RunKey, Severity
from ckptd.core.notices import NoticeFacts, NoticeKind, NoticeMode, NoticePolicy, Recipient, TopicNotification
from core.histories import RUN, at, job

NOW = at(0)
POLICY = NoticePolicy(mode=NoticeMode.ON, user_rule="{user}@example.org", admins=("root@example.org",))
ALICE = Recipient("mail", "alice@example.org")
ADMIN = Recipient("mail", "root@example.org")


def run_of(number):
    return RunKey("c1", 1000, f"/scratch/alice/{number}")


def flag(number=1, *, rule="at-risk", severity=Severity.WARNING, run=RUN, user="alice", audience=("user",), job_id=1):
    finding = Finding(
        rule=rule,
        severity=severity,
        run=run,
        job_id=job_id,
        user=user,
        evidence={"time_left_seconds": 864000, "directory": run.directory},
        recorded_advice="Save sooner.",
        audience=audience,
    )
    return Flag(flag_id=number, finding=finding, opened_at=at(0))


def facts_of(*flags, notified=None, queued=None, open_flags=(), **job_changes):
    jobs = {
        (each.finding.run, each.finding.job_id): job(each.finding.job_id, user=each.finding.user, **job_changes)
        for each in flags
    }
    runs = {each.finding.run for each in flags} if queued is None else queued
    return NoticeFacts(jobs=jobs, notified=notified or {}, queued_runs=runs, open_flags=open_flags)


def array_of(count, **changes):
    """An array's flags, and the facts that make them one array: each task has its own run."""
    flags = [flag(each, job_id=each, run=run_of(each), **changes) for each in range(1, count + 1)]
    return flags, facts_of(*flags, array_job_id=77)


def opened(*flags):
    return FlagChanges(opened=flags)


def resolved(*flags):
    return FlagChanges(resolved=tuple(replace(each, resolved_at=at(60)) for each in flags))


def worsened(*flags):
    return FlagChanges(
        worsened=tuple(
            replace(each, worsened_at=at(60), finding=replace(each.finding, severity=Severity.CRITICAL))
            for each in flags
        )
    )


def remember(notified, notices):
    """Return what was notified after these notices, as the record would say it."""
    notified = dict(notified)
    for notice in notices:
        key = (notice.recipient, notice.topic)
        if notice.kind is not NoticeKind.RESOLVED:
            notified[key] = TopicNotification(
                notified_at=notice.created_at, severity=notice.severity, is_for_admin=notice.is_for_admin
            )
        elif key in notified:
            notified[key] = replace(notified[key], resolved_at=notice.created_at)
    return notified


DAY = timedelta(days=1)


def plan(changes, facts=None, policy=POLICY, now=NOW):
    edges = (*changes.opened, *changes.worsened, *changes.resolved)
    return notices.plan(changes, facts or facts_of(*edges), policy, now)


def notified_ago(flag_, ago, **changes):
    """What was notified where a notice of a flag was made so long ago."""
    notified = remember({}, plan(opened(flag_), now=at(0) - ago))
    return {key: replace(each, **changes) for key, each in notified.items()}
