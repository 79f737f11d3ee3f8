"""A stand-in for Slurm that knows one kind of job: verification jobs, whose tasks run when the test says so."""

import json
import os
import subprocess
import sys

PROGRAM = r"""
import json, os, pwd, sys
here = os.path.dirname(os.path.abspath(sys.argv[0]))
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
plan = json.load(open(os.path.join(here, "plan.json"))).get(name, {})
jobs = os.path.join(here, "jobs")
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps([name, words]) + "\n")
options = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
sys.stderr.write(plan.get("stderr", ""))
if plan.get("rc"):
    sys.exit(plan["rc"])
def read(job_id):
    return json.load(open(os.path.join(jobs, job_id)))
def write(job_id, job):
    with open(os.path.join(jobs, job_id), "w") as file:
        json.dump(job, file)
def list_numbers(text):
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
if name == "sbatch":
    job_id = str(len(os.listdir(jobs)) + 1)
    tasks = {str(number): "PENDING" for number in list_numbers(options["--array"])}
    write(job_id, {"name": options["--job-name"], "uid": os.geteuid(), "script": sys.stdin.read(), "tasks": tasks})
    if plan.get("lost"):
        sys.exit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    print(job_id)
elif name == "squeue":
    wanted = options.get("--jobs")
    if wanted and not os.path.exists(os.path.join(jobs, wanted)):
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    fields = [part.partition(":")[::2] for part in words[-1].split(",")]
    for job_id in [wanted] if wanted else sorted(os.listdir(jobs), key=int):
        job = read(job_id)
        if "--name" in options and job["name"] != options["--name"]:
            continue
        if "--user" in options and options["--user"] not in (str(job["uid"]), pwd.getpwuid(job["uid"]).pw_name):
            continue
        for number, state in job["tasks"].items():
            if "--states" not in options and state not in ("PENDING", "RUNNING"):
                continue
            values = {"Name": job["name"], "ArrayJobID": job_id, "ArrayTaskID": number, "State": state}
            sys.stdout.write("".join(values[field] + suffix for field, suffix in fields) + "\n")
elif name == "scancel":
    job = read(words[-1])
    for number, state in job["tasks"].items():
        if state in ("PENDING", "RUNNING"):
            job["tasks"][number] = "CANCELLED"
    write(words[-1], job)
elif name == "sacctmgr":
    if "rows" not in plan:
        sys.exit("You are not running a supported accounting_storage plugin")
    for row in plan["rows"]:
        print("|".join(row))
"""


class VerificationSlurm:
    """The programs in a directory of their own; `path` is to come first in PATH."""

    def __init__(self, path, uid):
        self.path = path
        self.uid = uid
        (path / "jobs").mkdir(parents=True)
        (path / "calls").touch()
        for place in (path, path / "jobs", path / "calls"):
            os.chown(place, uid, -1)
        for name in ("sbatch", "squeue", "scancel", "sacctmgr"):
            (path / name).write_text(f"#!/usr/bin/python3 -IS\n{PROGRAM}")
            (path / name).chmod(0o755)
        self.plan()

    def plan(self, **programs):
        """Say how programs answer: `rc`, `stderr`, the `rows` of sacctmgr, whether sbatch's answer is `lost`."""
        (self.path / "plan.json").write_text(json.dumps(programs))

    def list_calls(self, name):
        calls = map(json.loads, (self.path / "calls").read_text().splitlines())
        return [words for program, words in calls if program == name]

    def list_jobs(self):
        return {int(path.name): json.loads(path.read_text()) for path in sorted((self.path / "jobs").iterdir())}

    def set_states(self, job_id, **states):
        """Set the states of tasks, as in `t0="RUNNING"`."""
        job = self.list_jobs()[job_id]
        job["tasks"] |= {name.removeprefix("t"): state for name, state in states.items()}
        (self.path / "jobs" / str(job_id)).write_text(json.dumps(job))

    def forget(self, job_id):
        """Let the queue no longer show a job."""
        (self.path / "jobs" / str(job_id)).rename(self.path / f"forgotten-{job_id}")

    def run_tasks(self, job_id, *numbers):
        """Run tasks of a job as its user, by default all that wait."""
        job = self.list_jobs()[job_id]
        for number, state in job["tasks"].items():
            if state != "PENDING" or (numbers and int(number) not in numbers):
                continue
            done = subprocess.run(
                ["/bin/sh", "-s"],
                input=job["script"],
                text=True,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": number},
                capture_output=True,
                check=False,
                **({"user": job["uid"], "group": job["uid"], "extra_groups": []} if os.geteuid() == 0 else {}),
            )
            sys.stderr.write(done.stderr)
            self.set_states(job_id, **{f"t{number}": "COMPLETED" if done.returncode == 0 else "FAILED"})
