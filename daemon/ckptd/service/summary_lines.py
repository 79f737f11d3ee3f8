"""One line each for people who read the log or `systemctl status`: how the daemon started, and how the cluster is."""

from ckptd.core.fleet.snapshot import Report
from ckptd.present.formatting import format_count
from ckptd.steps.parts import Parts


def describe_start(parts: Parts, *, version: str, listen: str, lease_epoch: int) -> str:
    """Say which version started, for which cluster, and where it reads and shows it; `listen` may be empty."""
    page = f"status page and metrics on {listen}" if listen else "no status page"
    return (
        f"ckptd {version}, cluster {parts.cluster}, queue from {parts.source.name}, {page}, lease epoch {lease_epoch}"
    )


def describe_report(report: Report) -> str:
    """Summarise the state of the cluster in one sentence."""
    if report.slurm_trouble:
        return f"Slurm: {report.slurm_trouble}"
    jobs, flags = sum(report.jobs_by_state.values()), len(report.open_flags)
    runs = format_count(sum(report.runs_by_locator.values()), "run")
    stopped = "; pruning is paused because of the clock" if report.pruned.is_clock_unreliable else ""
    return f"{format_count(jobs, 'job')}, {runs} watched, {format_count(flags, 'open flag')}{stopped}"
