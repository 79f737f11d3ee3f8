"""Plans the notices that are recorded with the changes of flags.

If Slurm does not return a job's MailUser in time, the notice is recorded without an address. It waits for the address
for a few minutes; after that, it gets the one of the site's rule.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core import notices
from ckptd.core.health import flag_changes
from ckptd.core.model import Flag, Job, RunKey, Unknown
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.snapshots import MailAddresses, Submission
from ckptd.steps.state import State

log = logging.getLogger("ckptd")

MAX_ASKED = 200  # jobs whose MailUser slurmctld is asked for at once
MAX_UNANSWERED = 3  # of them, after which no more are asked
REST = timedelta(seconds=30)  # after so many, or a question that was not answered


def plan_notices(
    parts: Parts, state: State, changes: flag_changes.FlagChanges, open_flags: tuple[Flag, ...], now: datetime
) -> tuple[notices.Notice, ...]:
    """Return the notices that changes of flags cause."""
    transitions = (*changes.opened, *changes.worsened, *changes.resolved)
    if not transitions:
        return ()
    facts = gather(parts, state, transitions, open_flags)
    planned = notices.plan(changes, facts, parts.notice_policy, now)
    _log_refused(planned)
    waiting = frozenset(Submission.of_notice(each) for each in planned if each.recipient.channel == notices.UNADDRESSED)
    state.change(MailAddresses, lambda known: replace(known, unaddressed=known.unaddressed | waiting))
    return planned


def list_unasked(parts: Parts, state: State, flags: Iterable[Flag], now: datetime) -> list[Job]:
    """Return the jobs whose MailUser must be read: those of these flags, and those that a notice waits for."""
    rests_since = state.latest(MailAddresses).rests_since
    is_resting = rests_since is not None and now - rests_since < REST
    if parts.notice_policy.mode is notices.NoticeMode.OFF or state.latest(PolledQueue).slurm_trouble or is_resting:
        return []
    return list((_unanswered(state, flags) | _waited_for(state)).values())[:MAX_ASKED]


def ask_mail_users(parts: Parts, state: State, jobs: Collection[Job], now: datetime) -> None:
    """Read the MailUser of these jobs from Slurm; retry failures after a while."""
    if not jobs:
        return
    answers: dict[Submission, str | None] = {}
    unanswered_count = 0
    for job in jobs:
        answer = parts.source.read_mail_user(job)
        if not isinstance(answer, Unknown):
            answers[Submission.of_job(job)] = answer
            continue
        unanswered_count += 1
        is_about_one_job = answer.reason.startswith(FailureReason.FAILED)
        if unanswered_count == MAX_UNANSWERED or not is_about_one_job:
            break
    rests_since = now if unanswered_count or len(jobs) == MAX_ASKED else None
    wanted = {Submission.of_job(known.job) for known in state.latest(PolledQueue).tracked.values()}
    state.change(MailAddresses, lambda known: _with_answers(known, answers, wanted, rests_since))


def _with_answers(
    known: MailAddresses,
    answers: Mapping[Submission, str | None],
    wanted: Collection[Submission],
    rests_since: datetime | None,
) -> MailAddresses:
    """Add answers, and remove those about jobs that left the queue."""
    kept = {each: address for each, address in known.by_job.items() if each in wanted}
    return replace(known, by_job={**kept, **answers}, rests_since=rests_since)


def address_waiting(parts: Parts, state: State, now: datetime) -> None:
    """Set the address of waiting notices to the one from Slurm, or after a while to the site's."""
    known = state.latest(MailAddresses)
    if not known.unaddressed:
        return
    waiting: dict[Submission, list[notices.Notice]] = defaultdict(list)
    for notice in parts.store.outbox.list_unaddressed(parts.cluster):
        waiting[Submission.of_notice(notice)].append(notice)
    can_be_asked = _waited_for(state)
    for submission, some in list(waiting.items()):
        is_over = submission not in can_be_asked or min(map(notices.waits_until, some)) <= now
        if submission not in known.by_job and not is_over:
            continue
        notified = parts.store.outbox.read_notified({notice.topic for notice in some})
        mail_user = known.by_job.get(submission)
        addressed = notices.readdress(some, mail_user, notified, parts.notice_policy, now)
        parts.store.outbox.replace(some, addressed)
        _log_refused(addressed)
        del waiting[submission]
    state.publish(replace(known, unaddressed=frozenset(waiting)))


def _log_refused(planned: Iterable[notices.Notice]) -> None:
    """Log where mail goes instead of to an address that the site does not allow."""
    found = {(each.refused_address, each.user, each.recipient.address) for each in planned if each.refused_address}
    for named, user, used in sorted(found):
        log.warning("mail for %s goes to %s: [mail] allowed_domains does not allow %s", ascii(user), used, named)


def _unanswered(state: State, flags: Iterable[Flag]) -> dict[Submission, Job]:
    """Return the jobs of flags that users are notified of and whose MailUser is unknown, one of each array."""
    found: dict[Submission, Job] = {}
    tracked, asked = state.latest(PolledQueue).tracked, state.latest(MailAddresses).by_job
    for flag in flags:
        known = None if flag.finding.job_id is None else tracked.get(flag.finding.job_id)
        if known and known.job.mail_user is None and "user" in flag.finding.audience:
            found.setdefault(Submission.of_job(known.job), known.job)
    return {each: job for each, job in found.items() if each not in asked}


def _waited_for(state: State) -> dict[Submission, Job]:
    """Return the jobs that slurmctld still knows and whose MailUser a notice waits for."""
    unaddressed = state.latest(MailAddresses).unaddressed
    if not unaddressed:
        return {}
    jobs = {Submission.of_job(known.job): known.job for known in state.latest(PolledQueue).tracked.values()}
    return {each: jobs[each] for each in unaddressed if each in jobs}


def gather(
    parts: Parts, state: State, to_notify: tuple[Flag, ...], open_flags: tuple[Flag, ...]
) -> notices.NoticeFacts:
    jobs: dict[tuple[RunKey, int | None], Job] = {}
    queued: set[RunKey] = set()
    asked = state.latest(MailAddresses).by_job
    flagged = {flag.finding.run for flag in (*to_notify, *open_flags)}
    for known in state.latest(PolledQueue).tracked.values():
        if known.run is not None and known.run in flagged:
            jobs[known.run, known.job.job_id] = _with_mail_user(asked, known.job)
            if known.is_open:
                queued.add(known.run)
    gone = [flag for flag in (*to_notify, *open_flags) if (flag.finding.run, flag.finding.job_id) not in jobs]
    jobs |= parts.store.flags.read_jobs(gone)
    return notices.NoticeFacts(
        jobs=jobs,
        notified=parts.store.outbox.read_notified(notices.list_topics(to_notify, jobs)),
        open_flags=open_flags,
        queued_runs=queued,
        unanswered={each.number for each in _unanswered(state, to_notify)},
    )


def _with_mail_user(asked: Mapping[Submission, str | None], job: Job) -> Job:
    mail_user = asked.get(Submission.of_job(job))
    return replace(job, mail_user=mail_user) if mail_user else job
