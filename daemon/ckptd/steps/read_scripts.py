"""Reads what jobs ask of Slurm before their limit, where the site lets batch scripts be read.

Only scripts of jobs whose limit would take work are read, each once: for the others it changes nothing.
"""

from collections.abc import Collection, Iterable

from ckptd.core.health.at_risk import AtRisk
from ckptd.core.job_actions import sbatch_options
from ckptd.core.model import Flag, Unknown
from ckptd.steps.parts import Parts
from ckptd.steps.state import State

MAX_READ = 20  # scripts at once: each is a question of its own to Slurm


def list_unread(parts: Parts, state: State, flags: Iterable[Flag]) -> list[int]:
    """Return the jobs at risk whose scripts were not read yet, as many as may be read now."""
    if not parts.reads_batch_scripts:
        return []
    at_risk = {flag.finding.job_id for flag in flags if flag.finding.rule == AtRisk.name}
    unread = [
        job_id
        for job_id, known in state.tracked.items()
        if job_id in at_risk and job_id not in state.signals and known.job.is_running and known.job.is_batch
    ]
    return unread[:MAX_READ]


def read_signals(parts: Parts, state: State, job_ids: Collection[int]) -> None:
    """Read these jobs' scripts; one that Slurm does not give counts as one that asks for nothing."""
    for job_id in job_ids:
        script = parts.source.read_batch_script(job_id)
        options = () if isinstance(script, Unknown) else sbatch_options.read_directives(script)
        with state.lock:
            state.signals[job_id] = sbatch_options.find_signal(options)
