"""Programs that stand in for Slurm's, for tests of what no healthy cluster would do.

`squeue` prints like the real one (22.05.8): a suffix after each field, an unknown field reported on stderr and left
out with exit status 0, one record per line. What it prints and how it fails comes from a JSON file.
"""

import json
import sys

SQUEUE = r"""
import json, os, sys
plan = json.load(open(os.path.join(os.path.dirname(sys.argv[0]), "plan.json")))
out = sys.stdout.buffer
with open(os.path.join(os.path.dirname(sys.argv[0]), "calls"), "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], dict(os.environ)]) + "\n")
step = plan.get(os.path.basename(sys.argv[0]), {})
sys.stderr.write(step.get("stderr", ""))
if step.get("hang"):
    import time
    time.sleep(60)
def raw(text):
    return text.encode("utf-8", "surrogateescape")
if "jobs" in step:
    fields = []
    for part in sys.argv[-1].split(","):
        name, _, suffix = part.partition(":")
        if name in step.get("unknown_fields", []):
            sys.stderr.write(f"squeue: error: Invalid job format specification: {name}\n")
        else:
            fields.append((name, suffix))
    each = "--array" in sys.argv and "--jobs" in " ".join(sys.argv)
    if each and "each_fails" in step:
        sys.exit(step["each_fails"])
    for job in step["each"] if each and step.get("each") else step["jobs"]:
        out.write(b"".join(raw(job[name]) + raw(suffix) for name, suffix in fields) + b"\n")
elif "past" in step:
    import calendar, time
    after = dict(zip(sys.argv, sys.argv[1:]))
    fields, end = after["--format"].split(","), after["--delimiter"].encode()
    for name in step.get("unknown_fields", []):
        if name in fields:
            sys.exit(f'sacct: fatal: Invalid field requested: "{name}"')
    since, until = (calendar.timegm(time.strptime(after[name], "%Y-%m-%dT%H:%M:%S"))
                    for name in ("--starttime", "--endtime"))
    for row in step["past"]:
        if row["End"].isdigit() and since <= int(row["End"]) <= until:
            out.write(b"".join(raw(row[name]) + end for name in fields) + b"\n")
elif "--batch-script" in sys.argv:
    out.write(raw(step.get("script", "")))
else:
    key = " ".join(sys.argv[1:3])
    out.write(raw(step.get("answers", {}).get(key, step.get("stdout", ""))))
out.flush()
sys.exit(step.get("rc", 0))
"""
HEALTHY = {
    "answers": {
        "show config": "Configuration data as of now\nClusterName             = lab\nPrivateData = none\n",
        "ping": "Slurmctld(primary) at host is UP\n",
    }
}


def make_programs(directory, **plan):
    """Write stand-ins for all of Slurm's programs; `plan` says by name what each does."""
    for name in ("squeue", "scontrol", "sacct", "sacctmgr"):
        path = directory / name
        path.write_text(f"#!{sys.executable} -IS\n{SQUEUE}")
        path.chmod(0o755)
    write_plan(directory, **plan)


def write_plan(directory, **plan):
    plan.setdefault("scontrol", HEALTHY)
    (directory / "plan.json").write_text(json.dumps(plan))


def read_calls(directory):
    path = directory / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sacct_row(**fields):
    """Return a plain job that failed as sacct's fields."""
    row = {
        "JobIDRaw": "7", "JobID": "7", "UID": "1000", "State": "FAILED", "Submit": "1795000000", "Start": "1795000100",
        "End": "1795000200", "Suspended": "00:00:00", "TimelimitRaw": "30", "NodeList": "n1", "NNodes": "1",
        "NCPUS": "2", "AllocTRES": "billing=2,cpu=2,gres/gpu=1,node=1", "Partition": "main", "QOS": "normal",
        "User": "alice", "Account": "lab", "Reason": "None", "JobName": "train", "WorkDir": "/home/alice",
        "Comment": "", "AdminComment": "", "Restarts": "0", "SubmitLine": "sbatch job.sh",
    }  # fmt: skip
    return row | fields


def squeue_row(**fields):
    """Return a plain running job as squeue's fields; keywords with _ for the - in a field's name."""
    row = {
        "JobID": "7", "ArrayJobID": "7", "ArrayTaskID": "N/A", "HetJobID": "N/A", "UserName": "alice",
        "UserID": "1000", "Account": "lab", "Partition": "main", "QOS": "normal", "State": "RUNNING",
        "Reason": "None", "RestartCnt": "0", "Requeue": "1", "TimeLimit": "30:00", "TimeLeft": "20:00",
        "SubmitTime": "1795000000", "StartTime": "1795000100", "EndTime": "1795001900", "Dependency": "(null)",
        "NodeList": "n1", "BatchHost": "n1", "NumNodes": "1", "NumCPUs": "2", "BatchFlag": "1",
        "tres-alloc": "cpu=2,node=1,gres/gpu=1", "tres-per-node": "gres:gpu:1", "tres-per-job": "N/A",
        "tres-per-task": "N/A", "NumTasks": "1", "Name": "train", "WorkDir": "/home/alice", "Comment": "(null)",
        "admin_comment": "(null)", "Command": "/home/alice/train.sh --resume epoch_3.pt",
    }  # fmt: skip
    return row | {name if name in row else name.replace("_", "-"): value for name, value in fields.items()}
