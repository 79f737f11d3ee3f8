"""Reads from batch scripts which signal a job requests before its time limit, if `read_batch_scripts` is set.

It reads only scripts of jobs that would lose work at their limit or have saved nothing for long, each once; for other
jobs it makes no difference.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.job_actions import sbatch_options
from ckptd.core.model import Flag, JobKey, LimitSignal, Unknown
from ckptd.slurm.failure_reasons import is_deferred
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import State

ASKING = frozenset({AtRisk.name, NoCheckpointYet.name})  # rules whose answer depends on the signal
MAX_READ = 20  # scripts at once: each is a question of its own to Slurm


@dataclass(slots=True)
class _Signals:
    """The requested signals from the scripts read so far; a slice of the step `decide`."""

    by_job: dict[int, LimitSignal | None] = field(default_factory=dict)
    keys: dict[int, JobKey] = field(default_factory=dict)  # of the jobs whose scripts were read


def known_signals(state: State) -> Mapping[int, LimitSignal | None]:
    """Return the signals that scripts request, by job."""
    return state.own(_Signals, _Signals).by_job


def _forget_ended(state: State) -> Mapping[int, LimitSignal | None]:
    """Remove the jobs that left the queue, and those whose ids Slurm has reused."""
    found, tracked = state.own(_Signals, _Signals), state.latest(PolledQueue).tracked
    found.by_job = {
        job_id: signal
        for job_id, signal in found.by_job.items()
        if (known := tracked.get(job_id)) and known.is_open and found.keys.get(job_id, known.key) == known.key
    }
    found.keys = {job_id: key for job_id, key in found.keys.items() if job_id in found.by_job}
    return found.by_job


def list_unread(parts: Parts, state: State, flags: Iterable[Flag]) -> list[int]:
    """Return the jobs with flags that depend on a signal whose scripts were not read yet, up to a limit of one step."""
    signals = _forget_ended(state)
    if not parts.reads_batch_scripts:
        return []
    flagged = {flag.finding.job_id for flag in flags if flag.finding.rule in ASKING}
    unread = [
        job_id
        for job_id, known in state.latest(PolledQueue).tracked.items()
        if job_id in flagged and job_id not in signals and known.job.is_running and known.job.is_batch
    ]
    return unread[:MAX_READ]


def read_signals(parts: Parts, state: State, job_ids: Collection[int]) -> None:
    """Read these jobs' scripts; a script that Slurm does not return counts as one that requests no signal.

    Their requests are urgent, because a flag without the signal would be wrong.
    """
    tracked = state.latest(PolledQueue).tracked
    for known in [tracked[job_id] for job_id in job_ids if job_id in tracked]:
        job = known.job
        script = parts.source.read_batch_script(job, is_urgent=True)
        if is_deferred(script):
            return
        options = () if isinstance(script, Unknown) else sbatch_options.read_directives(script)
        with state.record_lock:
            signals = state.own(_Signals, _Signals)
            signals.by_job[job.job_id] = sbatch_options.find_signal(options)
            signals.keys[job.job_id] = known.key
