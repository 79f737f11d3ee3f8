"""Who is to hear of what was decided: the notices that are recorded with the flags."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from ckptd.core import alerts, notices
from ckptd.core.model import Flag, Job, RunKey, Unknown
from ckptd.cycle.state import Parts, State

MAX_ASKED = 200  # jobs in one decision whose MailUser slurmctld is asked for
MAX_UNANSWERED = 3  # of them, after which no more are asked


def plan_notices(
    parts: Parts, state: State, changes: alerts.FlagChanges, open_flags: tuple[Flag, ...], now: datetime
) -> tuple[notices.Notice, ...]:
    """Return the notices that the edges cause."""
    edges = (*changes.opened, *changes.worsened, *changes.resolved)
    if not edges:
        return ()
    facts = _gather(parts, state, edges, open_flags)
    return notices.plan(changes, facts, parts.notice_policy, now)


def repeat_notices(parts: Parts, state: State, now: datetime) -> int:
    """Record again what was told a repeat gap ago and still holds; return how many notices that are."""
    policy = parts.notice_policy
    with state.lock:
        old = [each for each in parts.store.read_open_flags(parts.cluster) if now - each.opened_at >= policy.repeat_gap]
        unasked = list_unasked(parts, state, old)
    ask_mail_users(parts, state, unasked)
    with state.lock:
        open_flags = parts.store.read_open_flags(parts.cluster)
        repeated = notices.plan_repeats(_gather(parts, state, open_flags, open_flags), policy, now)
        parts.store.record_notices(repeated)
        return len(repeated)


def list_unasked(parts: Parts, state: State, flags: Iterable[Flag]) -> list[Job]:
    """Return the jobs that these flags are about and whose MailUser nobody has asked for, one of each array."""
    if parts.notice_policy.mode is notices.Mode.OFF or state.slurm_trouble:
        return []
    found: dict[int, Job] = {}
    for flag in flags:
        known = None if flag.finding.job_id is None else state.tracked.get(flag.finding.job_id)
        if known and known.is_open and known.job.mail_user is None and "user" in flag.finding.tells:
            found.setdefault(_number(known.job), known.job)
    return [job for number, job in found.items() if number not in state.mail_users][:MAX_ASKED]


def ask_mail_users(parts: Parts, state: State, jobs: Collection[Job]) -> None:
    """Ask the source whom these jobs want mailed; where it cannot say, the site's rule holds."""
    if not jobs:
        return
    told: dict[int, str | None] = {}
    unanswered_count = 0
    for job in jobs:
        answer = parts.source.read_mail_user(job)
        if not isinstance(answer, Unknown):
            told[_number(job)] = answer
        elif (unanswered_count := unanswered_count + 1) == MAX_UNANSWERED:
            break
    with state.lock:
        wanted = {_number(known.job) for known in state.tracked.values()}
        kept = {number: address for number, address in state.mail_users.items() if number in wanted}
        state.mail_users = kept | told


def _gather(parts: Parts, state: State, told_of: tuple[Flag, ...], open_flags: tuple[Flag, ...]) -> notices.Facts:
    jobs: dict[tuple[RunKey, int | None], Job] = {}
    queued: set[RunKey] = set()
    for known in state.tracked.values():
        if known.run is not None:
            jobs[known.run, known.job.job_id] = _with_mail_user(state, known.job)
            if known.is_open:
                queued.add(known.run)
    gone = [flag for flag in (*told_of, *open_flags) if (flag.finding.run, flag.finding.job_id) not in jobs]
    jobs |= parts.store.read_flag_jobs(gone)
    return notices.Facts(
        jobs=jobs,
        told=parts.store.read_told(notices.list_topics(told_of, jobs)),
        open_flags=open_flags,
        queued_runs=queued,
    )


def _with_mail_user(state: State, job: Job) -> Job:
    asked = state.mail_users.get(_number(job))
    return replace(job, mail_user=asked) if asked else job


def _number(job: Job) -> int:
    """Return what the tasks of one array share: they were submitted as one."""
    return job.job_id if job.array_job_id is None else job.array_job_id
