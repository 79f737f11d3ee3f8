"""Runs real programs on a private Slurm under a real daemon, and judges what the daemon says of them.

The jobs run in groups, one after the other: more of them at once need more than two cores, and scans then come late.

make test-programs                                  # all of them, in half an hour; DMTCP where DMTCP_BIN names it
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
from typing import Any, NamedTuple

from demo import ports
from demo.cluster import PrivateCluster
from demo.patience import Deadline
from programs import dmtcp, gromacs, keras_training, lammps, report, tensorflow_training, torch_training, truth
from programs.judge import Bounds, Judge, judge_totals
from programs.scenarios import SCENARIOS, URGENT_USER, Driver, Run, list_groups
from support.quick_watcher import QuickWatcher

JOBS = Path(__file__).parent / "jobs"
EVERYWHERE = (gromacs, lammps, torch_training, keras_training, tensorflow_training)
PROGRAMS = {program.NAME: program for program in (*EVERYWHERE, *([dmtcp] if dmtcp.is_there() else []))}
RUNS_AT_ONCE = 14  # of which two cores keep up with the scans
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


class Record(NamedTuple):
    """All that was said of the runs of a group, who know the truth."""

    runs: list[Run]
    rows: list[tuple[float, dict[str, Any]]]  # of `jobs`, and when it was asked
    shown: dict[str, list[dict[str, Any]]]
    flags: list[dict[str, Any]]
    metrics: str

    def to_json(self):
        """Return it as types of JSON; instants and paths are left to the encoder."""
        told = [{"run": run.name, "attempts": [vars(each) for each in run.attempts]} for run in self.runs]
        return {**self._asdict(), "runs": told, "metrics": self.metrics.splitlines()}


def main():
    """Run, judge and print; return the exit status."""
    wanted = _parse()
    programs = [PROGRAMS[name] for name in wanted.programs.split(",")]
    scenarios = [each for each in SCENARIOS if each.name in wanted.scenarios.split(",")]
    groups = list_groups(programs, scenarios, wanted.runs_at_once)
    judgements, records = [], []
    for number, group in enumerate(groups, 1):
        begun_at = time.monotonic()
        record = _run_group(group, wanted)
        found = _judge(record, wanted.save_seconds, f"group {number}")
        report.print_summary(number, len(groups), found, time.monotonic() - begun_at)
        judgements += found
        records.append(record.to_json())
        if wanted.record:
            wanted.record.write_text(json.dumps(records, default=str, indent=1))
    return 1 if report.print_report(judgements) else 0


def _run_group(group, wanted):
    """Run a group on a cluster of its own; return what was said, and what is true."""
    programs = list(dict.fromkeys(program for program, _ in group))
    own_nodes = sum(scenario.needs_own_node for _, scenario in group)
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
        watcher = QuickWatcher(cluster, SETTINGS, port=ports.find_free_ports(1)[0], is_forked=False)
        watcher.start()
        cluster.create_user(URGENT_USER)
        driver = Driver(cluster, inputs, environment, wanted.save_seconds, cluster.node_names[SHARED_NODES:])
        users = {program: _make_user(cluster, program) for program in programs}
        runs = []
        for program, scenario in group:
            user, logs = users[program]
            runs.append(driver.begin(scenario, program, user, logs / scenario.name))
        record = _watch(driver, watcher, runs, wanted)
        cluster.cancel_all()
    return record


def _parse():
    parser = argparse.ArgumentParser(prog="programs", description=__doc__)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--scenarios", default=",".join(each.name for each in SCENARIOS))
    parser.add_argument("--save-seconds", type=float, default=10)
    parser.add_argument("--runs-at-once", type=int, default=RUNS_AT_ONCE, help="in one group")
    parser.add_argument("--minutes", type=float, default=15, help="after which runs of a group are given up")
    parser.add_argument("--record", type=Path, help="a file for all that was said and logged")
    return parser.parse_args()


def _make_user(cluster, program):
    """Make the user of a program, and the directory of the logs that tell the truth."""
    user = cluster.create_user(program.NAME)
    logs = cluster.directory / f"truth-{program.NAME}"
    logs.mkdir()
    os.chown(logs, user.uid, user.gid)
    return user, logs


def _watch(driver, watcher, runs, wanted):
    """Ask again and again while the jobs run, and once more when all is settled; return all that was said."""
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
    return Record(runs, rows, shown, flags, metrics)


def _judge(record, save_seconds, name):
    """Judge what was said of each run of a group, and the sums over all of them, which are the group's."""
    runs, metrics = record.runs, record.metrics
    bounds = Bounds(save=save_seconds, news=2 * SCAN_SECONDS + SETTLE_SECONDS + POLL_SECONDS)
    judgements = []
    for run in runs:
        judge = Judge(run, bounds)
        for asked_at, row in record.rows:
            if row["job_id"] in {attempt.job_id for attempt in run.attempts}:
                judge.judge_row(row, asked_at)
        judge.judge_show(record.shown[run.name])
        judge.judge_flags(record.flags)
        judgements += judge.judgements
    unsaved = [truth.measure_unsaved(attempt) for run in runs for attempt in run.attempts]
    redone = [seconds for run in runs for seconds in truth.measure_redone(run.attempts).values()]
    for part, true in (("lost", unsaved), ("redone", redone)):
        slack = save_seconds + ROUNDING_SECONDS * sum(seconds > 0 for seconds in true)
        low, high = (_sum(metrics, f"ckptd_{part}_{bound}seconds_total") for bound in ("", "high_"))
        is_part = _sum(metrics, f"ckptd_{part}_unknown_attempts_total") > 0
        judgements.append(judge_totals(name, f"{part} seconds", (low, high), sum(true), slack, is_part=is_part))
    return judgements


def _sum(metrics, name):
    return sum(float(value) for value in re.findall(rf"^{name}\{{[^}}]*\}} (\S+)$", metrics, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main())
