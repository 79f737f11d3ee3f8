"""The commands by which Slurm is told to do something to a job. Nothing is run here but the administrator's own.

What a user may do to a job of theirs is run as that user, by the agent; only AdminComment is the administrator's.
"""

from ckptd.core.model import Job, Unknown
from ckptd.slurm import trouble
from ckptd.slurm.programs import Programs


def name_job(job: Job) -> str:
    """Return what names this one job: an array's last task has the array's own number, which would mean all of them."""
    if job.array_job_id is not None and job.array_task_id is not None:
        return f"{job.array_job_id}_{job.array_task_id}"
    return str(job.job_id)


def format_signal(job: Job, signal: str) -> list[str]:
    """Return the command that sends a signal as `sbatch --signal` would: to the steps, or `B:` to the batch shell."""
    is_batch = signal.startswith("B:")
    argv = ["scancel", f"--signal={signal.removeprefix('B:')}", "--state=RUNNING"]
    return [*argv, *(["--batch"] if is_batch else []), name_job(job)]


def format_hold(job: Job) -> list[str]:
    """Return the command that keeps a job from starting again, ending it first where it runs."""
    return ["scontrol", "requeuehold" if job.is_running else "hold", name_job(job)]


def format_script(job: Job) -> list[str]:
    """Return the command that prints a job's batch script."""
    return ["scontrol", "write", "batch_script", str(job.job_id), "-"]


def format_submit(job: Job) -> list[str]:
    """Return the command that submits a script as the job was: options of its submission that the record knows.

    The limits of whoever calls sbatch would become the job's: none is handed on.
    """
    options = {
        "job-name": job.name,
        "comment": job.comment,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "time": str(max(int(job.time_limit.total_seconds()) // 60, 1)) if job.time_limit else "",
        "chdir": str(job.work_dir) if job.work_dir else "",
    }
    given = [f"--{name}={value}" for name, value in options.items() if value and value != "(null)"]
    return ["sbatch", "--parsable", "--propagate=NONE", *given]


def write_summary(programs: Programs, job: Job, text: str) -> Unknown | None:
    """Write a job's AdminComment; Unknown with the reason where Slurm refuses."""
    argv = ["scontrol", "update", f"JobId={name_job(job)}", f"AdminComment={text}"]
    answer = programs.read("admin comment", argv)
    if isinstance(answer, Unknown):
        return answer
    finished = answer[1]
    return None if finished.is_clean else trouble.classify("admin comment", finished.returncode, finished.stderr)
