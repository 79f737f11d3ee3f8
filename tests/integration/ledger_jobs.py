"""Jobs whose losses are known, and how each of them is broken off."""

from datetime import timedelta
from pathlib import Path

from ckptd.core.model import EndCause
from integration.watch import is_on_account, now

SLEEP = "#!/bin/bash\nexec sleep 1000\n"
PARTS = """#!/bin/bash
#SBATCH --requeue --nodelist=n3 --gpus=a100:1
#SBATCH hetjob
#SBATCH --nodelist=n4 --cpus-per-task=2 --gres=gpu:a100:1,gpu:v100:1
exec sleep 1000
"""
# saves once a second under another name, each whole at once
SAVE = """#!/bin/bash
mkdir -p ckpt
for step in $(seq 1000); do
    n=$(ls ckpt | wc -l)
    cp "{source}" ".new-$SLURM_JOB_ID" && mv ".new-$SLURM_JOB_ID" "ckpt/step_$((n + 1)).safetensors"
    sleep 1
done
"""
HERE = "--comment=ckpt=."  # nothing is claimed of jobs of which nobody knows where they save
SAVED = Path(__file__).parents[1] / "data/formats"


def break_off(slurm, user, watch, submit):
    """Break several jobs off, each in its own way and all at the same time: most of it is waiting for Slurm."""
    limited = submit(SLEEP, HERE, "--time=1", "--nodelist=n3", "--gpus=1", directory="limited", is_seen=False)
    suspended = submit(SLEEP, HERE, "--nodelist=n3", directory="suspended", is_seen=False)
    options = (HERE, "--requeue", "--nodelist=n3", "--cpus-per-task=2", "--gres=gpu:a100:2")
    requeued = submit(SLEEP, *options, directory="requeued", is_seen=False)
    parts = submit(PARTS, HERE, directory="parts", is_seen=False)
    preempted = submit(SLEEP, HERE, "--requeue", "--nodelist=n1", directory="preempted", is_seen=False)
    failed = submit(SLEEP, HERE, "--requeue", "--nodelist=n2", directory="node-failed")
    jobs = {"limited": limited, "suspended": suspended, "requeued": requeued, "preempted": preempted, "failed": failed}
    jobs["parts"] = parts
    watch.wait("all to be seen running", lambda: all(watch.attempts(job) for job in jobs.values()))
    started_at = max(watch.attempts(job)[0].started_at for job in jobs.values())
    watch.wait("all to have run for seconds that can be lost", lambda: now() - started_at > timedelta(seconds=2))
    # slurmctld tells slurmdbd of starts every few seconds; of one that is requeued before that nothing is kept
    watch.wait("accounting to know of all", lambda: all(is_on_account(slurm, job) for job in jobs.values()))
    slurm.command("scontrol", "update", f"JobId={limited}", "EndTime=now+2")
    slurm.command("scontrol", "suspend", str(suspended))
    slurm.command("scontrol", "requeue", str(requeued))
    slurm.command("scontrol", "requeue", str(parts))
    urgent = slurm.submit(user, SLEEP, "--partition=urgent", "--nodelist=n1", "--exclusive")
    watch.wait("the preemption", lambda: watch.causes(preempted)[0] is EndCause.PREEMPTION)
    slurm.command("scancel", str(urgent))
    slurm.kill_node("n2")
    watch.wait("the failure", lambda: watch.causes(failed)[0] is EndCause.NODE_FAILURE)
    slurm.start_node("n2")
    restarted = requeued, preempted, failed
    watch.wait("the second attempts", lambda: all(len(watch.attempts(job)) == 2 for job in restarted))
    slurm.command("scontrol", "resume", str(suspended))
    return jobs


def make_saver(slurm):
    """Return the script of a job that saves once a second; what it copies lies where every user may read it."""
    source = SAVED / "huggingface_shards/run_best/sharded_model/model-00001-of-00002.safetensors"
    copy = slurm.directory / "step.safetensors"
    copy.write_bytes(source.read_bytes())
    copy.chmod(0o644)
    return SAVE.format(source=copy)


def wait_for_restarts(slurm, job, count):
    def restarted():
        text = slurm.command("scontrol", "show", "job", str(job))
        return f"Restarts={count} " in text and "JobState=RUNNING" in text

    slurm.wait_for(f"job {job} to run with {count} restarts", restarted)
