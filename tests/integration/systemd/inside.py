"""Runs as root in a container whose first process is systemd: installs ckptd as docs/operating.md says and tries it.

Writes /out/facts.json; the test outside judges them.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, "/deploy")

from demo.patience import Deadline

OUT = pathlib.Path("/out")
FACTS = {}
METRICS = "http://127.0.0.1:9478/metrics"
DROP_IN = pathlib.Path("/etc/systemd/system/ckptd.service.d/test.conf")
ATTACK = pathlib.Path("/tests/integration/systemd/subverted_service.py")
CONFIG = pathlib.Path("/etc/ckptd/config.toml")
GOOD = """
[slurm]
poll_interval = "1s"
[scan]
interval = "1s"
write_grace = "1s"
[health]
min_job_duration = "1s"
[actions]
signal = ["main"]
hold = ["main"]
summary = ["main"]
resubmit = ["main"]
signal_margin = "25s"
min_loss = "1s"
[service]
heartbeat_url = "http://127.0.0.1:9479/heartbeat"
"""
LAUNCHER = "/opt/ckptd/bin/ckptd"
WATCHED = "[Service]\nWatchdogSec=12\nRestartSec=1\n"
FIELDS = ("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "RUN", "JOB", "USER", "RULE", "STEP")
SLURM = """
ClusterName=boxed
SlurmctldHost={host}(127.0.0.1)
SlurmUser=ckptd
AuthInfo=cred_expire=5
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=5
SlurmdParameters=config_overrides
NodeName=box NodeHostname={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=main Nodes=box Default=YES DefaultTime=10 State=UP
"""
HOME = pathlib.Path("/home/alice")
SAVE = "#!/bin/bash\nsave() { cp ../step .new && mv .new ckpt/step_$(($(ls ckpt | wc -l) + 1)).safetensors; }\n"
SIGNALLED = f"{SAVE}trap 'save; touch said' USR1\nsave\nwhile true; do sleep 0.2; done\n"
GOES_ON = f"{SAVE}echo $SLURM_JOB_ID $(id -u) $(ls ckpt | wc -l) $* >>began\nsave\nsleep 1000\n"
LOOPING = "#!/bin/bash\nsleep 4\nscontrol requeue $SLURM_JOB_ID\nsleep 30\n"
JOBS = {}
HEARTBEATS = []


class Heartbeat(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        HEARTBEATS.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        """Say nothing."""


def run(*argv, check=True):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{argv}: {done.returncode}: {done.stdout}{done.stderr}")
    return done


def wait_for(condition, what, seconds=40.0):
    until = Deadline(seconds)
    while not (found := condition()):
        if until.has_passed():
            raise RuntimeError(f"{what} did not happen in {until.elapsed:.0f} s")
        time.sleep(0.4)  # most conditions ask programs, which takes more CPU than what is waited for
    return found


def show(name):
    return run("systemctl", "show", "--value", "--property", name, "ckptd").stdout.strip()


def main_pid():
    return int(show("MainPID"))


def scrape():
    try:
        with urllib.request.urlopen(METRICS, timeout=2) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def helpers_of(pid):
    """Return the modules that a daemon runs as processes of their own, by their pids; no program that it just runs."""
    found = {}
    for child in run("pgrep", "--parent", str(pid), check=False).stdout.split():
        with contextlib.suppress(FileNotFoundError):  # it has ended
            argv = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
            if "-m" in argv:
                found[int(child)] = argv[argv.index("-m") + 1]
    return found


def install():
    run("python3", "-m", "venv", "--without-pip", "/opt/ckptd")
    [site] = pathlib.Path("/opt/ckptd/lib").glob("python3.*/site-packages")
    (site / "dependencies.pth").write_text("/dependencies\n")
    run("python3", "-m", "zipfile", "-e", str(next(pathlib.Path("/wheel").glob("*.whl"))), str(site))
    run("python3", "-m", "compileall", "-q", str(site / "ckptd"))  # as pip does
    launcher = pathlib.Path("/opt/ckptd/bin/ckptd")
    launcher.write_text("#!/opt/ckptd/bin/python3\nfrom ckptd.cli import main\nmain()\n")
    launcher.chmod(0o755)
    run("install", "-D", "-m", "644", "/deploy/systemd/ckptd.sysusers", "/etc/sysusers.d/ckptd.conf")
    run("systemd-sysusers")
    run("install", "-d", "-m", "750", "-o", "ckptd", "-g", "ckptd", "/var/lib/ckptd")
    run("install", "-m", "644", "/deploy/systemd/ckptd.service", "/etc/systemd/system/")
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text(GOOD)
    FACTS["verify"] = run(
        "systemd-analyze", "verify", "--recursive-errors=yes", "/etc/systemd/system/ckptd.service", check=False
    ).stderr
    run("/opt/ckptd/bin/ckptd", "config", "check")
    DROP_IN.parent.mkdir()
    DROP_IN.write_text(WATCHED)
    run("systemctl", "daemon-reload")


def start_slurm():
    """A Slurm of one node whose administrator ckptd is, two jobs whose limits are far away, and one in a loop."""
    host = socket.gethostname()
    with pathlib.Path("/etc/hosts").open("a") as hosts:
        hosts.write(f"127.0.0.1 {host}\n")
    run("ip", "address", "add", "192.0.2.1/32", "dev", "lo")  # with loopback alone getaddrinfo finds no address at all
    pathlib.Path("/etc/slurm/slurm.conf").write_text(SLURM.format(host=host))
    pathlib.Path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # slurmd cannot tell in a container
    run("install", "-d", "-o", "ckptd", "/var/lib/slurm/slurmctld")
    run("systemctl", "start", "munge", "slurmctld", "slurmd")
    wait_for(lambda: run("sinfo", "-h", "-o", "%T", check=False).stdout.strip() == "idle", "an idle node")
    run("useradd", "--create-home", "alice")
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (HOME / "step").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    submit("signalled", SIGNALLED, "--comment=ckpt=ckpt ckpt-signal=B:USR1")
    submit("goes-on", GOES_ON, "--cpus-per-task=2", arguments=["one"])
    submit("looping", LOOPING, "--requeue")


def submit(name, script, *options, arguments=()):
    work_dir = HOME / name
    (work_dir / "ckpt").mkdir(parents=True)
    (work_dir / "job.sh").write_text(script)
    wish = "resubmit = true\nmax_resubmits = 1\n" if name == "goes-on" else ""
    (work_dir / ".ckptd.toml").write_text(f'directory = "ckpt"\n{wish}')
    run("chown", "--recursive", "alice:", str(HOME))
    argv = ["sbatch", "--parsable", f"--chdir={work_dir}", *options, str(work_dir / "job.sh"), *arguments]
    JOBS[name] = run("runuser", "-u", "alice", "--", *argv).stdout.strip()


def start():
    threading.Thread(target=http.server.HTTPServer(("127.0.0.1", 9479), Heartbeat).serve_forever, daemon=True).start()
    run("systemctl", "start", "ckptd")
    FACTS["active_after_start"] = show("ActiveState")
    wait_for(lambda: "ckptd_slurm_up" in scrape(), "the first metrics")
    FACTS["metrics"] = scrape()
    pid = main_pid()
    FACTS["main"] = status_of(pid)
    FACTS["ckptd_uid"] = int(run("id", "-u", "ckptd").stdout)
    FACTS["children"] = {name: status_of(child) for child, name in helpers_of(pid).items()}
    wait_for(lambda: run("/opt/ckptd/bin/ckptd", "status", check=False).returncode == 0, "a good status")
    FACTS["jobs"] = json.loads(run("/opt/ckptd/bin/ckptd", "jobs", "--json").stdout)
    FACTS["state_directory"] = run("stat", "-c", "%U %a", "/var/lib/ckptd").stdout.strip()
    FACTS["status_text"] = show("StatusText")


def kill_and_return():
    pid = main_pid()
    helpers = set(helpers_of(pid))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: main_pid() not in {0, pid} and show("ActiveState") == "active", "the restart after kill -9")
    wait_for(lambda: "ckptd_slurm_up" in scrape(), "metrics after the restart")
    FACTS["helpers_left"] = sorted(child for child in helpers if pathlib.Path(f"/proc/{child}").exists())


def reload_both_ways():
    pid = main_pid()
    CONFIG.write_text("[slurm]\nnonsense = 1\n")
    refused = subprocess.run(["systemctl", "reload", "ckptd"], check=False)
    FACTS["is_reload_refused"] = refused.returncode != 0
    wait_for(lambda: "nonsense" in journal(), "the complaint about the wrong configuration")
    os.kill(pid, signal.SIGHUP)  # as people do who know no systemctl
    wait_for(lambda: "configuration reload failed" in journal(), "the daemon's own complaint")
    CONFIG.write_text(GOOD + 'log_level = "info"\n')
    run("systemctl", "reload", "ckptd")
    wait_for(lambda: "configuration reloaded" in journal(), "the good configuration")
    FACTS["same_after_reload"] = main_pid() == pid and show("ActiveState") == "active"


def hang_and_return():
    """While it hangs, one job comes to its limit and another near to it."""
    wait_for(saw_saves, "the jobs' saves to be seen")
    run("scontrol", "update", f"JobId={JOBS['goes-on']}", "EndTime=now+2")
    run("scontrol", "update", f"JobId={JOBS['signalled']}", "EndTime=now+45")
    pid = main_pid()
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: main_pid() not in {0, pid} and show("ActiveState") == "active", "the watchdog's restart", 60)
    FACTS["result_of_watchdog"] = "watchdog" in journal().lower()


def saw_saves():
    jobs = json.loads(run("/opt/ckptd/bin/ckptd", "jobs", "--json").stdout)["jobs"]
    saved = {str(job["job_id"]): job["checkpoints"] for job in jobs}
    return [saved.get(JOBS[name]) for name in ("signalled", "goes-on")] == [1, 1]


def act():
    """What ckptd does from within the unit's sandbox, as a job's user and as Slurm's administrator."""
    wait_for(lambda: all(f"{kind}-job: " in journal() for kind in ("signal", "resubmit", "hold")), "the acts", 90)
    FACTS["acts"] = sorted(re.findall(r"((?:signal|resubmit|hold)-job: .*)", journal()))
    wait_for(lambda: re.search("AdminComment=ckptd: .*(restart-loop|job-held)", show_looping()), "the summary", 20)
    FACTS["summaries"] = re.findall(rf"write-summary: job {JOBS['looping']} of 'alice': (.*)", journal())
    wait_for(lambda: "JobState=PENDING" in show_looping(), "the end of the held job's last attempt")
    FACTS["looping"] = dict(re.findall(r"(JobState|Reason|Priority)=(\S+)", show_looping()))
    FACTS["jobs_of_acts"], FACTS["alice_uid"] = JOBS, int(run("id", "-u", "alice").stdout)
    wait_for((HOME / "signalled/said").exists, "the signal", 10)
    began = HOME / "goes-on/began"
    FACTS["began"] = wait_for(lambda: (lines := began.read_text().splitlines())[1:] and lines, "the next job")
    shown = run("scontrol", "show", "job", FACTS["began"][1].split()[0]).stdout
    FACTS["next_job"] = dict(re.findall(r"(UserId|CPUs/Task|WorkDir|Comment)=(\S+)", shown))
    wait_for(lambda: HEARTBEATS, "a heartbeat", 60)
    FACTS["heartbeats"] = HEARTBEATS
    shown = run("journalctl", "--unit=ckptd", "--output=json", f"--output-fields={','.join(FIELDS)}").stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    FACTS["entries"] = [{name: entry[name] for name in FIELDS if name in entry} for entry in entries]
    run("scancel", "--user=alice")
    wait_for(lambda: not run("squeue", "-h").stdout.strip(), "the jobs' end")


def show_looping():
    return run("scontrol", "show", "job", JOBS["looping"]).stdout


def stop():
    began = time.monotonic()
    run("systemctl", "stop", "ckptd")
    FACTS["seconds_to_stop"] = time.monotonic() - began
    FACTS["result_of_stop"] = show("Result")
    FACTS["active_after_stop"] = show("ActiveState")


def freeze_agent():
    """The daemon writes JSON meanwhile, and beside it the same unit is attacked."""
    DROP_IN.write_text(f"{WATCHED}ExecStart=\nExecStart={LAUNCHER} run --log-format json\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "ckptd")
    wait_for(lambda: "ckptd_slurm_up" in scrape(), "the metrics of the daemon that writes JSON")
    pid = main_pid()
    [agent] = [child for child, name in helpers_of(pid).items() if name == "ckptd.service.agent_process"]
    os.kill(agent, signal.SIGSTOP)
    began = time.monotonic()
    be_attacked()
    wait_for(lambda: main_pid() not in {0, pid} and show("ActiveState") == "active", "the end of the silent agent", 90)
    FACTS["seconds_of_silence"] = time.monotonic() - began
    FACTS["is_silent_agent_left"] = pathlib.Path(f"/proc/{agent}").exists()
    run("systemctl", "stop", "ckptd")
    FACTS["json_lines"] = [json.loads(line) for line in journal().splitlines() if line.startswith("{")]


def be_attacked():
    """The unit as shipped, but in the daemon's place a program that plays a subverted main process and parser."""
    program = f"/opt/ckptd/bin/python3 {ATTACK}"
    environment = {"PYTHONPATH": "/tests:/deploy", "TMPDIR": "/srv/attacked", "PYTHONDONTWRITEBYTECODE": "1"}
    given = [f"{name}={value}" for name, value in environment.items()]
    run("env", *given, *program.split(), "prepare")
    run("cp", "/deploy/systemd/ckptd.service", "/etc/systemd/system/attacked.service")
    lines = ["[Service]", "Type=oneshot", "Restart=no", "WatchdogSec=0", "ReadWritePaths=/srv/attacked", "ExecStart="]
    lines += [f"ExecStart={program} attack", *(f"Environment={each}" for each in given)]
    drop_in = pathlib.Path("/etc/systemd/system/attacked.service.d/attack.conf")
    drop_in.parent.mkdir()
    drop_in.write_text("\n".join(lines) + "\n")
    run("systemctl", "daemon-reload")
    if run("systemctl", "start", "attacked", check=False).returncode:
        raise RuntimeError(run("journalctl", "--unit=attacked", "--output=cat").stdout)
    FACTS["attacks"] = json.loads(pathlib.Path("/var/lib/ckptd/attacks.json").read_text())
    left = ("/home/alice/attack", "/etc/systemd/system/attack.service", "/srv/attacked/scratch/run/attack")
    FACTS["left_by_attacks"] = [path for path in left if pathlib.Path(path).exists()]


def journal():
    return run("journalctl", "--unit", "ckptd", "--no-pager", "--output", "cat").stdout


for step in (install, start_slurm, start, kill_and_return, reload_both_ways, hang_and_return, act, stop, freeze_agent):
    print(f"{time.monotonic():.1f} {step.__name__}", flush=True)
    try:
        step()
    except Exception as error:  # noqa: BLE001 - whatever failed is told outside
        FACTS["failed"] = f"{step.__name__}: {error}"
        break
FACTS["journal"] = journal()
(OUT / "facts.json").write_text(json.dumps(FACTS))
