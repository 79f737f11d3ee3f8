"""Programs that stand in for a Slurm whose jobs are files, so that commands change what the next poll sees.

`jobs/ID` has a job's fields as squeue names them, `held/ID` exists if the job was held, and each line of `calls` is a
command that changed a job. `sbatch` and a hold take up to half a second on either side of the change, as a busy
slurmctld does, so that a daemon can be killed in the middle of either.
"""

import json
import os
import time

PROGRAM = r"""
import json, os, random, sys, time
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
root = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
def path(*parts):
    return os.path.join(root, *parts)
def wait():
    if os.path.exists(path("delay")):
        with open(path("waiting"), "w") as file:
            file.write(str(os.getpid()))
        with open(path("delay")) as file:
            time.sleep(float(file.read()))
    time.sleep(random.uniform(0, 0.5))
def record(*call):
    with open(path("calls"), "a") as calls:
        calls.write(json.dumps([time.time(), *call]) + "\n")
def option(wanted):
    found = [each.split("=", 1)[1] for each in arguments if each.startswith(f"--{wanted}=")]
    return found[0] if found else ""
def clock(seconds):
    seconds = max(int(seconds), 0)
    return f"{seconds // 86400}-{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
def read(number):
    with open(path("jobs", number)) as file:
        job = json.load(file)
    if os.path.exists(path("held", number)) and job["State"] in {"RUNNING", "PENDING"}:
        count = str(int(job["RestartCnt"]) + (job["State"] == "RUNNING"))
        job |= {"State": "PENDING", "Reason": "JobHeldUser", "StartTime": "N/A", "EndTime": "N/A", "NodeList": ""}
        job["RestartCnt"] = count
    is_running = job["State"] == "RUNNING"
    return job | {"TimeLeft": clock(int(job["EndTime"]) - time.time()) if is_running else job["TimeLimit"]}
if name == "squeue":
    fields = [part.split(":", 1) for part in arguments[-1].split(",")]
    for number in option("jobs").split(",") if option("jobs") else sorted(os.listdir(path("jobs")), key=int):
        try:
            job = read(number)
        except FileNotFoundError:
            continue
        print("".join(job.get(field, "N/A") + end for field, end in fields))
elif name == "sbatch":
    wait()
    number = max(map(int, os.listdir(path("numbers")))) + 1
    while True:
        try:
            os.mkdir(path("numbers", str(number)))
            break
        except FileExistsError:
            number += 1
    now = str(int(time.time()))
    job = json.load(open(path("submitted.json"))) | {
        "JobID": str(number), "ArrayJobID": str(number), "UserID": str(os.getuid()), "SubmitTime": now,
        "Comment": option("comment"), "WorkDir": option("chdir"), "Name": option("job-name"), "State": "PENDING",
        "UserName": os.environ["USER"], "StartTime": "N/A", "EndTime": "N/A",
    }
    with open(path(f".{number}"), "w") as file:
        json.dump(job, file)
    os.rename(path(f".{number}"), path("jobs", str(number)))
    record("sbatch", str(number), option("comment"), option("chdir"))
    wait()
    print(number)
elif name == "scontrol" and arguments[0] in {"hold", "requeuehold"}:
    wait()
    open(path("held", arguments[1]), "w").close()
    record("hold", arguments[1])  # after it is held: a command that is killed between the two has done nothing twice
    wait()
elif name == "scontrol" and arguments[:2] == ["write", "batch_script"]:
    print("#!/bin/bash\ntrue")
elif name == "scontrol" and "job" in arguments:
    print("JobId=" + arguments[-1] + "\n   ReqNodeList=(null) ExcNodeList=(null)\n   StdOut=/dev/null")
elif name == "scontrol":
    print(f"Configuration data as of {int(time.time())}\nClusterName = lab\nSlurmctld(primary) at host is UP")
else:
    sys.exit("Slurm accounting storage is disabled")
"""
FIELDS = {
    "ArrayTaskID": "N/A", "HetJobID": "N/A", "Account": "lab", "Partition": "main", "QOS": "normal", "Reason": "None",
    "RestartCnt": "0", "Requeue": "1", "TimeLimit": "0-04:00:00", "Dependency": "(null)", "NodeList": "n1",
    "BatchHost": "n1", "NumNodes": "1", "NumCPUs": "2", "BatchFlag": "1", "tres-alloc": "cpu=2,node=1,billing=2",
    "tres-per-node": "N/A", "tres-per-job": "N/A", "tres-per-task": "N/A", "NumTasks": "1", "Name": "train",
    "Comment": "(null)", "Command": "/bin/true", "admin_comment": "(null)", "STDOUT": "/dev/null", "Nice": "0",
}  # fmt: skip


class SimulatedSlurm:
    """A cluster in a directory that every user may write to."""

    def __init__(self, root):
        self._root = root
        for name in ("", "jobs", "held", "numbers"):
            (root / name).mkdir(exist_ok=True)
            (root / name).chmod(0o777)
        (root / "calls").touch()
        (root / "calls").chmod(0o666)
        (root / "submitted.json").write_text(json.dumps(FIELDS))
        self.programs = root / "bin"
        self.programs.mkdir()
        for name in ("squeue", "sbatch", "scontrol", "scancel", "sacct", "sacctmgr"):
            # the project's own Python may be where users cannot read it
            (self.programs / name).write_text(f"#!/usr/bin/python3 -IS\n{PROGRAM}")
            (self.programs / name).chmod(0o755)

    @property
    def environment(self):
        return {"PATH": f"{self.programs}:{os.environ['PATH']}"}

    def submit(self, user, work_dir, **fields):
        """Put a job of a user into the queue, pending; return its id."""
        number = max(map(int, os.listdir(self._root / "numbers")), default=0) + 1
        while True:
            try:
                (self._root / "numbers" / str(number)).mkdir()
                break
            except FileExistsError:
                number += 1
        job = {
            **FIELDS,
            "JobID": str(number), "ArrayJobID": str(number), "UserName": user.name, "UserID": str(user.uid),
            "WorkDir": str(work_dir), "State": "PENDING", "SubmitTime": str(int(time.time())), "StartTime": "N/A",
            "EndTime": "N/A",
        }  # fmt: skip
        self._write(number, {**job, **fields})
        return number

    def start(self, number, **fields):
        """Let a job run, with four hours left."""
        now = int(time.time())
        self.change(number, State="RUNNING", StartTime=str(now), EndTime=str(now + 4 * 3600), **fields)

    def end(self, number, state):
        self.change(number, State=state, EndTime=str(int(time.time())))

    def change(self, number, **fields):
        self._write(number, {**self.read(number), **fields})

    def read(self, number):
        return json.loads((self._root / "jobs" / str(number)).read_text())

    def forget(self, number):
        """Remove an ended job from the queue."""
        (self._root / "jobs" / str(number)).unlink()

    def is_held(self, number):
        return (self._root / "held" / str(number)).exists()

    def delay(self, seconds):
        """Let each command that changes a job wait so long before it does that."""
        (self._root / "delay").write_text(str(seconds))

    def find_waiting(self):
        """Return the process id of the command that was delayed last; None if there is none, or it has ended."""
        try:
            number = int((self._root / "waiting").read_text())
            os.kill(number, 0)
        except (OSError, ValueError):
            return None
        return number

    def list_calls(self):
        """Return the commands that changed jobs: when, which, the job, and what else it named."""
        return [json.loads(line) for line in (self._root / "calls").read_text().splitlines()]

    def _write(self, number, job):
        path = self._root / "jobs" / str(number)
        new = self._root / f".{number}"
        new.write_text(json.dumps(job))
        new.replace(path)
