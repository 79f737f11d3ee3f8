"""Runs real programs on a private Slurm under a real daemon, and judges what the daemon says of them.

make test-programs                                  # all of them, about seven minutes
... python -m programs --programs lammps --scenarios requeue,older --save-seconds 20 --record FILE
"""

import argparse
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

from demo import ports
from demo.cluster import PrivateCluster
from demo.patience import Deadline
from programs import gromacs, keras_training, lammps, report, tensorflow_training, torch_training, truth
from programs.judge import Bounds, Judge, judge_totals
from programs.scenarios import SCENARIOS, URGENT_USER, Driver
from support.quick_watcher import QuickWatcher

JOBS = Path(__file__).parent / "jobs"
PROGRAMS = {program.NAME: program for program in (gromacs, lammps, torch_training, keras_training, tensorflow_training)}
SHARED_NODES = 2  # by the runs that need none of their own
POLL_SECONDS = 2
SCAN_SECONDS = 3
SETTLE_SECONDS = 5
ASK_SECONDS = 5
ROUNDING_SECONDS = 2  # of one attempt: Slurm states whole seconds
SETTLED_SECONDS = 135  # accounting is merged, and the totals are summed again after a minute
SETTINGS = f"""
[slurm]
poll_interval = "{POLL_SECONDS}s"
timeout = "10s"
[scan]
interval = "{SCAN_SECONDS}s"
write_grace = "{SETTLE_SECONDS}s"
allowed_roots = ["{{homes}}"]
[health]
min_job_duration = "30s"
[health.rules.copy-behind]
min_lag = "25s"
[health.rules.volatile-path]
enabled = false  # the homes are below /tmp
[web]
listen = "{{listen}}"
[service]
state_directory = "{{state}}"
"""


def main():
    """Run, judge and print; return the exit status."""
    wanted = _parse()
    programs = [PROGRAMS[name] for name in wanted.programs.split(",")]
    scenarios = [each for each in SCENARIOS if each.name in wanted.scenarios.split(",")]
    own_nodes = len(programs) * sum(each.needs_own_node for each in scenarios)
    with PrivateCluster(
        name="programs",
        nodes=SHARED_NODES + own_nodes,
        cpus_per_node=32,
        user_prefix=f"ckp{os.getpid()}-",
        with_accounting=True,
    ) as cluster:
        inputs = cluster.directory / "inputs"
        shutil.copytree(JOBS, inputs)
        environment = {"JOBS": str(inputs)}
        for program in programs:
            environment |= program.prepare(inputs)
        for path in inputs.iterdir():
            path.chmod(0o755)
        watcher = QuickWatcher(cluster, SETTINGS, port=ports.find_free_ports(1)[0])
        watcher.start()
        cluster.create_user(URGENT_USER)
        driver = Driver(cluster, inputs, environment, wanted.save_seconds, cluster.node_names[SHARED_NODES:])
        runs = [run for program in programs for run in _begin(cluster, driver, program, scenarios)]
        judgements = _watch(driver, watcher, runs, wanted)
        cluster.cancel_all()
    return 1 if report.print_report(judgements) else 0


def _parse():
    parser = argparse.ArgumentParser(prog="programs", description=__doc__)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--scenarios", default=",".join(each.name for each in SCENARIOS))
    parser.add_argument("--save-seconds", type=float, default=10)
    parser.add_argument("--minutes", type=float, default=15, help="after which runs that are not over are given up")
    parser.add_argument("--record", type=Path, help="a file for all that was said and logged")
    return parser.parse_args()


def _begin(cluster, driver, program, scenarios):
    user = cluster.create_user(program.NAME)
    logs = cluster.directory / f"truth-{program.NAME}"
    logs.mkdir()
    os.chown(logs, user.uid, user.gid)
    chosen = [scenario for scenario in scenarios if scenario.name not in program.LEFT_OUT]
    return [driver.begin(scenario, program, user, logs / scenario.name) for scenario in chosen]


def _watch(driver, watcher, runs, wanted):
    """Ask again and again while the jobs run, and once more when all is settled; return the judgements."""
    rows = []
    deadline = Deadline(wanted.minutes * 60)
    while not all(run.is_over for run in runs):
        for run in runs:
            driver.advance(run)
        asked_at = time.time()
        rows.extend((asked_at, row) for row in watcher.read("jobs")["jobs"])
        if deadline.has_passed():
            print("given up:", ", ".join(f"{run.name} ({run.stage})" for run in runs if not run.is_over))
            break
        time.sleep(ASK_SECONDS)
    time.sleep(SETTLED_SECONDS)
    shown = {run.name: watcher.read("show", str(run.directory))["runs"] for run in runs}
    flags = watcher.read("flags", "--all")["flags"]
    metrics = watcher.read_metrics()
    for run in runs:
        run.attempts = truth.read_attempts(run.truth, run.program)
        for attempt in run.attempts:
            attempt.is_over = True
    if wanted.record:
        told = [{"run": run.name, "attempts": [vars(each) for each in run.attempts]} for run in runs]
        document = {"rows": rows, "shown": shown, "flags": flags, "metrics": metrics.splitlines(), "truth": told}
        wanted.record.write_text(json.dumps(document, default=str, indent=1))
    return _judge(runs, rows, shown, flags, metrics, wanted.save_seconds)


def _judge(runs, rows, shown, flags, metrics, save_seconds):
    bounds = Bounds(save=save_seconds, news=2 * SCAN_SECONDS + SETTLE_SECONDS + POLL_SECONDS)
    judgements = []
    for run in runs:
        judge = Judge(run, bounds)
        for asked_at, row in rows:
            if row["job_id"] in {attempt.job_id for attempt in run.attempts}:
                judge.judge_row(row, asked_at)
        judge.judge_show(shown[run.name])
        judge.judge_flags(flags)
        judgements += judge.judgements
    unsaved = [truth.measure_unsaved(attempt) for run in runs for attempt in run.attempts]
    redone = [seconds for run in runs for seconds in truth.measure_redone(run.attempts).values()]
    for name, true in (("lost", unsaved), ("redone", redone)):
        slack = save_seconds + ROUNDING_SECONDS * sum(seconds > 0 for seconds in true)
        low, high = (_sum(metrics, f"ckptd_{name}_{part}seconds_total") for part in ("", "high_"))
        is_part = _sum(metrics, f"ckptd_{name}_unknown_attempts_total") > 0
        judgements.append(judge_totals(f"{name} seconds", (low, high), sum(true), slack, is_part=is_part))
    return judgements


def _sum(metrics, name):
    return sum(float(value) for value in re.findall(rf"^{name}\{{[^}}]*\}} (\S+)$", metrics, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main())
