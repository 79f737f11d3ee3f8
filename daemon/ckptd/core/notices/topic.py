"""Topics of notices: one rule for one run or array is one topic, regardless of its number of flags."""

import hashlib
from collections.abc import Iterable, Mapping

from ckptd.core.health.not_resubmitted import NotResubmitted
from ckptd.core.health.resubmitted import WasResubmitted
from ckptd.core.model import Flag, Job, RunKey

_OF_ONE_END = frozenset({NotResubmitted.name, WasResubmitted.name})  # news each time, not a state of the run


def list_topics(flags: Iterable[Flag], jobs: Mapping[tuple[RunKey, int | None], Job]) -> frozenset[str]:
    """Return the topics whose earlier notices planning needs."""
    return frozenset(
        topic for flag in flags for topic in topics_of(flag, jobs.get((flag.finding.run, flag.finding.job_id)))
    )


def topics_of(flag: Flag, job: Job | None) -> tuple[str, ...]:
    """Return a flag's topics; the last one is by its job, as used before its directory was known."""
    finding = flag.finding
    if job is not None and job.array_job_id is not None:
        return (hash_parts(finding.rule, *finding.run[:2], "array", job.array_job_id),)
    by_job = hash_parts(finding.rule, *finding.run[:2], "job", finding.job_id)
    if finding.run.is_located and finding.rule not in _OF_ONE_END:
        return (hash_parts(finding.rule, *finding.run), by_job)
    return (by_job,)


def thread_of(flag: Flag, job: Job | None) -> str:
    if job is not None and job.array_job_id is not None:
        return hash_parts(*flag.finding.run[:2], "array", job.array_job_id)
    return hash_parts(*flag.finding.run)


def hash_parts(*parts: object) -> str:
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()
