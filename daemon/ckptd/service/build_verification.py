"""Builds the executor of verification jobs, for the daemon and for commands."""

from datetime import UTC, datetime, timedelta

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.executor import VerifyPlace
from ckptd.checkpoints.verify_jobs.job_executor import JobExecutor, JobLimits
from ckptd.config.verify_jobs_table import VerifyJobsSection
from ckptd.store.store import Store

DEADLINE = timedelta(minutes=2)  # of one request about a job: a few commands of Slurm


def find_verify_place(section: VerifyJobsSection) -> VerifyPlace:
    """Return where the site has checkpoints verified in full."""
    if section.partition is None:
        return VerifyPlace.HERE
    return VerifyPlace.JOBS_OR_HERE if section.fallback else VerifyPlace.JOBS


def build_job_executor(section: VerifyJobsSection, agent: BatchRunner, store: Store) -> JobExecutor:
    """Return the executor with the site's limits. Where and how its jobs run is known to the agent alone."""
    return JobExecutor(
        agent=agent,
        tickets=store.verification_tickets,
        limits=JobLimits(
            max_tasks=section.max_tasks,
            task_bytes=section.task_size,
            max_open=section.max_per_user,
            max_tries=section.max_tries,
            max_wait=section.max_wait,
            scan_entries=section.scan_beyond,
        ),
        deadline=DEADLINE,
        read_time=lambda: datetime.now(UTC),
    )
