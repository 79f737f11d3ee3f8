"""How right the health rules are on a made-up cluster whose truth is known: `python tests/bench/rules_accuracy.py`.

Runs weeks of cluster life through the daemon's own decisions and prints recall and precision of each rule, false flags
per 1,000 job-days, the error of the forecasts, and how often at-risk came in time.
"""

import argparse
import functools
import operator
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulation import score
from simulation.observer import Watch
from simulation.world import make_world


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--days", type=float, default=21)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="several are added up")
    parser.add_argument("--scripts", action="store_true", help="the site lets batch scripts be read")
    parser.add_argument("--show", nargs="*", default=(), help="print the false and missed cases of these rules")
    options = parser.parse_args()
    results = {}
    try:
        watch_worlds(options, results)
    except KeyboardInterrupt:
        print(f"stopped; this is of seeds {', '.join(map(str, results))}")
    if results:
        for line in score.describe(functools.reduce(operator.add, results.values())):
            print(line)
    if len(results) > 1:
        for line in worst(results):
            print(line)


def watch_worlds(options, results):
    for seed in options.seed:
        before = time.process_time()
        watch = Watch(
            make_world(seed, run_count=options.runs, days=options.days), seed=seed, reads_scripts=options.scripts
        ).watch()
        spent = time.process_time() - before
        results[seed] = score.measure(watch)
        each = spent / watch.evaluation_count * 1e6
        print(f"seed {seed}: {options.days:g} days in {spent:.1f} s of processor time, {each:.0f} us for each decision")
        if len(options.seed) > 1:
            print(summary(results[seed]), flush=True)
        for rule in options.show:
            show(watch, rule)


def summary(result):
    counts = [(rule, result.rules[rule]) for rule in score.CRITICAL_RULES]
    amiss = [f"{rule} {c.recall:.3f}/{c.precision:.3f}" for rule, c in counts if min(c.recall, c.precision) < 1]
    notice = result.notice
    return (
        f"  at-risk in time {notice.in_time}/{notice.predictable}, warnings right "
        f"{notice.warnings.right}/{notice.warnings.flags}; recall/precision below 1: {', '.join(amiss) or 'none'}"
    )


def worst(results):
    """Say in which world each rule did worst."""
    for rule in (*score.CRITICAL_RULES, *score.OTHER_RULES):
        recalls = {seed: result.rules[rule].recall for seed, result in results.items()}
        precisions = {seed: result.rules[rule].precision for seed, result in results.items()}
        low, vague = min(recalls, key=recalls.get), min(precisions, key=precisions.get)
        said = f"recall {recalls[low]:.3f} (seed {low}), precision {precisions[vague]:.3f} (seed {vague})"
        yield f"{rule}: at worst {said}"
    in_time = {s: r.notice.in_time / max(r.notice.predictable, 1) for s, r in results.items()}
    right = {s: r.notice.warnings.precision for s, r in results.items()}
    late, vague = min(in_time, key=in_time.get), min(right, key=right.get)
    said = f"in time {in_time[late]:.3f} (seed {late}), warnings right {right[vague]:.3f} (seed {vague})"
    yield f"at-risk: at worst {said}"


def show(watch, rule):
    if rule == "at-risk":
        notice = score.score_at_risk(watch)
        for run, execution, lost, opened in notice.late:
            print("late", run.number, run.kind, round(run.interval), run.jitter, execution, round(lost), opened)
        for run, flag in (*notice.warnings.wrong, *notice.criticals.wrong):
            told = f"{flag.finding.severity} of job {flag.finding.job_id} at {round(score.seconds(flag.opened_at))}"
            print("false", run.number, run.kind, round(run.interval), run.jitter, told, flag.finding.evidence)
        return
    counts = score.score_rules(watch)[rule]
    for run, opened, resolved, episodes in counts.wrong:
        print(rule, "false", run.number, run.kind, round(opened), round(resolved), episodes)
    for run, begin, end in counts.missed:
        print(rule, "missed", run.number, run.kind, round(begin), round(end))


if __name__ == "__main__":
    main()
